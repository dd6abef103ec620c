"""What a process remembers of rights, as long as nothing has changed (`tenancy.authz.permission_epoch`)."""

from __future__ import annotations

import time
from collections.abc import Hashable
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

from cachetools import LRUCache

from tenancy.authz.permission_epoch import permission_epoch

T = TypeVar("T")


FOR_EVER = float("inf")


class Remembered(NamedTuple, Generic[T]):
    """`ends_at`, of `time.time`, is when something that was granted ends."""

    value: T
    ends_at: float
    stamp: int


class Memory(Generic[T]):
    """The `most` newest, each until rights change or until it ends; nothing where nobody watches for changes."""

    def __init__(self, most: int) -> None:
        self._kept: LRUCache[Hashable, Remembered[T]] = LRUCache(most)
        self._lock = Lock()

    def get(self, key: Hashable) -> Remembered[T] | None:
        if not permission_epoch.is_fresh():
            return None
        with self._lock:
            kept = self._kept.get(key)
        if kept is None or kept.stamp != permission_epoch.current() or kept.ends_at <= time.time():
            return None
        return kept

    def put(self, key: Hashable, value: T, *, stamp: int, ends_at: float) -> None:
        """`stamp` is what the stamp was before the value was read."""
        with self._lock:
            self._kept[key] = Remembered(value, ends_at, stamp)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
