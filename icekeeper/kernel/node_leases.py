"""What the processes of one server tell each other about who is at work on something, without asking a database.

Advice, not protection: a lease runs out by itself, is lost without harm, and two addresses may share one. What must be
exclusive is decided where the data is. Processes that were not forked from one that called `share_leases` (commands,
other nodes) take every lease at once.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from hashlib import blake2b
from threading import Lock

from icekeeper.kernel.files import open_anonymous_file
from icekeeper.kernel.request.thread_slots import release_thread_slot

SLOTS = 65_536
LEASE_SECONDS = 1.0
"""How long a process that does not give its lease back, because it was killed or stopped, holds up the others."""

POLL_SECONDS = 0.001
STILL_WANTED_SECONDS = 0.02
"""How long after its last look a waiting process is believed to wait."""

_SLOT = struct.Struct("=IIdd")


@dataclass(slots=True)
class _Slot:
    """Who holds the lease, who waits for it (pids, 0 for nobody), and until when."""

    holder: int
    waiting: int
    held_until: float
    waits_until: float


class LeaseBoard:
    """Memory that a process shares with those it forks. Times are of the monotonic clock, one for all processes."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, SLOTS * _SLOT.size)
        self._file = open_anonymous_file("icekeeper-leases")  # stays empty: locks need no bytes
        self._lock = Lock()

    def close(self) -> None:
        self._memory.close()
        self._file.close()

    def take(self, number: int) -> bool:
        """Whether this process holds the lease now; it had it already, or nobody did. Else it is known to wait."""
        me, at = os.getpid(), time.monotonic()
        with self._changing(number) as slot:
            if slot.holder in (0, me) or slot.held_until <= at:
                slot.holder, slot.held_until = me, at + LEASE_SECONDS
                if slot.waiting == me:
                    slot.waiting = 0
                return True
            if slot.waiting in (0, me) or slot.waits_until <= at:
                slot.waiting, slot.waits_until = me, at + STILL_WANTED_SECONDS
            return False

    def give_back(self, number: int, *, keep_seconds: float) -> None:
        """Hold the lease for `keep_seconds` more; with 0 it goes to who waits for it, who must come and take it."""
        me, at = os.getpid(), time.monotonic()
        with self._changing(number) as slot:
            if slot.holder != me:
                return
            if keep_seconds > 0:
                slot.held_until = at + keep_seconds
            else:
                is_awaited = slot.waiting not in (0, me) and slot.waits_until > at
                slot.holder = slot.waiting if is_awaited else 0
                slot.held_until, slot.waiting = at + STILL_WANTED_SECONDS, 0

    @contextmanager
    def _changing(self, number: int) -> Iterator[_Slot]:
        """One slot to read and write, locked between threads and processes for the few instructions that takes.

        The kernel takes the second lock from a process that dies.
        """
        descriptor, offset = self._file.fileno(), number * _SLOT.size
        with self._lock:
            fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, number)
            try:
                slot = _Slot(*_SLOT.unpack_from(self._memory, offset))
                yield slot
                _SLOT.pack_into(self._memory, offset, *astuple(slot))
            finally:
                fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, number)


_board: LeaseBoard | None = None


def share_leases() -> None:
    """Share leases among the processes that are forked from now on. Called once by the server, before the first."""
    global _board  # noqa: PLW0603 - what a fork hands on
    _board = LeaseBoard()


def lease_slot(address: Hashable) -> int:
    digest = blake2b(repr(address).encode(errors="surrogatepass"), digest_size=4).digest()
    return int.from_bytes(digest) % SLOTS


def take_lease(slot: int, *, seconds: float) -> bool:
    """Wait for the lease at most so long; whether it came."""
    if _board is None or _board.take(slot):
        return True
    until = time.monotonic() + seconds
    with release_thread_slot():
        while time.monotonic() < until:
            time.sleep(POLL_SECONDS)
            if _board.take(slot):
                return True
    return False


def release_lease(slot: int, *, keep_seconds: float = 0.0) -> None:
    """Let other processes have it, in so many seconds."""
    if _board is not None:
        _board.give_back(slot, keep_seconds=keep_seconds)
