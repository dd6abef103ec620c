"""The number of connections of each worker, in memory that all workers share.

The kernel wakes every worker for a new connection, and the one that is already running usually accepts it; with a few
long-lived clients one process would do all the work. So a worker with more connections lets the others accept first.
"""

from __future__ import annotations

import mmap

_EMPTY = 2**32 - 1
_WIDTH = 4


class LoadBoard:
    """Created before the fork. A slot is written by its worker and, after the worker's exit, by the arbiter."""

    def __init__(self, workers: int) -> None:
        # Two slots a worker: while workers are replaced, old and new ones run at the same time.
        self._counts = memoryview(mmap.mmap(-1, _WIDTH * 2 * workers)).cast("I")
        for slot in range(len(self._counts)):
            self._counts[slot] = _EMPTY

    def claim(self) -> int:
        """Return a free slot for a new worker; without one, the last slot, which is then shared."""
        slot = next((slot for slot, count in enumerate(self._counts) if count == _EMPTY), len(self._counts) - 1)
        self._counts[slot] = 0
        return slot

    def release(self, slot: int) -> None:
        self._counts[slot] = _EMPTY

    def write(self, slot: int, connections: int) -> None:
        self._counts[slot] = connections

    def another_has_fewer(self, connections: int) -> bool:
        return min(self._counts) < connections
