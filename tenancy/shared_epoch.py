"""A change counter that the processes of one server share, so that caches are invalidated without a database read."""

from __future__ import annotations

import mmap
import secrets

_BITS = 64


class SharedEpoch:
    """A number that every process of a server reads, and that changes when something that they cache has changed.

    The process that creates it shares it with the processes that it forks afterwards; any other process (a command,
    another node) has an epoch of its own. There is no lock: an epoch is one aligned word, which is read and written
    whole, and random, so that two processes which bump it at once write a value that no process has read before.
    """

    def __init__(self) -> None:
        self._word = memoryview(mmap.mmap(-1, _BITS // 8)).cast("Q")

    def read(self) -> int:
        return self._word[0]

    def bump(self) -> None:
        """Change the number in every process."""
        self._word[0] = secrets.randbits(_BITS)
