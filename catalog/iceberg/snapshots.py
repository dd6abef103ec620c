"""Snapshots and references: validation of their documents, and the updates that change them.

Java: `SnapshotParser`, `SnapshotRefParser`, `TableMetadata.Builder`.
"""

from __future__ import annotations

from typing import Any, Final

from catalog.iceberg.draft import Draft
from catalog.iceberg.json_fields import (
    LONG_RANGE,
    as_string_map,
    clip,
    field_path,
    optional_int,
    optional_long,
    optional_string,
    read_long,
    read_long_list,
    read_object,
    read_string,
    read_string_list,
    require_not_ahead,
    without_nulls,
    wrong_type,
)
from catalog.iceberg.types import MAIN_BRANCH, NO_SNAPSHOT_ID, ROW_LINEAGE_VERSION
from icekeeper.kernel.errors.types import BadRequest, CommitFailed

OPERATIONS: Final = ("append", "replace", "overwrite", "delete")
"""Clients other than Java's open no table that has a snapshot with another one."""

_OPTIONAL_FIELDS: Final = (
    "parent-snapshot-id",
    "sequence-number",
    "schema-id",
    "first-row-id",
    "added-rows",
    "key-id",
    "summary",
    "manifests",
    "manifest-list",
)
_REF_LIMITS: Final = ("min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms")


def check_snapshot(snapshot: dict[str, Any], where: str, format_version: int) -> int:
    """Check one snapshot document and return its id.

    A summary and its operation are optional, as old writers left them out. In version 1 the embedded `manifests` may
    stand for the manifest list. Java reads them in later versions, too; PyIceberg does not.
    """
    snapshot_id = read_long(snapshot, "snapshot-id", where)
    if snapshot_id == NO_SNAPSHOT_ID:
        raise BadRequest(f"{field_path(where, 'snapshot-id')}: -1 means no snapshot and cannot be the id of one")
    for name in ("parent-snapshot-id", "sequence-number", "summary", "manifest-list"):
        if name in snapshot and snapshot[name] is None:
            raise wrong_type(field_path(where, name), "a value or no such field", None)
    optional_long(snapshot, "parent-snapshot-id", where)
    if (number := sequence_number(snapshot, where)) < 0:
        raise BadRequest(f"{field_path(where, 'sequence-number')}: must not be negative: {number}")
    read_long(snapshot, "timestamp-ms", where)
    if "summary" in snapshot:
        summary = as_string_map(snapshot["summary"], field_path(where, "summary"))
        if summary.get("operation", "append") not in OPERATIONS:
            known = ", ".join(OPERATIONS)
            raise BadRequest(
                f"{field_path(where, 'summary')}.operation: must be one of {known}, not {clip(summary['operation'])}"
            )
    optional_int(snapshot, "schema-id", where)
    optional_string(snapshot, "key-id", where)
    _check_rows(snapshot, where)
    if "manifest-list" in snapshot:
        read_string(snapshot, "manifest-list", where)
    elif format_version == 1 and snapshot.get("manifests") is not None:
        read_string_list(snapshot, "manifests", where)
    else:
        raise BadRequest(f"{field_path(where, 'manifest-list')}: required field is missing")
    return snapshot_id


def read_new_snapshot(update: dict[str, Any], format_version: int) -> dict[str, Any]:
    """The snapshot of an add-snapshot update, without null fields.

    From version 2 on the sequence number, a summary with its operation and a manifest list are required.
    """
    snapshot = without_nulls(read_object(update, "snapshot", ""), _OPTIONAL_FIELDS)
    check_snapshot(snapshot, "snapshot", format_version)
    number = snapshot.get("sequence-number")
    if format_version == 1:
        if number:
            raise BadRequest(f"snapshot.sequence-number: Sequence number must be 0 in v1: {number}")
        snapshot.pop("sequence-number", None)
        return snapshot
    read_string(read_object(snapshot, "summary", "snapshot"), "operation", "snapshot.summary")
    read_string(snapshot, "manifest-list", "snapshot")
    read_long(snapshot, "sequence-number", "snapshot")
    return snapshot


def sequence_number(snapshot: dict[str, Any], where: str = "snapshot") -> int:
    """A snapshot without one comes from version 1 and counts as 0."""
    return optional_long(snapshot, "sequence-number", where) or 0


