"""Small documents for the example tests."""

from __future__ import annotations

from typing import Any

from catalog.iceberg.types import TableMetadata
from catalog.iceberg.updates import TableChange, apply_updates
from catalog.iceberg.validation import read_table_metadata

NOW = 1_700_000_000_000
UUID = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
BASE_FILE = "s3://bucket/t/metadata/00001-a.metadata.json"


def column(field_id: int, name: str, column_type: Any = "int", **more: Any) -> dict[str, Any]:
    return {"id": field_id, "name": name, "required": False, "type": column_type, **more}


def schema(*columns: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": list(columns), **more}


ID, DATA, TIME = column(1, "id", "long", required=True), column(2, "data", "string"), column(3, "ts", "timestamp")


def nested_type(kind: str, depth: int) -> Any:
    inner: Any = "int"
    for level in range(depth):
        number = 10 + 2 * level
        if kind == "struct":
            inner = {"type": "struct", "fields": [column(number, "f", inner)]}
        elif kind == "list":
            inner = {"type": "list", "element-id": number, "element": inner, "element-required": False}
        else:
            inner = {
                "type": "map", "key-id": number, "key": "int", "value-id": number + 1, "value": inner,
                "value-required": False,
            }  # fmt: skip
    return inner


def one_long_name(length: int, leaves: int) -> dict[str, Any]:
    """A struct with `leaves` fields whose full names all repeat its name."""
    inner = {"type": "struct", "fields": [column(number + 10, str(number)) for number in range(leaves)]}
    return schema(ID, column(2, "n" * length, inner))


def partition(source_id: int, transform: str, name: str, **more: Any) -> dict[str, Any]:
    return {"source-id": source_id, "transform": transform, "name": name, **more}


def sorting(source_id: int, transform: str = "identity", **more: Any) -> dict[str, Any]:
    return {"source-id": source_id, "transform": transform, "direction": "asc", "null-order": "nulls-first", **more}


def snapshot(snapshot_id: int, *, parent: int | None = None, number: int | None = None, **more: Any) -> dict[str, Any]:
    """A snapshot of a version 2 table unless `number` is 0, one second later than its predecessor."""
    document: dict[str, Any] = {"snapshot-id": snapshot_id}
    if parent is not None:
        document["parent-snapshot-id"] = parent
    if number != 0:
        document["sequence-number"] = snapshot_id if number is None else number
    document |= {
        "timestamp-ms": NOW + snapshot_id * 1_000,
        "manifest-list": f"s3://bucket/t/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append", "added-records": "1"},
        "schema-id": 0,
    }
    return document | more


def table(version: int = 2, *, snapshots: int = 0, **more: Any) -> TableMetadata:
    """A table with columns id, data, ts, no partitions and `snapshots` commits to main, numbered from 1."""
    metadata: dict[str, Any] = {
        "format-version": version,
        "table-uuid": UUID,
        "location": "s3://bucket/t",
        "last-updated-ms": NOW + snapshots * 1_000,
        "last-column-id": 3,
        "current-schema-id": 0,
        "schemas": [schema(ID, DATA, TIME, **{"schema-id": 0})],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"owner": "ann"},
        "current-snapshot-id": snapshots or (None if version > 2 else -1),
        "refs": {"main": {"snapshot-id": snapshots, "type": "branch"}} if snapshots else {},
        "snapshots": [
            snapshot(
                number,
                parent=number - 1 or None,
                number=0 if version == 1 else number,
                **({"first-row-id": number - 1, "added-rows": 1} if version > 2 else {}),
            )
            for number in range(1, snapshots + 1)
        ],
        "snapshot-log": [
            {"timestamp-ms": NOW + number * 1_000, "snapshot-id": number} for number in range(1, snapshots + 1)
        ],
        "metadata-log": [],
    }
    if version == 1:
        metadata |= {"schema": metadata["schemas"][0], "partition-spec": []}
    if version > 1:
        metadata["last-sequence-number"] = snapshots
    if version > 2:
        metadata["next-row-id"] = snapshots
    return read_table_metadata(metadata | more)


def commit(base: TableMetadata | None, *updates: Any, now_ms: int = NOW + 100_000, **more: Any) -> TableChange:
    location = None if base is None else BASE_FILE
    return apply_updates(base, list(updates), now_ms=now_ms, base_metadata_location=location, **more)


def after(base: TableMetadata | None, *updates: Any, **more: Any) -> TableMetadata:
    return commit(base, *updates, **more).metadata


def set_main(snapshot_id: int) -> dict[str, Any]:
    return {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}


def add(document: dict[str, Any]) -> dict[str, Any]:
    return {"action": "add-snapshot", "snapshot": document}
