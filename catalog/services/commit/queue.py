"""The commit queue of each table: one writer at a time on this machine, and retries when another machine was faster.

Threads wait in a queue of their process, the processes of one server for a lease in memory that they share. Both are
advisory: leases expire, can be lost, and two tables may share one; commands and other machines get each lease at once.
The compare-and-set of the pointer excludes others.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import random
import struct
import time
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass
from hashlib import blake2b
from threading import Condition, Lock

from cachetools import LRUCache

from catalog.services.approval.approve import drop_approvals
from icekeeper.kernel import request_context
from icekeeper.kernel.errors.types import CommitContended, CommitFailed
from icekeeper.kernel.files import open_anonymous_file
from icekeeper.kernel.request_context import current_context
from icekeeper.kernel.threads import release_thread_slot
from tenancy.authz.port import AuthorizationBackendError

MAX_ATTEMPTS = 60
"""How often a commit is evaluated again when another machine moved the pointer in between."""

BACKOFF_SECONDS = 0.01
MAX_BACKOFF_SECONDS = 0.16

MAX_QUEUES = 4096
"""Tables whose queues are kept in memory."""

MAX_WAIT_SECONDS = 20.0
"""For a slot, where the request's own deadline does not end the wait earlier."""

RESERVED_SECONDS = 0.02
"""How long the slot is reserved for a writer whose commit failed, so that it can read the new version and return."""

MAX_YIELD_SECONDS = 0.2
"""How long the first waiter lets clients with a reserved slot go before it, in total."""

MAX_CONTINUE_SECONDS = 0.06
"""How long a client that commits again and again goes before the waiters."""

CONTENTION_SECONDS = 1.0
"""How long after a failed commit the table is taken to be contended."""

MAX_KNOWN_CLIENTS = 256
"""Connections whose last commits are recorded for a table."""

LEASES = 65_536
"""Leases of a server, one for several tables if it has many."""

LEASE_SECONDS = 1.0
"""Time after which a lease expires that a killed or stopped process has not released."""

LEASE_POLL_SECONDS = 0.001
LEASE_WAITER_SECONDS = 0.02
"""Time after the last poll of a waiting process after which it no longer counts as waiting."""

_LEASE = struct.Struct("=IIdd")


@contextmanager
def reserve_commit_slots(addresses: Iterable[Hashable]) -> Iterator[None]:
    """Be the only writer on this machine that commits to `addresses`; slots and leases are taken in one order.

    No database lock: other machines are kept out by the compare-and-set alone. Raises `CommitContended` (409) when the
    slot is not free in time, and when the authorization backend is unavailable: after a bare 503 Iceberg clients would
    have to assume that the commit may have happened.
    """
    try:
        with ExitStack() as slots:
            for address in sorted(set(addresses), key=lambda each: (lease_number(each), str(each))):
                slots.enter_context(_commit_slot(address))
            yield
    except AuthorizationBackendError as failure:
        raise CommitContended(f"Nothing was committed: {failure.message}") from failure


def attempts(what: object) -> Iterator[int]:
    """Yield attempt numbers with a jittered backoff in between, within the time that the request has left.

    Each attempt asks the rules about changes itself.
    Raises `CommitContended` (409), after which clients retry, when attempts or time are used up.
    """
    left = request_context.remaining_seconds()  # read once: an attempt that wrote has ended the request's deadline
    until = None if left is None else time.monotonic() + left
    for attempt in range(MAX_ATTEMPTS):
        if attempt:
            drop_approvals()
            time.sleep(random.uniform(0, min(BACKOFF_SECONDS * 2**attempt, MAX_BACKOFF_SECONDS)))  # noqa: S311
        if until is not None and time.monotonic() > until:
            break
        yield attempt
    raise CommitContended(f"Commit conflict: {what} was changed by others again and again; try again")


@dataclass(slots=True)
class _ClientHistory:
    """When a client committed last, and whether it came back immediately after that."""

    committed_at: float = -math.inf
    is_quick: bool = False