def _check_rows(snapshot: dict[str, Any], where: str) -> None:
    first_row_id = optional_long(snapshot, "first-row-id", where)
    added_rows = optional_long(snapshot, "added-rows", where)
    if first_row_id is not None and first_row_id < 0:
        raise BadRequest(f"{where}: Invalid first-row-id (cannot be negative): {first_row_id}")
    if added_rows is not None and added_rows < 0:
        raise BadRequest(f"{where}: Invalid added-rows (cannot be negative): {added_rows}")
    if first_row_id is not None and added_rows is None:
        raise BadRequest(f"{where}: Invalid added-rows (required when first-row-id is set): null")


def read_reference(name: str, document: dict[str, Any], where: str) -> dict[str, Any]:
    """A `refs` entry in its canonical form: the type in lower case, null limits left out, unknown fields kept.

    Limits are positive; a tag has only `max-ref-age-ms`; `main` is a branch.
    """
    reference = without_nulls(document, _REF_LIMITS)
    read_long(reference, "snapshot-id", where)
    kind = read_string(reference, "type", where).lower()
    if kind not in {"branch", "tag"}:
        raise BadRequest(f"{field_path(where, 'type')}: Invalid snapshot ref type: {clip(kind)}")
    limits = (
        optional_int(reference, "min-snapshots-to-keep", where),
        optional_long(reference, "max-snapshot-age-ms", where),
        optional_long(reference, "max-ref-age-ms", where),
    )
    for limit_name, limit in zip(_REF_LIMITS, limits, strict=True):
        if limit is not None and limit <= 0:
            raise BadRequest(f"{field_path(where, limit_name)}: must be greater than 0: {limit}")
        if limit is not None and kind == "tag" and limit_name != "max-ref-age-ms":
            raise BadRequest(f"{field_path(where, limit_name)}: Tags do not support setting {limit_name}")
    if name == MAIN_BRANCH and kind != "branch":
        raise BadRequest(f"{field_path(where, 'type')}: {MAIN_BRANCH} must be a branch")
    reference["type"] = kind
    return reference


def check_log_entry(entry: dict[str, Any], where: str) -> int:
    """Check a `snapshot-log` entry and give its time."""
    read_long(entry, "snapshot-id", where)
    return read_long(entry, "timestamp-ms", where)


def check_metadata_log_entry(entry: dict[str, Any], where: str) -> int:
    """Check a `metadata-log` entry and give its time."""
    read_string(entry, "metadata-file", where)
    return read_long(entry, "timestamp-ms", where)


def on_add_snapshot(draft: Draft, update: dict[str, Any]) -> None:
    """add-snapshot.

    `CommitFailed` when its schema, sequence number or row ids were taken from an older version of the table.
    """
    snapshot = read_new_snapshot(update, draft.format_version)
    for known, name in ((draft.schemas, "schema"), (draft.specs, "partition spec"), (draft.orders, "sort order")):
        if not known.documents:
            raise BadRequest(f"Attempting to add a snapshot before a {name} is added")
    snapshot_id = snapshot["snapshot-id"]
    if snapshot_id in draft.snapshots:
        raise BadRequest(f"Snapshot already exists for id: {snapshot_id}")
    _check_schema(draft, snapshot.get("schema-id"))
    require_not_ahead(snapshot["timestamp-ms"], draft.now_ms, "snapshot.timestamp-ms")
    if snapshot.get("parent-snapshot-id") == snapshot_id:
        raise BadRequest(f"snapshot.parent-snapshot-id: a snapshot cannot be its own parent: {snapshot_id}")
    if draft.format_version > 1:
        _advance_sequence_number(draft, snapshot)
    if draft.format_version >= ROW_LINEAGE_VERSION:
        _advance_row_ids(draft, snapshot)
    draft.add_snapshot(snapshot)


def _check_schema(draft: Draft, schema_id: int | None) -> None:
    """Raises `CommitFailed` when the schema of a snapshot does not exist: no reader could time travel to the snapshot.

    Maintenance may have removed the schema concurrently, and the metadata does not record that it ever existed. So a
    missing schema is a conflict: the writer retries with the newest version.
    """
    if schema_id is None or schema_id in draft.schemas.documents:
        return
    if schema_id < 0:
        raise BadRequest(f"snapshot.schema-id: cannot be negative: {schema_id}")
    raise CommitFailed(f"snapshot.schema-id: the table has no schema {schema_id}, or has none any more")


