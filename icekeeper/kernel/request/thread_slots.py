"""Request threads that release their slot while they wait for other requests.

Without this, the writers of one contended table would occupy all threads of a server process, and the request that they
wait for could not even read the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

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
