"""A commit's updates applied to a table's metadata: the heart of the commit path, with no I/O of its own.

Follows Java's `TableMetadata.Builder` and `CatalogHandlers` (the reference server), and the REST spec's `TableUpdate`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, NotRequired, get_type_hints

from catalog.iceberg import properties, schema_changes, shapes, snapshots, table_changes
from catalog.iceberg.draft import Draft, UpdateKind, apply_each, current_snapshot_id, written_snapshot_id
from catalog.iceberg.json_fields import as_list, parse_int, read_int, read_string
from catalog.iceberg.legacy import write_legacy_fields
from catalog.iceberg.types import (
    DEFAULT_FORMAT_VERSION,
    INITIAL_SPEC_ID,
    LOG_CLOCK_SKEW_MS,
    UNSORTED_ORDER_ID,
    TableMetadata,
)
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.json.shapes import Long, Uuid

IMMUTABLE_PROPERTIES: Final = ("encryption.key-id",)
"""Data files are encrypted with the key that the table was created with: with another one they cannot be read."""

DEFAULT_PREVIOUS_VERSIONS_MAX: Final = 100
"""Entries of the metadata log."""

_LAST_ADDED: Final = "-1: the one that this request added last"

TABLE_UPDATES: Final[dict[str, UpdateKind[Draft]]] = {
    "assign-uuid": UpdateKind(table_changes.on_assign_uuid, {"uuid": Uuid}),
    "upgrade-format-version": UpdateKind(table_changes.on_upgrade_format_version, {"format-version": int}),
    "add-schema": UpdateKind(
        schema_changes.on_add_schema,
        {"schema": shapes.SchemaDocument, "last-column-id": NotRequired[Annotated[int, "Ignored"]]},
    ),
    "set-current-schema": UpdateKind(schema_changes.on_set_current_schema, {"schema-id": Annotated[int, _LAST_ADDED]}),
    "add-spec": UpdateKind(schema_changes.on_add_spec, {"spec": shapes.PartitionSpecDocument}),
    "set-default-spec": UpdateKind(schema_changes.on_set_default_spec, {"spec-id": Annotated[int, _LAST_ADDED]}),
    "add-sort-order": UpdateKind(schema_changes.on_add_sort_order, {"sort-order": shapes.SortOrderDocument}),
    "set-default-sort-order": UpdateKind(
        schema_changes.on_set_default_sort_order, {"sort-order-id": Annotated[int, _LAST_ADDED]}
    ),
    "add-snapshot": UpdateKind(snapshots.on_add_snapshot, {"snapshot": shapes.SnapshotDocument}),
    "set-snapshot-ref": UpdateKind(
        snapshots.on_set_snapshot_ref,
        {"ref-name": str, **get_type_hints(shapes.SnapshotReference, include_extras=True)},
    ),
    "remove-snapshots": UpdateKind(snapshots.on_remove_snapshots, {"snapshot-ids": list[Long]}),
    "remove-snapshot-ref": UpdateKind(snapshots.on_remove_snapshot_ref, {"ref-name": str}),
    "set-location": UpdateKind(table_changes.on_set_location, {"location": str}),
    "set-properties": UpdateKind(properties.on_set_properties, {"updates": shapes.Strings}),
    "remove-properties": UpdateKind(properties.on_remove_properties, {"removals": list[str]}),
    "set-statistics": UpdateKind(
        table_changes.on_set_statistics,
        {"statistics": shapes.StatisticsFile, "snapshot-id": NotRequired[Annotated[Long, "Ignored"]]},
    ),
    "remove-statistics": UpdateKind(table_changes.on_remove_statistics, {"snapshot-id": Long}),
    "set-partition-statistics": UpdateKind(
        table_changes.on_set_partition_statistics, {"partition-statistics": shapes.PartitionStatisticsFile}
    ),
    "remove-partition-statistics": UpdateKind(table_changes.on_remove_partition_statistics, {"snapshot-id": Long}),
    "remove-partition-specs": UpdateKind(schema_changes.on_remove_partition_specs, {"spec-ids": list[int]}),
    "remove-schemas": UpdateKind(schema_changes.on_remove_schemas, {"schema-ids": list[int]}),
    "add-encryption-key": UpdateKind(table_changes.on_add_encryption_key, {"encryption-key": shapes.EncryptedKey}),
    "remove-encryption-key": UpdateKind(table_changes.on_remove_encryption_key, {"key-id": str}),
}


class ImmutablePropertyModification(BadRequest):
    wire_type = "ImmutablePropertyModification"


class ImmutablePropertyRemoval(BadRequest):
    wire_type = "ImmutablePropertyRemoval"


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a request did to a table.

    When `changed` is False nothing may be written and `metadata` is the base itself. `added_snapshots` and
    `removed_snapshot_ids` say what the new version has that the base had not, and the other way round; an id in both
    was replaced, so removals come first. `expired_metadata_files` are the metadata-log entries this commit cut off;
    their files may go if `write.metadata.delete-after-commit.enabled` says so.
    """

    metadata: TableMetadata
    changed: bool
    added_snapshots: list[dict[str, Any]]
    removed_snapshot_ids: list[int]
    expired_metadata_files: list[dict[str, Any]]


