"""Metadata documents: their in-process cache, by table and metadata location, and reads that look there first.

A metadata file is immutable while its table exists, so entries are never stale and nodes need no invalidation: the
pointer in the database names the current one. The key needs the table's id, as a file can be edited and registered
again after a drop. The cache is bounded in bytes (`ICEKEEPER__METADATA_CACHE_BYTES`) and evicts the least recently
used documents.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable
from threading import Lock
from typing import Any, NamedTuple
from uuid import UUID

from cachetools import LRUCache
from django.conf import settings

from catalog.iceberg.metadata_files import decode, file_version
from icekeeper.kernel.json.strict import read_stored_json
from storage.io.stores import store_for
from storage.models import WarehouseStorage

ADDRESSES = 100_000
"""Maximum number of tables whose last seen version is cached."""

PARSED_BYTES = 2 * 1024 * 1024
"""Size of the cache of parsed metadata, in bytes of its documents; the objects take several times as much."""

MAX_CHECKED_MEMBERS = 1_000
"""Maximum number of versions whose members for requirement checks are cached."""


class Version(NamedTuple):
    """One metadata file of one tabular, whole or with the referenced `snapshots` only ("refs")."""

    tabular_id: UUID
    metadata_location: str
    snapshots: str = "all"

    def comes_after(self, other: Version) -> bool:
        """Whether it is certainly a later version of the same tabular: each commit increments the file's number."""
        mine, theirs = file_version(self.metadata_location), file_version(other.metadata_location)
        return self.tabular_id == other.tabular_id and mine is not None and theirs is not None and mine > theirs


class MetadataCache:
    def __init__(self, *, max_bytes: int) -> None:
        self._documents: LRUCache[Version, bytes] = LRUCache(maxsize=max_bytes, getsizeof=len)
        self._max_bytes = max_bytes
        self._last_seen: LRUCache[Hashable, Version] = LRUCache(maxsize=ADDRESSES)
        self._checked_members: LRUCache[Version, dict[str, Any]] = LRUCache(maxsize=MAX_CHECKED_MEMBERS)
        self._parsed: LRUCache[Version, tuple[dict[str, Any], int]] = LRUCache(
            maxsize=PARSED_BYTES, getsizeof=operator.itemgetter(1)
        )
        self._lock = Lock()

    def last_seen(self, address: Hashable) -> tuple[Version | None, bytes | None]:
        """Return the version that was current at `address` when it was last read, if its document is cached."""
        try:
            with self._lock:
                version = self._last_seen[address]
                return version, self._documents[version]
        except KeyError:
            return None, None

    def get(self, version: Version) -> bytes | None:
        with self._lock:
            return self._documents.get(version)

    def parsed(self, version: Version) -> dict[str, Any] | None:
        """Return the parsed document of `version`, which must not be modified."""
        with self._lock:
            found = self._parsed.get(version)
        return found[0] if found is not None else None

    def put_parsed(self, version: Version, metadata: dict[str, Any], document: bytes) -> None:
        if len(document) <= PARSED_BYTES:
            with self._lock:
                self._parsed[version] = (metadata, len(document))

    def checked_members(self, version: Version) -> dict[str, Any] | None:
        """Return the members of the metadata that requirements check, if they are cached."""
        with self._lock:
            return self._checked_members.get(version)

    def put_checked_members(self, version: Version, members: dict[str, Any]) -> None:
        with self._lock:
            self._checked_members[version] = members

    def put(self, version: Version, document: bytes, *, address: Hashable) -> None:
        """Cache `version` as the current one at `address`, and evict the one that it replaces.

        An older version, read before a commit or from a lagging replica, is ignored.
        """
        with self._lock:
            before = self._last_seen.get(address)
            if before is not None and before.comes_after(version):
                return
            self._last_seen[address] = version
            if before is not None and version.comes_after(before):
                self._documents.pop(before, None)
                self._documents.pop(before._replace(snapshots="refs"), None)
                self._parsed.pop(before, None)
                self._checked_members.pop(before, None)
        self.put_document(version, document)

    def put_document(self, version: Version, document: bytes) -> None:
        if len(document) <= self._max_bytes:
            with self._lock:
                self._documents[version] = document


metadata_cache = MetadataCache(max_bytes=settings.ICEKEEPER.metadata_cache_bytes)


def metadata_of(version: Version, document: bytes) -> dict[str, Any]:
    """Parse `document`, the metadata of `version`, with the cache. The result is shared and must not be modified."""
    parsed = metadata_cache.parsed(version)
    if parsed is None:
        parsed = read_stored_json(document)
        metadata_cache.put_parsed(version, parsed, document)
    return parsed


def read_metadata_document(storage: WarehouseStorage, version: Version, stored: Any) -> bytes:
    """Return the bytes of a metadata file: `stored` from the database; if null, from the cache or the object store."""
    if stored is not None:
        return bytes(stored)
    cached = metadata_cache.get(version)
    if cached is not None:
        return cached
    return read_metadata_file(storage, version.metadata_location)


def read_metadata_file(storage: WarehouseStorage, location: str) -> bytes:
    """Read a metadata file from the object store and decompress it. Raises `ObjectNotFound`, and as `decode`."""
    limit = settings.ICEKEEPER.metadata_file_limit
    return decode(store_for(storage).get(location, limit=limit), limit=limit)
