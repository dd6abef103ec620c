"""Leases in memory that the processes of one server share, for cooperation without a database.

Leases are advisory: they expire, can be lost, and two keys may share one. The database must enforce exclusion.
Processes that were not forked after `share_leases` (commands, other nodes) acquire every lease immediately.
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
from icekeeper.kernel.threads import release_thread_slot

SLOTS = 65_536
LEASE_SECONDS = 1.0
"""Time after which a lease expires that a killed or stopped process has not released."""

POLL_SECONDS = 0.001
WAITER_TIMEOUT_SECONDS = 0.02
"""Time after the last poll of a waiting process after which it no longer counts as waiting."""

_SLOT = struct.Struct("=IIdd")


@dataclass(slots=True)
class _Slot:
    """Process ids of the holder and of the first waiter (0 without one), each with its expiry."""

    holder: int
    waiter: int
    expires: float
    waiter_expires: float


class LeaseBoard:
    """Leases in memory that forked processes share. Times are those of the monotonic clock of the system."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, SLOTS * _SLOT.size)
        self._file = open_anonymous_file("icekeeper-leases")  # stays empty: byte locks need no bytes
        self._lock = Lock()

    def close(self) -> None:
        self._memory.close()
        self._file.close()

    def acquire(self, number: int) -> bool:
        """Acquire or renew the lease; return False, and register as waiter, if another process holds it."""
        own, now = os.getpid(), time.monotonic()
        with self._locked_slot(number) as slot:
            if slot.holder in (0, own) or slot.expires <= now:
                slot.holder, slot.expires = own, now + LEASE_SECONDS
                if slot.waiter == own:
                    slot.waiter = 0
                return True
            if slot.waiter in (0, own) or slot.waiter_expires <= now:
                slot.waiter, slot.waiter_expires = own, now + WAITER_TIMEOUT_SECONDS
            return False

    def release(self, number: int, *, keep_seconds: float) -> None:
        """Release the lease after `keep_seconds`; with 0 it passes to the waiter, which must still acquire it."""
        own, now = os.getpid(), time.monotonic()
        with self._locked_slot(number) as slot:
            if slot.holder != own:
                return
            if keep_seconds > 0:
                slot.expires = now + keep_seconds
            else:
                has_waiter = slot.waiter not in (0, own) and slot.waiter_expires > now
                slot.holder = slot.waiter if has_waiter else 0
                slot.expires, slot.waiter = now + WAITER_TIMEOUT_SECONDS, 0

    @contextmanager
    def _locked_slot(self, number: int) -> Iterator[_Slot]:
        """Read a slot and write it back, under a lock between threads and one between processes.

        The operating system releases the second lock of a process that dies.
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
    """Share leases among the processes that this one forks. The server calls it before the first fork."""
    global _board  # noqa: PLW0603 - inherited by forked processes
    _board = LeaseBoard()


def lease_slot(key: Hashable) -> int:
    """Return the number of the lease for `key`."""
    digest = blake2b(repr(key).encode(errors="surrogatepass"), digest_size=4).digest()
    return int.from_bytes(digest) % SLOTS


def acquire_lease(slot: int, *, seconds: float) -> bool:
    """Wait up to `seconds` for the lease; return whether it was acquired."""
    if _board is None or _board.acquire(slot):
        return True
    until = time.monotonic() + seconds
    with release_thread_slot():
        while time.monotonic() < until:
            time.sleep(POLL_SECONDS)
            if _board.acquire(slot):
                return True
    return False


def release_lease(slot: int, *, keep_seconds: float = 0.0) -> None:
    """Let other processes acquire the lease after `keep_seconds`."""
    if _board is not None:
        _board.release(slot, keep_seconds=keep_seconds)
