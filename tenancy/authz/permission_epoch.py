"""The permission epoch: a number that changes with every change of permissions and invalidates cached decisions.

A cached decision is stored together with the epoch that was current before the database was read, and is valid only
while the epoch is the same. A change bumps the epoch for all processes of this server at once and increments
`RightsVersion` in its own transaction; the processes of other servers poll that row each second (`PERIODIC_JOBS`). A
process that has not polled for `MAX_AGE_SECONDS` uses no cached decision.

Inside `share_reads` each object is read once, and again after a change of the epoch: rechecks before a write see it.
"""

from __future__ import annotations

import mmap
import secrets
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from cachetools import LRUCache
from django.db import transaction

from icekeeper.kernel.db.sql import execute, fetch_one

if TYPE_CHECKING:
    from tenancy.authz.builtin.evaluation import Evaluation
    from tenancy.authz.builtin.queries import Roles
    from tenancy.authz.port import Subject

_BITS = 64


class SharedEpoch:
    """A number that every process of a server reads, and that changes when something that they cache has changed.

    The process that creates it shares it with the processes that it forks afterwards; any other process (a command,
    another node) has an epoch of its own. There is no lock: an epoch is one aligned word, which is read and written
    whole, and random, so that two processes which bump it at once write a value that no process has read before.
    """

    def __init__(self) -> None:
        self._word = memoryview(mmap.mmap(-1, _BITS // 8)).cast("Q")

    def current(self) -> int:
        return self._word[0]

    def bump(self) -> None:
        """Change the number in every process."""
        self._word[0] = secrets.randbits(_BITS)


MAX_AGE_SECONDS: Final = 3.0
"""After this time every process has seen a change, or uses no cached decision."""

_INCREMENT: Final = """
INSERT INTO tenancy_rightsversion (singleton, number) VALUES (1, 1)
ON CONFLICT (singleton) DO UPDATE SET number = tenancy_rightsversion.number + 1
"""


class PermissionEpoch(SharedEpoch):
    """The epoch as one process knows it; processes of the same server share the number."""

    def __init__(self) -> None:
        super().__init__()
        self._version: int | None = None
        self._polled_at = float("-inf")

    def is_fresh(self) -> bool:
        """Return whether cached decisions may be used at all."""
        return time.monotonic() - self._polled_at < MAX_AGE_SECONDS

    def poll(self) -> None:
        """Read the version in the database and bump the epoch when it differs. Raises database errors."""
        polled_at = time.monotonic()
        row = fetch_one("default", "SELECT number FROM tenancy_rightsversion", [])
        version = None if row is None else int(row[0])
        if version != self._version:
            self._version = version
            self.bump()
        self._polled_at = polled_at

    def invalidate(self) -> None:
        """Use no cached decision until the next poll."""
        self._polled_at = float("-inf")


permission_epoch: Final = PermissionEpoch()
"""Created when the application is loaded, which is before the server forks."""


def bump_permission_epoch() -> None:
    """Call this last in a transaction that changes permissions on objects that existed before.

    New objects do not need it: no decision on them is cached. The row stays locked until the end of the transaction. If
    the result of the commit is unknown, the next poll of the row shows it.
    """
    execute(_INCREMENT, [])
    permission_epoch.bump()  # requests that wait for a lock of this transaction check again before `on_commit` runs
    transaction.on_commit(permission_epoch.bump, robust=True)


def poll_permission_epoch() -> None:
    """Poll in a server process (`PERIODIC_JOBS`). Raises database errors: meanwhile cached decisions are not used."""
    permission_epoch.poll()


T = TypeVar("T")


NO_EXPIRY = float("inf")


class CachedDecision(NamedTuple, Generic[T]):
    """`ends_at` (seconds as of `time.time`) is the earliest expiry of the grants that the value depends on."""

    value: T
    ends_at: float
    epoch: int


class DecisionCache(Generic[T]):
    """The `size` most recently used values, each valid until the epoch changes or a grant expires."""

    def __init__(self, size: int) -> None:
        self._values: LRUCache[Hashable, CachedDecision[T]] = LRUCache(size)
        self._lock = Lock()

    def get(self, key: Hashable) -> CachedDecision[T] | None:
        if not permission_epoch.is_fresh():
            return None
        try:
            with self._lock:
                cached = self._values[key]
        except KeyError:
            return None
        if cached.epoch != permission_epoch.current() or cached.ends_at <= time.time():
            return None
        return cached

    def put(self, key: Hashable, value: T, *, epoch: int, ends_at: float) -> None:
        """`epoch` is the permission epoch before the value was read."""
        with self._lock:
            self._values[key] = CachedDecision(value, ends_at, epoch)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()


class SharedReads:
    """What the selectors of one page have read since the block began, by subject and securable id.

    They ask about the same object, its parents and the same users. `shows_below` has whether an object below is visible
    to the subject.
    """

    def __init__(self) -> None:
        self.epoch = permission_epoch.current()
        self.roles: dict[Subject, Roles] = {}
        self.objects: dict[tuple[Subject, str], Evaluation] = {}
        self.shows_below: dict[tuple[Subject, str], bool] = {}


_shared: ContextVar[SharedReads | None] = ContextVar("shared_reads", default=None)


@contextmanager
def share_reads() -> Iterator[None]:
    """Share reads of grants in the block and the one around it: for requests that only read, within milliseconds."""
    if _shared.get() is not None:
        yield
        return
    token = _shared.set(SharedReads())
    try:
        yield
    finally:
        _shared.reset(token)


def shared_reads() -> SharedReads | None:
    """Return what the current block has read, empty after permissions have changed; None outside blocks."""
    found = _shared.get()
    if found is not None and found.epoch != permission_epoch.current():
        found = SharedReads()
        _shared.set(found)
    return found
