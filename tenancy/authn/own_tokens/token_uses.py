"""When access tokens were last used: kept in memory, written down by a thread of each server process.

A request writes nothing. What was not written yet is lost with a process that is killed: `last_used_at` then lags by
up to `EVERY_SECONDS`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from threading import Lock
from time import time
from typing import Final
from uuid import UUID

from django.conf import settings

from icekeeper.kernel.db.sql import execute
from icekeeper.kernel.db.write_transaction import write_transaction
from icekeeper.kernel.periodic_thread import PeriodicThread
from tenancy.maintenance import is_read_only

logger = logging.getLogger("icekeeper.authn")

EVERY_SECONDS: Final = 30.0
MAX_CACHED: Final = 10_000
"""Tokens between two writes; of more, the time of use is not noted."""

_WRITE: Final = """
UPDATE tenancy_accesstoken SET last_used_at = %s WHERE id = %s AND (last_used_at IS NULL OR last_used_at < %s)
"""


class TokenUses:
    """By token, when it was used last, in seconds since the epoch."""

    def __init__(self) -> None:
        self._used: dict[UUID, float] = {}
        self._lock = Lock()

    def note(self, token_id: UUID) -> None:
        with self._lock:
            if len(self._used) < MAX_CACHED or token_id in self._used:
                self._used[token_id] = time()

    def take(self) -> dict[UUID, float]:
        with self._lock:
            taken, self._used = self._used, {}
        return taken

    def give_back(self, taken: Mapping[UUID, float]) -> None:
        with self._lock:
            self._used = {**taken, **self._used}

    def flush(self) -> None:
        """When that fails, or nothing may change now, the uses are kept for the next time."""
        if is_read_only():
            return
        taken = self.take()
        if not taken:
            return
        try:
            record_uses(taken)
        except Exception as error:  # noqa: BLE001 - a thread that ends at the first error would write nothing any more
            self.give_back(taken)
            logger.warning("the last uses of access tokens could not be written, they are kept: %s", error)


token_uses: Final = TokenUses()


def record_uses(used: Mapping[UUID, float]) -> None:
    """Rows are locked in one order, so that processes which write at once wait for each other and never in a circle."""
    with write_transaction():
        for token_id in sorted(used):
            at = datetime.fromtimestamp(used[token_id], UTC)
            execute(_WRITE, [at, token_id, at])


def start_recording() -> Callable[[], None]:
    """Begin, in a process that serves requests (`BACKGROUND_JOBS`); what is returned ends it, after a last write.

    In maintenance mode nothing is written.
    """
    if settings.ICEKEEPER.maintenance_mode != "off":
        return lambda: None
    attendant = PeriodicThread("token-uses", token_uses.flush, interval=EVERY_SECONDS)
    attendant.start()
    return attendant.stop
