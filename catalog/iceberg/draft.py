"""The working copy of a table's (or a view's) metadata while the updates of one request are applied to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

from catalog.iceberg.json_fields import as_object, check_depth, clip, describe, optional_int
from catalog.iceberg.partition_specs import PartitionFieldIdentity, parse_partition_spec
from catalog.iceberg.schemas import Schema, parse_schema
from catalog.iceberg.sort_orders import SortFieldIdentity, parse_sort_order
from catalog.iceberg.types import (
    FIRST_PARTITION_FIELD_ID,
    INITIAL_SCHEMA_ID,
    INITIAL_SORT_ORDER_ID,
    INITIAL_SPEC_ID,
    LAST_ADDED,
    NO_SNAPSHOT_ID,
    ROW_LINEAGE_VERSION,
    UNSORTED_ORDER_ID,
    TableMetadata,
)
from icekeeper.kernel.errors.types import BadRequest

MAX_CACHED_SCHEMAS: Final = 4
"""A request binds specs and orders to one schema or two; the memory of hundreds of wide ones is never held at once."""


def current_snapshot_id(metadata: TableMetadata) -> int | None:
    """The current snapshot of a table, None when it has none (written as -1, as null or not at all)."""
    snapshot_id = metadata.get("current-snapshot-id")
    return None if snapshot_id is None or snapshot_id == NO_SNAPSHOT_ID else int(snapshot_id)


def written_snapshot_id(snapshot_id: int | None, format_version: int) -> int | None:
    """`current-snapshot-id` as that format version writes it (Java: `MIN_NULL_CURRENT_SNAPSHOT_VERSION`)."""
    if snapshot_id is None and format_version < ROW_LINEAGE_VERSION:
        return NO_SNAPSHOT_ID
    return snapshot_id


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
    """The schemas, specs or orders of a table, or the versions of a view, while a request adds and removes some: which
    exist, and what the id -1 refers to.

    An existing document is parsed at most once, when one with the same quick key is looked up: a table may have
    hundreds of wide schemas, and a request may add as many. Documents are equal when `read` returns the same identity.
    The time of each step does not depend on the number of documents.
    """

    kind: str
    first_id: int
    existing: list[dict[str, Any]]
    id_of: Callable[[dict[str, Any]], int]
    quick_key: Callable[[dict[str, Any]], Hashable]
    read: Callable[[dict[str, Any]], Hashable]
    last: int | None = None
    has_changed: bool = False
    added_ids: set[int] = field(default_factory=set)
    _documents: dict[int, dict[str, Any]] | None = None
    _negative_ids: list[int] = field(default_factory=list)
    _unread: dict[Hashable, list[dict[str, Any]]] | None = None
    _identities: dict[int, Hashable] = field(default_factory=dict)
    _ids_by_identity: dict[Hashable, dict[int, None]] = field(default_factory=dict)

    @property
    def documents(self) -> dict[int, dict[str, Any]]:
        """All by id, in their order; change them through `add` and `remove` only."""
        if self._documents is None:
            self._documents = {self.id_of(document): document for document in self.existing}
            self._negative_ids = [-known_id for known_id in self._documents]
            heapify(self._negative_ids)
        return self._documents

    @property
    def next_id(self) -> int:
        """The highest existing id plus one."""
        documents, heap = self.documents, self._negative_ids
        while heap and -heap[0] not in documents:
            heappop(heap)
        return max(self.first_id, 1 - heap[0]) if heap else self.first_id

    def find(self, document: dict[str, Any], identity: Hashable) -> int | None:
        """Return the id of the first document that is the same as `document`, None when it is new."""
        if self._unread is None:
            self._unread = {}
            for existing in self.documents.values():
                self._unread.setdefault(self.quick_key(existing), []).append(existing)
        for existing in self._unread.pop(self.quick_key(document), ()):
            existing_id = self.id_of(existing)
            if self.documents.get(existing_id) is existing:
                self._index(existing_id, self.read(existing))
        return next(iter(self._ids_by_identity.get(identity, ())), None)

    def add(self, added_id: int, document: dict[str, Any], identity: Hashable) -> None:
        """Add a document that `find` does not find, under a free id."""
        self.documents[added_id] = document
        heappush(self._negative_ids, -added_id)
        self.added_ids.add(added_id)
        self._index(added_id, identity)
        self.last = added_id
        self.has_changed = True

    def remove(self, removed_ids: Iterable[int]) -> None:
        """Remove these; unknown ids are ignored."""
        for removed_id in removed_ids:
            if self.documents.pop(removed_id, None) is None:
                continue
            self.has_changed = True
            if (identity := self._identities.pop(removed_id, None)) is not None:
                same = self._ids_by_identity[identity]
                del same[removed_id]
                if not same:
                    del self._ids_by_identity[identity]

    def reuse(self, existing_id: int) -> None:
        """Handle the addition of an existing one: -1 refers to it only if this request added it (as in Java)."""
        self.last = existing_id if existing_id in self.added_ids else None

    def resolve(self, update: dict[str, Any], name: str) -> int:
        """Return the id in a field of an update; -1 refers to the one that was added last."""
        chosen = optional_int(update, name, "")
        if chosen is None:
            raise BadRequest(f"{name}: required field is missing")
        if chosen != LAST_ADDED:
            return chosen
        if self.last is None:
            raise BadRequest(f"{name}: Cannot set last added {self.kind}: no {self.kind} has been added")
        return self.last

    def _index(self, known_id: int, identity: Hashable) -> None:
        self._identities[known_id] = identity
        self._ids_by_identity.setdefault(identity, {})[known_id] = None


class WorkingCopy:
    """Copy on write: `metadata` shares every part with the base until an update takes the part through `own`."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        self.metadata = metadata
        self._owned: set[str] = set()

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


