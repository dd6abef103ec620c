"""What the processes of one server tell each other about something that changed, without asking a database."""

from __future__ import annotations

import mmap
import secrets

_BITS = 64


class NodeStamp:
    """A number that every process of a server sees, and that no longer is what it was once something has changed.

    The process that makes it shares it with those it forks afterwards. One that was not forked from it (a command,
    another node) has a stamp of its own. There is no lock: a stamp is one aligned word, which is read and written
    whole, and random, so that two who renew it at once leave a value that nobody has seen before.
    """

    def __init__(self) -> None:
        self._word = memoryview(mmap.mmap(-1, _BITS // 8)).cast("Q")

    def read(self) -> int:
        return self._word[0]

    def renew(self) -> None:
        """From now on `read` gives another number, in every process."""
        self._word[0] = secrets.randbits(_BITS)