def apply_updates(
    base: TableMetadata | None,
    updates: list[Any],
    *,
    now_ms: int,
    base_metadata_location: str | None,
    table_uuid: str | None = None,
    guarded_snapshots: frozenset[int] = frozenset(),
    between_updates: Callable[[], object] | None = None,
) -> TableChange:
    """The metadata after `updates`, in their order, on top of `base`; the base is left as it was.

    A base of None is a staged create being finished: the format version comes from the first upgrade-format-version
    (else 2), schema and location must be among the updates, a missing spec or order is the empty one, and the log of
    earlier metadata files is empty. `table_uuid` is used where no assign-uuid came: for a new table, and for a version
    1 table of old that has none and is upgraded to a version that needs one. `base_metadata_location` is entered in the
    metadata log, None where there is none. `guarded_snapshots` (`requirements.guarded_snapshots`) are those to be added
    that cannot undo what others did since their writer looked: they may come late. `between_updates` is called before
    each update, so that a request of hundreds of thousands can be given up by an exception (a deadline); nothing has
    changed then.

    Raises `BadRequest` naming the update and the field for what is malformed or against the rules, `CommitFailed`
    for a snapshot that is based on an older version of the table, which its writer may rebuild and send again.
    """
    updates = as_list(updates, "updates")
    draft = Draft(
        base,
        format_version=_initial_version(base, updates),
        now_ms=now_ms,
        guarded_snapshots=guarded_snapshots,
    )
    apply_each(draft, updates, TABLE_UPDATES, between_updates)
    return finish(draft, base_metadata_location=base_metadata_location, table_uuid=table_uuid)


_DEFINING_MEMBERS: Final = (
    "format-version", "table-uuid", "location", "schemas", "current-schema-id", "partition-specs", "default-spec-id",
    "sort-orders", "default-sort-order-id", "properties",
)  # fmt: skip

MAX_DESCRIBED: Final = 20
"""Snapshots, and keys of properties, in a description."""


def only_adds_data(base: TableMetadata, change: TableChange) -> bool:
    """Return whether the only effect is to append or replace data files, besides statistics and encryption keys.

    It is not if the table is defined differently, a snapshot or reference is removed, or a reference points to another
    snapshot than one that the request added.
    """
    after = change.metadata
    if change.removed_snapshot_ids or any(base.get(each) != after.get(each) for each in _DEFINING_MEMBERS):
        return False
    if any(_operation(snapshot) not in {"append", "replace"} for snapshot in change.added_snapshots):
        return False
    added = {snapshot["snapshot-id"] for snapshot in change.added_snapshots}
    before, references = base.get("refs") or {}, after.get("refs") or {}
    is_new = all(before.get(name) == ref or ref["snapshot-id"] in added for name, ref in references.items())
    return is_new and before.keys() <= references.keys()


def describe_updates(updates: list[Any], change: TableChange) -> dict[str, Any]:
    """Return a short description of valid updates: how many of each action, snapshots, property keys, the schema."""
    described: dict[str, Any] = {"actions": dict(Counter(update["action"] for update in updates))}
    snapshots = [f"{each['snapshot-id']} {_operation(each)}" for each in change.added_snapshots[:MAX_DESCRIBED]]
    keys = sorted({key[:100] for update in updates for key in update.get("updates") or update.get("removals") or ()})
    if snapshots:
        described["snapshots"] = snapshots
    if change.removed_snapshot_ids:
        described["removed_snapshots"] = [str(each) for each in change.removed_snapshot_ids[:MAX_DESCRIBED]]
    if keys:
        described["properties"] = keys[:MAX_DESCRIBED]
    if "add-schema" in described["actions"] or "set-current-schema" in described["actions"]:
        described["schema_id"] = change.metadata["current-schema-id"]
    return described