class Draft(WorkingCopy):
    """A table while it is changed.

    Schemas, specs, orders, snapshots, their statistics files and the encryption keys are held by id while they change,
    so that a request with thousands of updates takes linear time; `settle` writes them back. Until then `metadata` has
    the lists of the base.
    """

    def __init__(
        self,
        base: TableMetadata | None,
        *,
        format_version: int,
        now_ms: int,
        guarded_snapshots: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__(empty_metadata(format_version, now_ms) if base is None else dict(base))
        self.base = base
        self.now_ms = now_ms
        self.guarded_snapshots = guarded_snapshots
        specs, orders = self.metadata["partition-specs"], self.metadata["sort-orders"]
        self.schemas = schema_additions(self.metadata["schemas"])
        self.specs = Additions("spec", INITIAL_SPEC_ID, specs, itemgetter("spec-id"), no_quick_key, self._read_spec)
        self.orders = Additions(
            "sort order", INITIAL_SORT_ORDER_ID, orders, itemgetter("order-id"), no_quick_key, self._read_order
        )
        self.partition_field_ids: dict[PartitionFieldIdentity, int] = {}
        self.sort_fields: set[SortFieldIdentity] = set()
        self.current_snapshot_id = current_snapshot_id(self.metadata)
        self.main_changes: list[tuple[int, int | None]] = []
        self.added_snapshots: dict[int, dict[str, Any]] = {}
        self.removed_snapshot_ids: dict[int, None] = {}
        self.has_lost_snapshots = False
        self._snapshots: dict[int, dict[str, Any]] | None = None
        self._keys: dict[str, dict[str, Any]] | None = None
        self._files: dict[str, dict[int, list[dict[str, Any]]]] = {}
        self._ref_names: dict[int, dict[str, None]] | None = None
        self._parsed_schemas: dict[int, tuple[dict[str, Any], Schema]] = {}

    @property
    def format_version(self) -> int:
        return int(self.metadata["format-version"])

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
        document = self.schemas.documents.get(schema_id)
        if document is None:
            raise BadRequest("Cannot bind to the current schema: no schema has been added")
        known = self._parsed_schemas.pop(schema_id, None)
        # an id that was removed may have been given to another schema since
        if known is None or known[0] is not document:
            known = (document, parse_schema(document, f"schema {schema_id}"))
            if len(self._parsed_schemas) == MAX_CACHED_SCHEMAS:
                del self._parsed_schemas[next(iter(self._parsed_schemas))]
        self._parsed_schemas[schema_id] = known
        return known[1]

    def set_reference(self, name: str, reference: dict[str, Any]) -> None:
        self._remove_reference(name)
        self.own("refs", {})[name] = reference
        if self._ref_names is not None:
            self._ref_names.setdefault(reference["snapshot-id"], {})[name] = None

    def remove_reference(self, name: str) -> None:
        self._remove_reference(name)
        del self.own("refs", {})[name]

    def references_to(self, snapshot_id: int) -> list[str]:
        """The names of the branches and tags at a snapshot."""
        if self._ref_names is None:
            self._ref_names = {}
            for name, reference in (self.metadata.get("refs") or {}).items():
                self._ref_names.setdefault(reference["snapshot-id"], {})[name] = None
        return list(self._ref_names.get(snapshot_id, ()))

    def _remove_reference(self, name: str) -> None:
        known = (self.metadata.get("refs") or {}).get(name)
        if known is not None and self._ref_names is not None:
            del self._ref_names[known["snapshot-id"]][name]

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
        """Replace the snapshot's `statistics` or `partition-statistics`; an empty list removes them."""
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
        """Write what is held by id back into the document, where an update touched it."""
        for name, added in (("schemas", self.schemas), ("partition-specs", self.specs), ("sort-orders", self.orders)):
            if added.has_changed:
                self.metadata[name] = list(added.documents.values())
                self._owned.add(name)
        if self._snapshots is not None and "snapshots" in self._owned:
            self.metadata["snapshots"] = list(self._snapshots.values())
        if self._keys is not None and "encryption-keys" in self._owned:
            self.metadata["encryption-keys"] = list(self._keys.values())
        for name, by_snapshot in self._files.items():
            if name in self._owned:
                self.metadata[name] = [document for documents in by_snapshot.values() for document in documents]


def schema_additions(existing: list[dict[str, Any]]) -> Additions:
    """The schemas of a table or a view."""
    return Additions("schema", INITIAL_SCHEMA_ID, existing, schema_id_of, _quick_schema_key, _read_schema)


def schema_id_of(document: dict[str, Any]) -> int:
    """The id of a stored schema; one without is schema 0, as Java reads it."""
    return document.get("schema-id") or INITIAL_SCHEMA_ID


def _quick_schema_key(document: dict[str, Any]) -> Hashable:
    return tuple((column.get("id"), column.get("name")) for column in document["fields"])


def _read_schema(document: dict[str, Any]) -> Hashable:
    return parse_schema(document, f"schema {schema_id_of(document)}").identity


def no_quick_key(_: dict[str, Any]) -> Hashable:
    """For what is short, such as specs and orders: all are read at once."""
    return None


DraftT = TypeVar("DraftT")


@dataclass(frozen=True, slots=True)
class UpdateKind(Generic[DraftT]):
    """A kind of update: the function that applies its document to a draft, and what the document consists of.

    `members` has the type of each member besides `action`, as a `TypedDict` would; the function checks them.
    """

    apply: Callable[[DraftT, dict[str, Any]], None]
    members: Mapping[str, Any]


def apply_each(
    draft: DraftT,
    updates: list[Any],
    kinds: Mapping[str, UpdateKind[DraftT]],
    between_updates: Callable[[], object] | None,
) -> None:
    """Change `draft` by the updates, in their order; `between_updates` is called before each of them.

    Raises `BadRequest` (or the subclass of it that the function raises) naming the update.
    """
    for index, document in enumerate(updates):
        if between_updates is not None:
            between_updates()
        where = f"updates[{index}]"
        update = as_object(document, where)
        check_depth(update, where)
        action = update.get("action")
        if not isinstance(action, str):
            problem = "required field is missing" if action is None else f"expected a string, got {describe(action)}"
            raise BadRequest(f"{where}.action: {problem}")
        kind = kinds.get(action)
        if kind is None:
            raise BadRequest(f"{where}: unknown update action: {clip(action)}")
        try:
            kind.apply(draft, update)
        except BadRequest as error:
            raise type(error)(f"{where} ({action}): {error.message}") from error
