"""The working copy of a table's metadata while the updates of one request are applied to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from catalog.iceberg.json_fields import optional_int
from catalog.iceberg.schemas import Schema, parse_schema
from catalog.iceberg.types import (
    FIRST_PARTITION_FIELD_ID,
    INITIAL_SCHEMA_ID,
    INITIAL_SPEC_ID,
    LAST_ADDED,
    ROW_LINEAGE_VERSION,
    UNSORTED_ORDER_ID,
    TableMetadata,
    current_snapshot_id,
    written_snapshot_id,
)
from icekeeper.kernel.errors import BadRequest


def empty_metadata(format_version: int, now_ms: int) -> TableMetadata:
    """A table that has nothing yet, its keys in the order in which Java writes them."""
    metadata: TableMetadata = {
        "format-version": format_version,
        "table-uuid": None,
        "location": None,
        "last-sequence-number": 0,
        "last-updated-ms": now_ms,
        "last-column-id": 0,
        "schema": {},
        "current-schema-id": INITIAL_SCHEMA_ID,
        "schemas": [],
        "partition-spec": [],
        "default-spec-id": INITIAL_SPEC_ID,
        "partition-specs": [],
        "last-partition-id": FIRST_PARTITION_FIELD_ID - 1,
        "default-sort-order-id": UNSORTED_ORDER_ID,
        "sort-orders": [],
        "properties": {},
        "current-snapshot-id": written_snapshot_id(None, format_version),
        "next-row-id": 0,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
    absent = {"last-sequence-number"} if format_version == 1 else {"schema", "partition-spec"}
    if format_version < ROW_LINEAGE_VERSION:
        absent.add("next-row-id")
    return {name: value for name, value in metadata.items() if name not in absent}


@dataclass(slots=True)
class Additions:
    """The schemas, specs or orders that this request added, for the id -1."""

    kind: str
    ids: set[int] = field(default_factory=set)
    last: int | None = None

    def record(self, added_id: int) -> None:
        self.ids.add(added_id)
        self.last = added_id

    def reuse(self, existing_id: int) -> None:
        """The client added one that exists already: -1 means it only if this request had added it (as in Java)."""
        self.last = existing_id if existing_id in self.ids else None

    def resolve(self, update: dict[str, Any], name: str) -> int:
        """The id in a field of an update, -1 standing for the one added last."""
        chosen = optional_int(update, name, "")
        if chosen is None:
            raise BadRequest(f"{name}: required field is missing")
        if chosen != LAST_ADDED:
            return chosen
        if self.last is None:
            raise BadRequest(f"{name}: Cannot set last added {self.kind}: no {self.kind} has been added")
        return self.last


class Draft:
    """Copy on write: `metadata` shares every part with the base until an update takes the part through `own`.

    Snapshots and statistics files are held by snapshot id while they change, so that a request with thousands of
    updates takes linear time; `settle` writes them back.
    """

    def __init__(self, base: TableMetadata | None, *, format_version: int, now_ms: int) -> None:
        self.base = base
        self.now_ms = now_ms
        self.metadata: TableMetadata = empty_metadata(format_version, now_ms) if base is None else dict(base)
        self.schemas = Additions("schema")
        self.specs = Additions("spec")
        self.orders = Additions("sort order")
        self.current_snapshot_id = current_snapshot_id(self.metadata)
        self.main_changes: list[tuple[int, int | None]] = []
        self.added_snapshots: dict[int, dict[str, Any]] = {}
        self.removed_snapshot_ids: dict[int, None] = {}
        self.has_lost_snapshots = False
        self._owned: set[str] = set()
        self._snapshots: dict[int, dict[str, Any]] | None = None
        self._files: dict[str, dict[int, list[dict[str, Any]]]] = {}
        self._parsed_schemas: dict[int, Schema] = {}

    @property
    def format_version(self) -> int:
        return int(self.metadata["format-version"])

    def own(self, name: str, default: Any = ()) -> Any:
        """The list or object under a top-level key, copied the first time so that it may be changed.

        `default` is what stands in for an absent key: an empty tuple for a list, an empty dict for an object.
        """
        if name not in self._owned:
            current = self.metadata.get(name)
            if current is None:
                current = default
            self.metadata[name] = dict(current) if isinstance(current, dict) else list(current)
            self._owned.add(name)
        return self.metadata[name]

    @property
    def snapshots(self) -> dict[int, dict[str, Any]]:
        """All snapshots by id, in their order; change them through `add_snapshot` and `remove_snapshot` only."""
        if self._snapshots is None:
            self._snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in self.metadata.get("snapshots") or []}
        return self._snapshots

    def add_snapshot(self, snapshot: dict[str, Any]) -> None:
        self.snapshots[snapshot["snapshot-id"]] = snapshot
        self.added_snapshots[snapshot["snapshot-id"]] = snapshot
        self._owned.add("snapshots")

    def remove_snapshot(self, snapshot_id: int) -> None:
        del self.snapshots[snapshot_id]
        if self.added_snapshots.pop(snapshot_id, None) is None:
            self.removed_snapshot_ids[snapshot_id] = None
        self.has_lost_snapshots = True
        self._owned.add("snapshots")

    def _files_by_snapshot(self, name: str) -> dict[int, list[dict[str, Any]]]:
        if name not in self._files:
            by_snapshot: dict[int, list[dict[str, Any]]] = {}
            for document in self.metadata.get(name) or []:
                by_snapshot.setdefault(document["snapshot-id"], []).append(document)
            self._files[name] = by_snapshot
        return self._files[name]

    def current_schema(self) -> Schema:
        """The parsed current schema. Raises `BadRequest` when a new table has none yet."""
        schema_id = self.metadata["current-schema-id"]
        if schema_id not in self._parsed_schemas:
            for document in self.metadata["schemas"]:
                if (document.get("schema-id") or 0) == schema_id:
                    self._parsed_schemas[schema_id] = parse_schema(document, f"schema {schema_id}")
                    break
            else:
                raise BadRequest("Cannot bind to the current schema: no schema has been added")
        return self._parsed_schemas[schema_id]

    def replace_files(self, name: str, snapshot_id: int, documents: list[dict[str, Any]]) -> None:
        """Put these in the place of the snapshot's `statistics` or `partition-statistics`; an empty list drops them."""
        if documents:
            self._files_by_snapshot(name)[snapshot_id] = documents
            self._owned.add(name)
        elif self._files_by_snapshot(name).pop(snapshot_id, None) is not None:
            self._owned.add(name)

    def settle(self) -> None:
        """Write snapshots and statistics files back into the document, where an update touched them."""
        if self._snapshots is not None and "snapshots" in self._owned:
            self.metadata["snapshots"] = list(self._snapshots.values())
        for name, by_snapshot in self._files.items():
            if name in self._owned:
                self.metadata[name] = [document for documents in by_snapshot.values() for document in documents]
