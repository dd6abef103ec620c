"""Cache of registered user ids, which saves the statements of registration on most calls."""

from __future__ import annotations

from threading import Lock
from typing import Final

from cachetools import TTLCache

CACHE_SECONDS: Final = 60.0
MAX_CACHED: Final = 10_000


class RegisteredUsers:
    """Ids of registered users, per process. A deletion here evicts the user; one on another node takes effect after
    `CACHE_SECONDS`."""

    def __init__(self) -> None:
        self._ids: TTLCache[str, None] = TTLCache(MAX_CACHED, CACHE_SECONDS)
        self._lock = Lock()

    def contains(self, user_id: str) -> bool:
        with self._lock:
            return user_id in self._ids

    def add(self, user_id: str) -> None:
        with self._lock:
            self._ids[user_id] = None

    def evict(self, user_id: str) -> None:
        with self._lock:
            self._ids.pop(user_id, None)

    def clear(self) -> None:
        with self._lock:
            self._ids.clear()


registered_users = RegisteredUsers()
