"""Records when access tokens were last used, in memory and periodically in the database.

Requests write nothing. If a process is killed, up to `EVERY_SECONDS` of uses are lost.
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
"""Maximum of tokens between two writes; uses of further tokens are not recorded."""

_WRITE: Final = """
UPDATE tenancy_accesstoken SET last_used_at = %s WHERE id = %s AND (last_used_at IS NULL OR last_used_at < %s)
"""


class TokenUses:
    """Time of the last use by token, in seconds since the epoch."""

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
        """Write the uses; keep them for the next time if that fails or in maintenance mode."""
        if is_read_only():
            return
        taken = self.take()
        if not taken:
            return
        try:
            record_uses(taken)
        except Exception as error:  # noqa: BLE001 - an exception would end the thread
            self.give_back(taken)
            logger.warning("last uses of access tokens could not be written, retrying: %s", error)


token_uses: Final = TokenUses()


def record_uses(used: Mapping[UUID, float]) -> None:
    """Write the times of use; rows are locked in the order of their ids, which prevents deadlocks."""
    with write_transaction():
        for token_id in sorted(used):
            at = datetime.fromtimestamp(used[token_id], UTC)
            execute(_WRITE, [at, token_id, at])


def start_recording() -> Callable[[], None]:
    """Start the thread in a process that serves requests (`BACKGROUND_JOBS`); return a function that stops it.

    Stopping writes what is pending. Where the settings turn on maintenance mode, no thread is started.
    """
    if settings.ICEKEEPER.maintenance_mode != "off":
        return lambda: None
    thread = PeriodicThread("token-uses", token_uses.flush, interval=EVERY_SECONDS)
    thread.start()
    return thread.stop
