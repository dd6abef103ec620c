"""The working copy of a table's metadata while the updates of one request are applied to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from catalog.iceberg.json_fields import optional_int
from catalog.iceberg.partition_specs import PartitionFieldIdentity, parse_partition_spec
from catalog.iceberg.schemas import Schema, parse_schema
from catalog.iceberg.sort_orders import SortFieldIdentity, parse_sort_order
from catalog.iceberg.types import (
    FIRST_PARTITION_FIELD_ID,
    INITIAL_SCHEMA_ID,
    INITIAL_SORT_ORDER_ID,
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
    """The schemas, specs or orders of a table as one request adds to them: which exist, and what -1 means.

    Existing ones are parsed when one with the same quick key is looked up, and once: a table may have hundreds of wide
    schemas, and a request may add as many. Equal ones are found by what `read` makes of a document.
    """

    kind: str
    first_id: int
    id_of: Callable[[dict[str, Any]], int]
    quick_key: Callable[[dict[str, Any]], Hashable]
    read: Callable[[dict[str, Any]], Hashable]
    ids: set[int] = field(default_factory=set)
    last: int | None = None
    next_id: int = 0
    _unread: dict[Hashable, list[dict[str, Any]]] | None = None
    _known: dict[Hashable, int] = field(default_factory=dict)

    def find(self, documents: list[dict[str, Any]], document: dict[str, Any], identity: Hashable) -> int | None:
        """The id of the first among `documents` that is the same as `document`, None when it is new."""
        if self._unread is None:
            self._unread, self._known = {}, {}
            self.next_id = max([self.first_id, *(self.id_of(existing) + 1 for existing in documents)])
            for existing in documents:
                self._unread.setdefault(self.quick_key(existing), []).append(existing)
        for existing in self._unread.pop(self.quick_key(document), ()):
            self._known.setdefault(self.read(existing), self.id_of(existing))
        return self._known.get(identity)

    def forget(self) -> None:
        """Some were removed: look at what is left anew."""
        self._unread = None

    def record(self, added_id: int, identity: Hashable) -> None:
        """A new one was added under that id."""
        self.ids.add(added_id)
        self.last = added_id
        self.next_id = max(self.next_id, added_id + 1)
        self._known[identity] = added_id

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

    Snapshots, their statistics files and the encryption keys are held by id while they change, so that a request with
    thousands of updates takes linear time; `settle` writes them back.
    """

    def __init__(self, base: TableMetadata | None, *, format_version: int, now_ms: int) -> None:
        self.base = base
        self.now_ms = now_ms
        self.metadata: TableMetadata = empty_metadata(format_version, now_ms) if base is None else dict(base)
        self.schemas = Additions("schema", INITIAL_SCHEMA_ID, schema_id_of, _quick_schema_key, _read_schema)
        self.specs = Additions("spec", INITIAL_SPEC_ID, itemgetter("spec-id"), _no_quick_key, self._read_spec)
        self.orders = Additions(
            "sort order", INITIAL_SORT_ORDER_ID, itemgetter("order-id"), _no_quick_key, self._read_order
        )
        self.partition_field_ids: dict[PartitionFieldIdentity, int] = {}
        self.sort_fields: set[SortFieldIdentity] = set()
        self.current_snapshot_id = current_snapshot_id(self.metadata)
        self.main_changes: list[tuple[int, int | None]] = []
        self.added_snapshots: dict[int, dict[str, Any]] = {}
        self.removed_snapshot_ids: dict[int, None] = {}
        self.has_lost_snapshots = False
        self._owned: set[str] = set()
        self._snapshots: dict[int, dict[str, Any]] | None = None
        self._keys: dict[str, dict[str, Any]] | None = None
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
                if schema_id_of(document) == schema_id:
                    self._parsed_schemas[schema_id] = parse_schema(document, f"schema {schema_id}")
                    break
            else:
                raise BadRequest("Cannot bind to the current schema: no schema has been added")
        return self._parsed_schemas[schema_id]

    @property
    def encryption_keys(self) -> dict[str, dict[str, Any]]:
        """All encryption keys by id; change them through `add_key` and `remove_key` only."""
        if self._keys is None:
            self._keys = {key["key-id"]: key for key in self.metadata.get("encryption-keys") or []}
        return self._keys

    def add_key(self, key: dict[str, Any]) -> None:
        self.encryption_keys[key["key-id"]] = key
        self._owned.add("encryption-keys")

    def remove_key(self, key_id: str) -> None:
        del self.encryption_keys[key_id]
        self._owned.add("encryption-keys")

    def replace_files(self, name: str, snapshot_id: int, documents: list[dict[str, Any]]) -> None:
        """Put these in the place of the snapshot's `statistics` or `partition-statistics`; an empty list drops them."""
        if documents:
            self._files_by_snapshot(name)[snapshot_id] = documents
            self._owned.add(name)
        elif self._files_by_snapshot(name).pop(snapshot_id, None) is not None:
            self._owned.add(name)

    def _read_spec(self, document: dict[str, Any]) -> Hashable:
        """The identity of a spec; enters its fields into `partition_field_ids`."""
        fields = parse_partition_spec(document, f"spec {document['spec-id']}")
        self.partition_field_ids.update((part.identity, part.field_id) for part in fields if part.field_id is not None)
        return tuple(part.identity for part in fields)

    def _read_order(self, document: dict[str, Any]) -> Hashable:
        """The identity of a sort order; enters its fields into `sort_fields`."""
        identity = tuple(part.identity for part in parse_sort_order(document, f"sort order {document['order-id']}"))
        self.sort_fields.update(identity)
        return identity

    def settle(self) -> None:
        """Write snapshots, statistics files and keys back into the document, where an update touched them."""
        if self._snapshots is not None and "snapshots" in self._owned:
            self.metadata["snapshots"] = list(self._snapshots.values())
        if self._keys is not None and "encryption-keys" in self._owned:
            self.metadata["encryption-keys"] = list(self._keys.values())
        for name, by_snapshot in self._files.items():
            if name in self._owned:
                self.metadata[name] = [document for documents in by_snapshot.values() for document in documents]


def schema_id_of(document: dict[str, Any]) -> int:
    """The id of a stored schema; one without is schema 0, as Java reads it."""
    return document.get("schema-id") or INITIAL_SCHEMA_ID


def _quick_schema_key(document: dict[str, Any]) -> Hashable:
    return tuple((column.get("id"), column.get("name")) for column in document["fields"])


def _read_schema(document: dict[str, Any]) -> Hashable:
    return parse_schema(document, f"schema {schema_id_of(document)}").identity


def _no_quick_key(_: dict[str, Any]) -> Hashable:
    """Specs and orders are short: all are read at once."""
    return None
