"""The updates of a table's history: snapshots, branches and tags. Java: `TableMetadata.Builder`."""

from __future__ import annotations

from typing import Any

from catalog.iceberg.draft import Draft
from catalog.iceberg.json_fields import LONG_RANGE, clip, read_long_list, read_string, require_not_ahead
from catalog.iceberg.snapshots import read_new_snapshot, read_reference, sequence_number
from catalog.iceberg.types import MAIN_BRANCH, ROW_LINEAGE_VERSION
from icekeeper.kernel.errors.types import BadRequest, CommitFailed


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