class CommitQueue:
    """The waiters for one table in the order of arrival, except that a client whose commit failed may return first.

    Without that exception, all waiters with an old version would fail one after the other. The slot is reserved for a
    failed client, by its connection, until it returns with the new version: so each writer of a contended table fails
    at most once, and no waiter starves. A client that commits repeatedly continues for a short time on top of its own
    version before the next waiter gets the slot.
    """

    __slots__ = (
        "clients", "failed_at", "holder", "holding_since", "is_taken", "lock", "reserved_for", "reserved_until",
        "waiters",
    )  # fmt: skip

    def __init__(self) -> None:
        self.lock = Lock()
        self.waiters: deque[Condition] = deque()
        self.is_taken = False
        self.reserved_for: str | None = None
        self.reserved_until = -math.inf
        self.clients: LRUCache[str, _ClientHistory] = LRUCache(maxsize=MAX_KNOWN_CLIENTS)
        self.holder: str | None = None
        self.holding_since = self.failed_at = -math.inf

    def acquire(self, seconds: float, *, client: str | None) -> bool:
        """Wait for the slot; False when it is not free within `seconds`."""
        at = time.monotonic()
        until = at + seconds
        with self.lock:
            if client is not None and not self._is_reserved_for(client):
                history = self.clients.get(client)
                if history is not None:
                    history.is_quick = at - history.committed_at <= RESERVED_SECONDS
            is_first = not self.waiters or self._is_reserved_for(client)
            if not self.is_taken and is_first and self._is_free_for(client):
                self._take(client, at)
                return True
        with release_thread_slot(), self.lock:
            waiter = Condition(self.lock)
            self.waiters.append(waiter)
            try:
                return self._wait(waiter, until, client)
            finally:
                self.waiters.remove(waiter)
                self._notify_first()

    def _wait(self, waiter: Condition, until: float, client: str | None) -> bool:
        yields_until = math.inf
        while True:
            at = time.monotonic()
            wait_until = until
            if not self.is_taken and self.waiters[0] is waiter:
                yields_until = min(yields_until, at + MAX_YIELD_SECONDS)
                free_at = min(self.reserved_until, yields_until)
                if free_at <= at:
                    self._take(client, at)
                    return True
                wait_until = min(until, free_at)
            if at >= until:
                return False
            waiter.wait(wait_until - at)

    def may_continue(self) -> bool:
        """Whether the holder, which has committed, may come back before the waiters.

        Only where commits have failed: writers that do not conflict need not wait for each other.
        """
        history = self.clients.get(self.holder) if self.holder is not None else None
        if history is None or not history.is_quick:
            return False
        at = time.monotonic()
        return at - self.holding_since < MAX_CONTINUE_SECONDS and at - self.failed_at < CONTENTION_SECONDS

    def release(self, *, has_committed: bool, is_reserved: bool) -> None:
        """Free the slot, or reserve it for the connection of its holder."""
        with self.lock:
            at = time.monotonic()
            self.is_taken = False
            if has_committed and self.holder is not None:
                self.clients.setdefault(self.holder, _ClientHistory()).committed_at = at
            if is_reserved and self.holder is not None:
                self.reserved_for, self.reserved_until = self.holder, at + RESERVED_SECONDS
                if not has_committed:
                    self.failed_at = at
            self._notify_first()

    def _is_reserved_for(self, client: str | None) -> bool:
        return client is not None and client == self.reserved_for

    def _is_free_for(self, client: str | None) -> bool:
        return self._is_reserved_for(client) or self.reserved_until <= time.monotonic()

    def _take(self, client: str | None, at: float) -> None:
        if not self._is_reserved_for(client):
            self.holding_since = at
        self.is_taken, self.holder = True, client
        self.reserved_for, self.reserved_until = None, -math.inf

    def _notify_first(self) -> None:
        if self.waiters and not self.is_taken:
            self.waiters[0].notify()


_queues: LRUCache[Hashable, CommitQueue] = LRUCache(maxsize=MAX_QUEUES)
"""Of the tables that were committed to last. An evicted queue that is in use costs order only."""
_queues_lock = Lock()