def _operation(snapshot: dict[str, Any]) -> str:
    return str((snapshot.get("summary") or {}).get("operation", ""))[:20]


def finish(draft: Draft, *, base_metadata_location: str | None, table_uuid: str | None) -> TableChange:
    """Close a draft: whole-table rules, logs and times, and whether anything changed at all.

    Raises `BadRequest` when the table as a whole breaks a rule, such as a default spec without its source column.
    """
    base, metadata = draft.base, draft.metadata
    draft.settle()
    if base is not None:
        _check_immutable_properties(base.get("properties") or {}, metadata.get("properties") or {})
    _fill_identity(draft, table_uuid)
    _fill_defaults(draft)
    if base is None or any(
        metadata[name] != base[name] for name in ("current-schema-id", "default-spec-id", "default-sort-order-id")
    ):
        schema_changes.check_bindings(draft)
    _write_history(draft)
    if base is not None and metadata == base:
        return TableChange(base, changed=False, added_snapshots=[], removed_snapshot_ids=[], expired_metadata_files=[])

    if draft.format_version == 1:
        write_legacy_fields(metadata)
    expired: list[Any] = []
    if base is not None:
        metadata["metadata-log"], expired = _append_previous_file(
            base, base_metadata_location, _previous_versions_max(metadata.get("properties") or {})
        )
    metadata["last-updated-ms"] = _next_update_time(base, metadata.get("snapshot-log") or [], draft.now_ms)
    return TableChange(
        metadata,
        changed=True,
        added_snapshots=list(draft.added_snapshots.values()),
        removed_snapshot_ids=list(draft.removed_snapshot_ids),
        expired_metadata_files=expired,
    )


def _initial_version(base: TableMetadata | None, updates: list[Any]) -> int:
    """A table is created in its final version, so that its schema is validated for that version."""
    if base is not None:
        return int(base["format-version"])
    for index, update in enumerate(updates):
        if isinstance(update, dict) and update.get("action") == "upgrade-format-version":
            where = f"updates[{index}] (upgrade-format-version): format-version"
            try:
                version = read_int(update, "format-version", "")
            except BadRequest as error:
                raise BadRequest(f"updates[{index}] (upgrade-format-version): {error.message}") from error
            return table_changes.check_format_version(version, where)
    return DEFAULT_FORMAT_VERSION


def _check_immutable_properties(before: dict[str, str], after: dict[str, str]) -> None:
    """Refuse a change to an immutable property that the table has; a table without one may still get it.

    Raises `ImmutablePropertyModification` or `ImmutablePropertyRemoval`.
    """
    for name in IMMUTABLE_PROPERTIES:
        if name not in before or after.get(name) == before[name]:
            continue
        if name in after:
            raise ImmutablePropertyModification(f"Cannot modify immutable property: {name}")
        raise ImmutablePropertyRemoval(f"Cannot remove immutable property: {name}")


def _fill_identity(draft: Draft, table_uuid: str | None) -> None:
    metadata = draft.metadata
    if draft.base is None:
        if metadata["location"] is None:
            raise BadRequest("Cannot create a table without a location: no set-location update")
        if not metadata["schemas"]:
            raise BadRequest("Cannot create a table without a schema: no add-schema update")
    # a version 1 table of old may go without a UUID
    if metadata.get("table-uuid") is None and (draft.base is None or draft.format_version > 1):
        if table_uuid is None:
            raise BadRequest(f"UUID is required in format v{draft.format_version}: no assign-uuid update")
        metadata["table-uuid"] = read_string({"uuid": table_uuid}, "uuid", "")


def _fill_defaults(draft: Draft) -> None:
    if draft.base is not None:
        return
    if not draft.metadata["partition-specs"]:
        draft.own("partition-specs").append({"spec-id": INITIAL_SPEC_ID, "fields": []})
    if not draft.metadata["sort-orders"]:
        draft.own("sort-orders").append({"order-id": UNSORTED_ORDER_ID, "fields": []})


