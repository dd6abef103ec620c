"""Metadata bytes in process memory, by metadata location.

A metadata file never changes, so an entry is never stale and no node has to tell another: the pointer row says which
one is current. Bounded in bytes (`ICEKEEPER__METADATA_CACHE_BYTES`); the oldest unused go first.
"""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock

from cachetools import LRUCache
from django.conf import settings

ADDRESSES = 100_000
"""How many tables' last seen metadata locations are remembered."""


class MetadataCache:
    def __init__(self, *, max_bytes: int) -> None:
        self._documents: LRUCache[str, bytes] = LRUCache(maxsize=max_bytes, getsizeof=len)
        self._max_bytes = max_bytes
        self._last_seen: LRUCache[Hashable, str] = LRUCache(maxsize=ADDRESSES)
        self._lock = Lock()

    def last_seen(self, address: Hashable) -> tuple[str | None, bytes | None]:
        """The metadata location that was current at `address` when it was last read, if its bytes are still here."""
        with self._lock:
            location = self._last_seen.get(address)
            document = self._documents.get(location) if location is not None else None
        return (location, document) if document is not None else (None, None)

    def get(self, location: str) -> bytes | None:
        with self._lock:
            return self._documents.get(location)

    def put(self, location: str, document: bytes, *, address: Hashable) -> None:
        with self._lock:
            if len(document) <= self._max_bytes:
                self._documents[location] = document
            self._last_seen[address] = location


metadata_cache = MetadataCache(max_bytes=settings.ICEKEEPER.metadata_cache_bytes)
