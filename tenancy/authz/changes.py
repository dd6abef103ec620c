"""That rights changed, told to every process that remembers some.

Whoever remembers what somebody may do remembers with it what `stamp` gave before it looked, and looks again when that
is another. A change renews the stamp, for all processes of this server at once, and counts up `RightsVersion` in its
own transaction; the processes of other servers look at that row every `EVERY_SECONDS`. What nobody has looked after
for `KNOWN_SECONDS` is not believed any more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from django.db import transaction

from icekeeper.kernel.db.sql import execute, fetch_one
from icekeeper.kernel.periodic_thread import PeriodicThread
from tenancy.shared_epoch import SharedEpoch

EVERY_SECONDS: Final = 1.0
KNOWN_SECONDS: Final = 3.0
"""By when every process has seen a change, or remembers nothing any more."""

logger = logging.getLogger("icekeeper.authz")

_COUNT_UP: Final = """
INSERT INTO tenancy_rightsversion (singleton, number) VALUES (1, 1)
ON CONFLICT (singleton) DO UPDATE SET number = tenancy_rightsversion.number + 1
"""


class RightsChanges:
    """Of one process; the stamp is shared with those of the same server."""

    def __init__(self) -> None:
        self._stamp = SharedEpoch()
        self._version: int | None = None
        self._looked_at = float("-inf")

    def stamp(self) -> int:
        """Another number than before when rights have changed."""
        return self._stamp.read()

    def renew(self) -> None:
        self._stamp.bump()

    def is_watched(self) -> bool:
        """Whether what is remembered may be believed at all."""
        return time.monotonic() - self._looked_at < KNOWN_SECONDS

    def look(self) -> None:
        """Ask the database. Raises what the database raises."""
        looked_at = time.monotonic()
        row = fetch_one("default", "SELECT number FROM tenancy_rightsversion", [])
        version = None if row is None else int(row[0])
        if version != self._version:
            self._version = version
            self._stamp.bump()
        self._looked_at = looked_at

    def unwatch(self) -> None:
        """Believe nothing any more until the next look."""
        self._looked_at = float("-inf")


rights_changes: Final = RightsChanges()
"""Made when the application is loaded, which is before the server forks."""


def rights_changed() -> None:
    """To be called last in the transaction of whatever changes what somebody may do with an object that was there.

    New objects need it not: nobody remembers anything of them. The row is locked to the end of the transaction. If it
    is in doubt whether that was committed, the next look at the row tells.
    """
    execute(_COUNT_UP, [])
    rights_changes.renew()  # who waits for a lock of this transaction asks again, even before the next line is come to
    transaction.on_commit(rights_changes.renew, robust=True)


def start_watching() -> Callable[[], None]:
    """Begin, in a process that serves (`BACKGROUND_JOBS`); what is returned ends it."""
    thread = PeriodicThread("rights", _look, interval=EVERY_SECONDS)
    thread.start()

    def end() -> None:
        thread.stop()
        rights_changes.unwatch()

    return end


def _look() -> None:
    try:
        rights_changes.look()
    except Exception as error:  # noqa: BLE001 - a thread that ends at the first error would never look again
        logger.warning("changes of rights cannot be looked at, nothing is remembered meanwhile: %s", error)
