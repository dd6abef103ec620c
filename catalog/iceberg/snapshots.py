"""Snapshots and references as documents: what a valid one looks like. Java: `SnapshotParser`, `SnapshotRefParser`."""

from __future__ import annotations

from typing import Any, Final

from catalog.iceberg.json_fields import (
    as_string_map,
    clip,
    field_path,
    optional_int,
    optional_long,
    optional_string,
    read_long,
    read_object,
    read_string,
    read_string_list,
    without_nulls,
    wrong_type,
)
from catalog.iceberg.types import MAIN_BRANCH, NO_SNAPSHOT_ID
from icekeeper.kernel.errors.types import BadRequest

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