@contextmanager
def _commit_slot(address: Hashable) -> Iterator[None]:
    """The slot among this process's writers, then the lease among the processes, which is optional.

    Both are reserved for a writer whose commit failed.
    """
    lease = lease_number(address)
    with _queues_lock:
        queue = _queues.get(address)
        if queue is None:
            queue = _queues[address] = CommitQueue()
    left = request_context.remaining_seconds()
    seconds = MAX_WAIT_SECONDS if left is None else min(left, MAX_WAIT_SECONDS)
    if not queue.acquire(seconds, client=current_context().client_connection):
        raise CommitContended("Commit conflict: too many commits to the same table are waiting; try again")
    has_committed = is_reserved = False
    try:
        acquire_lease(lease, seconds=LEASE_SECONDS)
        yield
        has_committed, is_reserved = True, queue.may_continue()
    except CommitFailed as error:
        is_reserved = not isinstance(error, CommitContended)  # which says nothing about the version that was read
        raise
    finally:
        try:  # a slot that is never released would close the table to this process
            release_lease(lease, keep_seconds=RESERVED_SECONDS if is_reserved else 0.0)
        finally:
            queue.release(has_committed=has_committed, is_reserved=is_reserved)


@dataclass(slots=True)
class _Lease:
    """Process ids of the holder and of the first waiter (0 without one), each with its expiry."""

    holder: int
    waiter: int
    expires: float
    waiter_expires: float


class LeaseBoard:
    """Leases in memory that forked processes share. Times are those of the monotonic clock of the system."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, LEASES * _LEASE.size)
        self._file = open_anonymous_file("icekeeper-leases")  # stays empty: byte locks need no bytes
        self._lock = Lock()

    def close(self) -> None:
        self._memory.close()
        self._file.close()

    def acquire(self, number: int) -> bool:
        """Acquire or renew the lease; return False, and register as waiter, if another process holds it."""
        own, now = os.getpid(), time.monotonic()
        with self._locked_lease(number) as lease:
            if lease.holder in (0, own) or lease.expires <= now:
                lease.holder, lease.expires = own, now + LEASE_SECONDS
                if lease.waiter == own:
                    lease.waiter = 0
                return True
            if lease.waiter in (0, own) or lease.waiter_expires <= now:
                lease.waiter, lease.waiter_expires = own, now + LEASE_WAITER_SECONDS
            return False

    def release(self, number: int, *, keep_seconds: float) -> None:
        """Release the lease after `keep_seconds`; with 0 it passes to the waiter, which must still acquire it."""
        own, now = os.getpid(), time.monotonic()
        with self._locked_lease(number) as lease:
            if lease.holder != own:
                return
            if keep_seconds > 0:
                lease.expires = now + keep_seconds
            else:
                has_waiter = lease.waiter not in (0, own) and lease.waiter_expires > now
                lease.holder = lease.waiter if has_waiter else 0
                lease.expires, lease.waiter = now + LEASE_WAITER_SECONDS, 0

    @contextmanager
    def _locked_lease(self, number: int) -> Iterator[_Lease]:
        """Read a lease and write it back, under a lock between threads and one between processes.

        The operating system releases the second lock of a process that dies.
        """
        descriptor, offset = self._file.fileno(), number * _LEASE.size
        with self._lock:
            fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, number)
            try:
                lease = _Lease(*_LEASE.unpack_from(self._memory, offset))
                yield lease
                _LEASE.pack_into(self._memory, offset, *astuple(lease))
            finally:
                fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, number)


_board: LeaseBoard | None = None


def share_leases() -> None:
    """Share leases among the processes that this one forks; `serve` calls it before (`STARTUP_JOBS`)."""
    global _board  # noqa: PLW0603 - inherited by forked processes
    _board = LeaseBoard()


def lease_number(key: Hashable) -> int:
    """Return the number of the lease for `key`."""
    digest = blake2b(repr(key).encode(errors="surrogatepass"), digest_size=4).digest()
    return int.from_bytes(digest) % LEASES


def acquire_lease(number: int, *, seconds: float) -> bool:
    """Wait up to `seconds` for the lease; return whether it was acquired."""
    if _board is None or _board.acquire(number):
        return True
    until = time.monotonic() + seconds
    with release_thread_slot():
        while time.monotonic() < until:
            time.sleep(LEASE_POLL_SECONDS)
            if _board.acquire(number):
                return True
    return False


def release_lease(number: int, *, keep_seconds: float = 0.0) -> None:
    """Let other processes acquire the lease after `keep_seconds`."""
    if _board is not None:
        _board.release(number, keep_seconds=keep_seconds)
