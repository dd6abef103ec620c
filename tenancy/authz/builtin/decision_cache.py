"""Bounded in-process caches of permission data that the permission epoch invalidates."""

from __future__ import annotations

import time
from collections.abc import Hashable
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from cachetools import LRUCache

from tenancy.authz.permission_epoch import permission_epoch

T = TypeVar("T")


NO_EXPIRY = float("inf")


class CachedDecision(NamedTuple, Generic[T]):
    """`ends_at` (seconds as of `time.time`) is when the first of the grants behind it expires."""

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
        with self._lock:
            cached = self._values.get(key)
        if cached is None or cached.epoch != permission_epoch.current() or cached.ends_at <= time.time():
            return None
        return cached

    def put(self, key: Hashable, value: T, *, epoch: int, ends_at: float) -> None:
        """`epoch` is the permission epoch before the value was read."""
        with self._lock:
            self._values[key] = CachedDecision(value, ends_at, epoch)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
