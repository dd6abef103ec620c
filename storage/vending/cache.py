"""Credentials that were issued lately, for those who ask for the same; of many who miss one, one asks the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from threading import Lock
from typing import Final

from cachetools import LRUCache
from django.conf import settings

from icekeeper.kernel.errors.types import Busy, RequestTimeout
from icekeeper.kernel.metrics import metrics
from icekeeper.kernel.request import deadline
from icekeeper.kernel.request.thread_slots import WaiterLimit
from storage.vending.vended import Vended

REUSE_FRACTION: Final = 0.8
"""The part of a credential's life in which it is given to others."""
CLIENT_REFRESH_SECONDS: Final = 360.0
"""Seconds before its end from which on it is better kept to oneself: Iceberg's Java clients come for another 300 before
it, and would come again at once. Counts for credentials that live longer than twice that."""


class _PendingIssue:
    """One credential that is being issued, and those who wait for it."""

    def __init__(self) -> None:
        self.future: Future[Vended] = Future()
        self._limit = WaiterLimit()

    def wait(self) -> Vended:
        """Raises what kept it from being issued, `Busy` (503) when it takes too long, `RequestTimeout` (408)."""
        limits, left = settings.ICEKEEPER.storage, deadline.remaining()
        seconds = limits.connect_timeout + limits.request_timeout
        if not self._limit.wait(self._is_done, seconds=seconds if left is None else min(left, seconds)):
            deadline.remaining()
            raise Busy("Too many requests wait for a credential of this table")
        return self.future.result()

    def _is_done(self, seconds: float) -> bool:
        return bool(wait([self.future], seconds).done)


class CredentialCache:
    """At most `capacity` credentials; those not asked for go first. For threads; nothing is locked while one is issued.

    Failures are not cached.
    """

    def __init__(self, capacity: int, *, cloud: str) -> None:
        known = metrics()
        self._size, self._hits, self._misses = (
            known.cache_size.labels("stc", cloud),
            known.cache_hits.labels("stc", cloud),
            known.cache_misses.labels("stc", cloud),
        )
        self._lock = Lock()
        self._kept: LRUCache[Hashable, tuple[Vended, float]] = LRUCache(capacity)
        self._pending: dict[Hashable, _PendingIssue] = {}

    def get(self, key: Hashable, issue: Callable[[], Vended]) -> Vended:
        """The credential that was issued for `key`, or that `issue` gives now, to everybody who asks meanwhile.

        Raises what `issue` raises, `Busy` (503) and `RequestTimeout` (408).
        """
        with self._lock:
            kept = self._fresh(key)
        if kept is not None:
            self._hits.inc()
            return kept
        self._misses.inc()
        while True:
            deadline.remaining()
            with self._lock:
                kept, flight = self._fresh(key), self._pending.get(key)
                if kept is not None:
                    return kept
                own = self._pending[key] = _PendingIssue() if flight is None else flight
            if flight is None:
                return self._issue(key, own, issue)
            try:
                return flight.wait()
            except RequestTimeout:  # the caller's own, as is seen above, or that of the request that was waited for
                continue

    def _fresh(self, key: Hashable) -> Vended | None:
        kept = self._kept.get(key)
        return None if kept is None or time.time() >= kept[1] else kept[0]

    def _issue(self, key: Hashable, flight: _PendingIssue, issue: Callable[[], Vended]) -> Vended:
        asked_at = time.time()
        try:
            vended = issue()
        except BaseException as failure:
            self._finish(key)
            flight.future.set_exception(failure if isinstance(failure, Exception) else RequestTimeout("given up"))
            raise
        self._finish(key, vended, reused_until=_reused_until(vended, asked_at))
        flight.future.set_result(vended)
        return vended

    def _finish(self, key: Hashable, vended: Vended | None = None, *, reused_until: float = 0.0) -> None:
        with self._lock:
            del self._pending[key]
            if vended is not None and time.time() < reused_until:
                self._kept[key] = vended, reused_until
                self._size.set(len(self._kept))


def _reused_until(vended: Vended, asked_at: float) -> float:
    """In seconds since the epoch."""
    ends_at = vended.expires_at.timestamp()
    life = ends_at - asked_at
    return asked_at + min(REUSE_FRACTION * life, max(life / 2, life - CLIENT_REFRESH_SECONDS))
