"""Request threads of a server process that wait: they release their slot, and their number is limited."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import Final, Protocol

from icekeeper.kernel.db.connections import release_connections


class SlotPool(Protocol):
    """The thread pool of a server process. Both methods are called in the thread that waits."""

    def begin_wait(self) -> None: ...

    def end_wait(self) -> None: ...


_pool: SlotPool | None = None


def set_slot_pool(pool: SlotPool | None) -> None:
    """Set the pool of this process. Each server process calls it once, before its threads run."""
    global _pool  # noqa: PLW0603 - one per process
    _pool = pool


@contextmanager
def release_thread_slot() -> Iterator[None]:
    """Release this thread's slot and its pooled connections during a wait of a millisecond or more."""
    release_connections()
    if _pool is None:
        yield
        return
    _pool.begin_wait()
    try:
        yield
    finally:
        _pool.end_wait()


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
