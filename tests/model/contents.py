"""The contents of the catalog while no requests run: its database rows, by plain SQL, and its metadata files."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from tests.model.names import Levels
from tests.parts.server import CatalogServer


@dataclass(frozen=True, slots=True)
class Row:
    """A table or view."""

    id: UUID
    uuid: str
    kind: str
    namespace_id: UUID
    levels: Levels
    name: str
    location: str
    metadata_location: str
    document: bytes

    def __str__(self) -> str:
        return ".".join((*self.levels, self.name))

    @property
    def metadata(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.document)
        return content


@dataclass(slots=True)
class Contents:
    """The contents of one warehouse.

    `securables` are (type, id) with parent and path, `results` statuses by Idempotency-Key.
    """

    tabulars: list[Row] = field(default_factory=list)
    namespaces: dict[UUID, tuple[Levels, UUID | None, dict[str, str]]] = field(default_factory=dict)
    claims: list[tuple[UUID, str]] = field(default_factory=list)
    snapshots: dict[UUID, set[tuple[Any, ...]]] = field(default_factory=dict)
    securables: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    results: dict[UUID, list[int]] = field(default_factory=dict)
    deadlocks: int = 0


_TABULARS = """
SELECT t.id, t.uuid, t.kind, t.namespace_id, n.path, t.name, t.location, t.metadata_location, m.document
  FROM catalog_tabular t JOIN catalog_namespace n ON n.id = t.namespace_id
  LEFT JOIN catalog_tabularmetadata m ON m.tabular_id = t.id
 WHERE t.deleted_at IS NULL
"""
_CLAIMS = "SELECT coalesce(tabular_id, task_id), location FROM catalog_locationclaim WHERE staged_by IS NULL"
_SNAPSHOTS = """
SELECT tabular_id, snapshot_id, parent_snapshot_id, sequence_number, schema_id, timestamp_ms, summary
  FROM catalog_snapshot
"""


def read_contents(server: CatalogServer, url: str | None) -> Contents:
    with _connection(server, url) as fetch:
        found = Contents()
        for *ids, path, name, location, metadata_location, document in fetch(_TABULARS):
            tabular_id, uuid, kind, namespace_id = ids
            levels = tuple(path.split("\x1f"))
            found.tabulars.append(
                Row(_uuid(tabular_id), str(_uuid(uuid)), kind, _uuid(namespace_id), levels, name, location,
                    metadata_location, bytes(document or b""))
            )  # fmt: skip
        for key, parent, path, properties in fetch("SELECT id, parent_id, path, properties FROM catalog_namespace"):
            above = None if parent is None else _uuid(parent)
            found.namespaces[_uuid(key)] = (tuple(path.split("\x1f")), above, _json(properties))
        found.claims = [(_uuid(owner), location) for owner, location in fetch(_CLAIMS)]
        for tabular_id, *snapshot, summary in fetch(_SNAPSHOTS):
            rows = found.snapshots.setdefault(_uuid(tabular_id), set())
            rows.add((*snapshot, tuple(sorted(_json(summary).items()))))
        for key, parent, path in fetch("SELECT id, parent_id, path FROM tenancy_securable"):
            found.securables[key] = (parent, path)
        for key, status in fetch("SELECT key, status FROM catalog_idempotencyrecord"):
            found.results.setdefault(_uuid(key), []).append(status)
        if url is not None:
            [(found.deadlocks,)] = fetch("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return found


def read_file(location: str) -> bytes:
    """Return the JSON of a metadata file. Raises `FileNotFoundError`."""
    content = Path(location.removeprefix("file://")).read_bytes()
    return gzip.decompress(content) if location.endswith(".gz.metadata.json") else content


def files_below(folder: Path) -> set[str]:
    """Return the metadata files of a warehouse."""
    return {f"file://{path}" for path in folder.rglob("*.metadata.json")}


@contextmanager
def _connection(server: CatalogServer, url: str | None) -> Iterator[Any]:
    """Provide a function that returns the rows of a statement, all in one snapshot of the database."""
    if url is not None:
        with psycopg.connect(url) as postgres:
            postgres.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            yield lambda statement: postgres.execute(statement).fetchall()
    else:
        sqlite = sqlite3.connect(server.home / "state" / "icekeeper.sqlite3", isolation_level=None)
        try:
            sqlite.execute("BEGIN")
            yield lambda statement: sqlite.execute(statement).fetchall()
        finally:
            sqlite.close()


def _uuid(value: Any) -> UUID:
    """Parse the UUID, which SQLite stores as text without hyphens."""
    return value if isinstance(value, UUID) else UUID(value)


def _json(value: Any) -> Any:
    """Parse the JSON, which SQLite stores as text."""
    return json.loads(value) if isinstance(value, str) else value
