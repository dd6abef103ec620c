"""Keys and tokens that end, renewed before they do."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from datetime import datetime
from threading import Lock
from typing import Final, Generic, Protocol, TypeVar, cast

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.request import deadline
from icekeeper.kernel.request.thread_slots import release_thread_slot
from storage.errors import StoreUnavailable

USED_FOR: Final = 0.8
"""The part of its life after which a key is renewed."""
LONGEST_WAIT: Final = 60.0
"""Seconds for another thread that asks."""
PAUSE: Final = 10.0
"""Seconds between two tries to renew a key that is still good."""


class Lent(Protocol):
    @property
    def expires_at(self) -> datetime | None:
        """In UTC; None for what does not end."""


L = TypeVar("L", bound=Lent)


class Renewed(Generic[L]):
    """What `issue` hands out, kept for the most of its life. For threads: one asks, and only who has nothing waits.

    While it cannot be renewed it is used to its end. Those who waited in vain all hear why, without asking again.
    """

    def __init__(self, issue: Callable[[], L]) -> None:
        self._issue = issue
        self._lock = Lock()
        self._kept: L | None = None
        self._renew_at = 0.0
        self._failed_at = float("-inf")
        self._failure: CatalogError | None = None

    def current(self) -> L:
        """Raises what `issue` raises when there is nothing that is still good."""
        kept, came_at = self._kept, time.monotonic()
        if kept is not None and came_at < self._renew_at:
            return kept
        is_good = kept is not None and _seconds_left(kept) > 0
        if not self._lock.acquire(blocking=False):
            if is_good:
                return cast("L", kept)
            self._wait()
        try:
            if self._failure is not None and came_at < self._failed_at:
                raise copy(self._failure)  # one instance in many threads would gather all their tracebacks
            if self._kept is None or time.monotonic() >= self._renew_at:
                self._kept = self._renewed()
            return self._kept
        finally:
            self._lock.release()

    def _wait(self) -> None:
        """For the lock, within the request's time. Raises `StoreUnavailable`, `RequestTimeout`."""
        left = deadline.remaining()
        with release_thread_slot():
            if not self._lock.acquire(timeout=LONGEST_WAIT if left is None else min(left, LONGEST_WAIT)):
                deadline.remaining()
                raise StoreUnavailable("The keys of the storage are being asked for, without an answer yet")

    def _renewed(self) -> L:
        self._failure = None
        try:
            issued = self._issue()
        except CatalogError as failure:
            if self._kept is None or _seconds_left(self._kept) <= 0:
                self._failed_at, self._failure = time.monotonic(), failure
                raise
            self._renew_at = time.monotonic() + PAUSE
            return self._kept
        self._renew_at = time.monotonic() + USED_FOR * _seconds_left(issued)
        return issued


def _seconds_left(lent: Lent) -> float:
    return float("inf") if lent.expires_at is None else (lent.expires_at - now()).total_seconds()
