"""Limits how many requests wait for a result that may never arrive, so that threads are left for other requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import BoundedSemaphore
from typing import Final

from icekeeper.kernel.request.thread_slots import release_thread_slot

SHORT_WAIT_SECONDS: Final = 1.0
"""Most results that arrive at all arrive within this time."""
MAX_SHORT_WAITERS: Final = 32
"""Requests that wait that long for one result; half of the extra threads of a server process."""
MAX_LONG_WAITERS: Final = 4
"""Requests that continue to wait for it after that."""


class WaiterLimit:
    """Limits the waiters for one result: many wait for a short time, a few for long, all others not at all.

    A burst of requests is therefore served by a source that responds, and a flood occupies few threads while the source
    does not respond.
    """

    def __init__(self, *, max_short_waiters: int = MAX_SHORT_WAITERS) -> None:
        self._short, self._long = BoundedSemaphore(max_short_waiters), BoundedSemaphore(MAX_LONG_WAITERS)

    def wait(self, arrives: Callable[[float], bool], *, seconds: float, short_wait: float = SHORT_WAIT_SECONDS) -> bool:
        """Return whether the result arrived within `seconds`, of which `short_wait` is open to many waiters.

        `arrives` gets the seconds to wait (0 means a look without waiting) and returns whether the result arrived.
        """
        ends_at = time.monotonic() + seconds
        return (
            arrives(0)
            or _wait(self._short, arrives, min(seconds, short_wait))
            or _wait(self._long, arrives, ends_at - time.monotonic())
        )


def _wait(seats: BoundedSemaphore, arrives: Callable[[float], bool], seconds: float) -> bool:
    if seconds <= 0 or not seats.acquire(blocking=False):
        return False
    try:
        with release_thread_slot():
            return arrives(seconds)
    finally:
        seats.release()
