"""How many connections each worker holds, in memory that all of them share.

The kernel wakes every worker for a new connection and the one that runs already usually gets them all; with a few
long-lived clients one process would do all the work. So a worker that holds more than another lets that one go first.
"""

from __future__ import annotations

import mmap

_EMPTY = 2**32 - 1
_WIDTH = 4


class LoadBoard:
    """Made before the workers are forked. A slot is written by its worker and, when that is gone, by the arbiter."""

    def __init__(self, workers: int) -> None:
        # One spare for each: while workers are replaced, old and new ones live side by side.
        self._counts = memoryview(mmap.mmap(-1, _WIDTH * 2 * workers)).cast("I")
        for slot in range(len(self._counts)):
            self._counts[slot] = _EMPTY

    def claim(self) -> int:
        """A free slot for a new worker; the last one is shared when there is none."""
        slot = next((slot for slot, count in enumerate(self._counts) if count == _EMPTY), len(self._counts) - 1)
        self._counts[slot] = 0
        return slot

    def release(self, slot: int) -> None:
        self._counts[slot] = _EMPTY

    def write(self, slot: int, connections: int) -> None:
        self._counts[slot] = connections

    def another_has_fewer(self, connections: int) -> bool:
        return min(self._counts) < connections