def _write_history(draft: Draft) -> None:
    """The snapshot log and the current snapshot."""
    metadata, base = draft.metadata, draft.base
    was_current = None if base is None else current_snapshot_id(base)
    log = metadata.get("snapshot-log") or []
    extended = _extend_snapshot_log(
        log, draft.main_changes, current_id=draft.current_snapshot_id, was_current_id=was_current, now_ms=draft.now_ms
    )
    if draft.has_lost_snapshots:
        extended = _cut_snapshot_log(extended, draft.snapshots)
    if len(extended) != len(log) or extended != log:
        metadata["snapshot-log"] = extended
    has_other_version = base is not None and base["format-version"] != draft.format_version
    if draft.current_snapshot_id != was_current or has_other_version:
        metadata["current-snapshot-id"] = written_snapshot_id(draft.current_snapshot_id, draft.format_version)


def _previous_versions_max(table_properties: dict[str, str]) -> int:
    """Return the maximum length of a table's metadata log: at least one.

    An invalid value in a file of another writer counts as unset, so that the table remains writable.
    """
    limit = parse_int(table_properties.get(properties.PREVIOUS_VERSIONS_MAX, ""))
    return DEFAULT_PREVIOUS_VERSIONS_MAX if limit is None else max(1, limit)


def _append_previous_file(
    base: TableMetadata, base_metadata_location: str | None, limit: int
) -> tuple[list[Any], list[Any]]:
    """The metadata log of the version after `base`, and the entries that it no longer holds.

    The newest `limit` are kept, the one of `base` included.
    """
    log = list(base.get("metadata-log") or [])
    if base_metadata_location is None:
        return log, []
    log.append({"timestamp-ms": base["last-updated-ms"], "metadata-file": base_metadata_location})
    surplus = max(0, len(log) - limit)
    return log[surplus:], log[:surplus]


def _next_update_time(base: TableMetadata | None, snapshot_log: list[Any], now_ms: int) -> int:
    """`last-updated-ms` of a commit: now, but never before what the table has already recorded.

    A clock that went back, or a client whose clock is ahead, must not yield a file that Java's readers refuse.
    """
    times = [now_ms]
    if base is not None:
        times.append(base["last-updated-ms"])
        times.extend(entry["timestamp-ms"] for entry in (base.get("metadata-log") or [])[-1:])
    times.extend(entry["timestamp-ms"] for entry in snapshot_log[-1:])
    return max(times)


def _extend_snapshot_log(
    log: list[Any],
    changes: list[tuple[int, int | None]],
    *,
    current_id: int | None,
    was_current_id: int | None,
    now_ms: int,
) -> list[Any]:
    """The snapshot log after `main` went through `changes` in one request.

    A change is (snapshot id, its timestamp when the same request added it, else None). Added snapshots that are not
    current at the end were never seen by a reader and leave no entry. The time of a snapshot added now is its own,
    that of an older one is now.

    Raises `BadRequest` when an entry would lie more than a minute before its predecessor, as no Java reader would
    open the table any more.
    """
    extended = list(log)
    known_id = was_current_id
    for snapshot_id, added_at in changes:
        if added_at is not None and snapshot_id != current_id:
            continue
        if snapshot_id == known_id and extended and extended[-1]["snapshot-id"] == snapshot_id:
            continue
        previous_ms = extended[-1]["timestamp-ms"] if extended else None
        if added_at is not None and previous_ms is not None and added_at < previous_ms - LOG_CLOCK_SKEW_MS:
            raise BadRequest(
                f"Invalid snapshot timestamp {added_at}: more than a minute before the last snapshot log entry "
                f"at {previous_ms}"
            )
        since_ms = max(now_ms, previous_ms or now_ms) if added_at is None else added_at
        extended.append({"timestamp-ms": since_ms, "snapshot-id": snapshot_id})
        known_id = snapshot_id
    return extended


def _cut_snapshot_log(log: list[Any], kept_ids: Any) -> list[Any]:
    """Return the log without all entries up to the last one of a removed snapshot.

    With a gap, time travel would return a snapshot that was not current at that time.
    """
    for index in range(len(log) - 1, -1, -1):
        if log[index]["snapshot-id"] not in kept_ids:
            return log[index + 1 :]
    return log