def _advance_sequence_number(draft: Draft, snapshot: dict[str, Any]) -> None:
    """Advance `last-sequence-number` for a new snapshot. Raises `CommitFailed` for one with an outdated number.

    A snapshot without a parent (a replaced table) may have an outdated number, as it has no order relative to others.
    Even then `last-sequence-number` never decreases: Java readers reject a file in which it is below that of a
    snapshot. A snapshot on a branch without concurrent changes may be late, too, and gets the next number: its files
    keep the number in its manifest list, which is above all earlier ones on that branch.
    """
    number = sequence_number(snapshot)
    if number == LONG_RANGE[1]:
        raise BadRequest(f"snapshot.sequence-number: {number} leaves none for later snapshots")
    last = draft.metadata["last-sequence-number"]
    if number <= last and snapshot.get("parent-snapshot-id") is not None:
        if not _may_come_late(draft, snapshot, number) or last == LONG_RANGE[1]:
            raise CommitFailed(
                f"Cannot add snapshot with sequence number {number} older than last sequence number {last}"
            )
        number = snapshot["sequence-number"] = last + 1
    draft.metadata["last-sequence-number"] = max(last, number)


def _may_come_late(draft: Draft, snapshot: dict[str, Any], number: int) -> bool:
    parent = draft.snapshots.get(snapshot["parent-snapshot-id"])
    if parent is None or snapshot["snapshot-id"] not in draft.guarded_snapshots:
        return False
    return number > sequence_number(parent) or snapshot["parent-snapshot-id"] in draft.added_snapshots


def _advance_row_ids(draft: Draft, snapshot: dict[str, Any]) -> None:
    """Row ids are never given twice: a client that skipped some moves `next-row-id` past its own rows."""
    first_row_id, next_row_id = snapshot.get("first-row-id"), draft.metadata["next-row-id"]
    if first_row_id is None:
        raise BadRequest("Cannot add a snapshot: first-row-id is null")
    if first_row_id < next_row_id:
        raise CommitFailed(
            f"Cannot add a snapshot, first-row-id is behind table next-row-id: {first_row_id} < {next_row_id}"
        )
    following = first_row_id + snapshot["added-rows"]
    if following > LONG_RANGE[1]:
        raise BadRequest(f"snapshot.added-rows: row ids are exhausted: {first_row_id} + {snapshot['added-rows']}")
    draft.metadata["next-row-id"] = following


def on_remove_snapshots(draft: Draft, update: dict[str, Any]) -> None:
    """remove-snapshots. Their statistics and the references to them go too; parents of survivors stay as they are."""
    asked = read_long_list(update, "snapshot-ids", "")
    removed = {snapshot_id: None for snapshot_id in asked if snapshot_id in draft.snapshots}
    for snapshot_id in removed:
        draft.remove_snapshot(snapshot_id)
        draft.replace_files("statistics", snapshot_id, [])
        draft.replace_files("partition-statistics", snapshot_id, [])
        for name in draft.references_to(snapshot_id):
            _remove_reference(draft, name)


def on_set_snapshot_ref(draft: Draft, update: dict[str, Any]) -> None:
    name = read_string(update, "ref-name", "")
    document = {key: value for key, value in update.items() if key not in {"action", "ref-name"}}
    reference = read_reference(name, document, "")
    if (draft.metadata.get("refs") or {}).get(name) == reference:
        return
    snapshot_id = reference["snapshot-id"]
    if snapshot_id not in draft.snapshots:
        raise BadRequest(f"snapshot-id: Cannot set {clip(name)} to unknown snapshot: {snapshot_id}")
    draft.set_reference(name, reference)
    if name == MAIN_BRANCH:
        added = draft.added_snapshots.get(snapshot_id)
        draft.main_changes.append((snapshot_id, None if added is None else added["timestamp-ms"]))
        draft.current_snapshot_id = snapshot_id


def on_remove_snapshot_ref(draft: Draft, update: dict[str, Any]) -> None:
    """remove-snapshot-ref. Without main the table has no current snapshot; snapshots and log stay."""
    name = read_string(update, "ref-name", "")
    if name in (draft.metadata.get("refs") or {}):
        _remove_reference(draft, name)


def _remove_reference(draft: Draft, name: str) -> None:
    draft.remove_reference(name)
    if name == MAIN_BRANCH:
        draft.current_snapshot_id = None
