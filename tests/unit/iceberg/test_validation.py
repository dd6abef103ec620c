"""Reading metadata files of other writers: validation errors, and the conversion of version 1 files."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from catalog.iceberg.validation import read_table_metadata
from icekeeper.kernel.errors.types import BadRequest
from tests.unit.iceberg.document_fixtures import (
    DATA,
    ID,
    NOW,
    TIME,
    column,
    partition,
    schema,
    snapshot,
    sorting,
    table,
)

MISSING = object()


def changed(version: int = 2, history: int = 2, **fields: Any) -> dict[str, Any]:
    document = table(version, snapshots=history)
    for name, value in fields.items():
        key = name.replace("_", "-")
        document[key] = value
        if value is MISSING:
            del document[key]
    return document


def with_schema(*columns: Any, **more: Any) -> list[Any]:
    return [schema(*columns, **{"schema-id": 0}, **more)]


def with_spec(*fields: Any) -> list[Any]:
    return [{"spec-id": 0, "fields": list(fields)}]


STRUCT = column(4, "s", {"type": "struct", "fields": [column(5, "x", required=True)]})
LIST = column(6, "l", {"type": "list", "element-id": 7, "element": "int", "element-required": True}, required=True)
FILE = {"snapshot-id": 1, "statistics-path": "s3://p", "file-size-in-bytes": 9}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format_version": MISSING}, "format-version: required field is missing"),
        ({"format_version": "2"}, "format-version: expected a 32-bit integer"),
        ({"format_version": 5}, "Unsupported format version: v5"),
        ({"format_version": 0}, "Unsupported format version: v0"),
        ({"table_uuid": MISSING}, "table-uuid: required field is missing"),
        ({"table_uuid": "x"}, "table-uuid: expected a UUID"),
        ({"location": MISSING}, "location: required field is missing"),
        ({"location": ""}, "location must not be empty"),
        ({"last_sequence_number": MISSING}, "last-sequence-number: required field is missing"),
        ({"last_sequence_number": -1}, "last-sequence-number: must not be negative"),
        ({"last_sequence_number": 1}, r"snapshots\[1\]: Invalid snapshot with sequence number 2 greater"),
        ({"last_updated_ms": MISSING}, "last-updated-ms: required field is missing"),
        ({"last_updated_ms": True}, "last-updated-ms: expected a 64-bit integer, got true"),
        ({"last_column_id": MISSING}, "last-column-id: required field is missing"),
        ({"last_column_id": 2}, "last-column-id: 2 is lower than the field id 3"),
        ({"schemas": MISSING}, "schemas must exist in format v2"),
        ({"schemas": None}, "schemas: expected an array, got null"),
        ({"schemas": []}, "Cannot find schema with current-schema-id=0"),
        ({"schemas": [{"type": "struct"}]}, r"schemas\[0\].fields: required field is missing"),
        ({"schemas": with_schema(ID) * 2}, "schemas: id 0 is used twice"),
        ({"current_schema_id": MISSING}, "current-schema-id: required field is missing"),
        ({"current_schema_id": 3}, "Cannot find schema with current-schema-id=3"),
        ({"schemas": with_schema(column(1, "c", "variant"))}, "c: variant is not supported until v3"),
        ({"schemas": with_schema(column(1, "c", **{"initial-default": 1}))}, "not supported until v3"),
        ({"schemas": with_schema(column(1, "c", **{"initial-default": None}))}, r"fields\[0\].initial-default"),
        ({"schemas": with_schema(ID, column(1, "z"))}, "field id 1 is used twice"),
        ({"schemas": with_schema(column(1, "a"), column(2, "a"))}, "multiple fields for name a"),
        ({"schemas": with_schema(STRUCT, column(1, "s.x")), "last_column_id": 9}, "multiple fields for name s.x"),
        ({"schemas": with_schema(ID, **{"identifier-field-ids": [9]})}, "field does not exist"),
        ({"schemas": with_schema(ID, DATA, **{"identifier-field-ids": [2]})}, "not a required field"),
        (
            {"schemas": with_schema(column(1, "d", "double", required=True), **{"identifier-field-ids": [1]})},
            "must not be float or double",
        ),
        (
            {"schemas": with_schema(STRUCT, **{"identifier-field-ids": [5]}), "last_column_id": 9},
            "must not be nested in an optional field s",
        ),
        (
            {"schemas": with_schema(LIST, **{"identifier-field-ids": [7]}), "last_column_id": 9},
            "must not be nested in list",
        ),
        (
            {"schemas": with_schema(LIST, **{"identifier-field-ids": [6]}), "last_column_id": 9},
            "not a primitive type field",
        ),
        ({"partition_specs": MISSING}, "partition-specs must exist in format v2"),
        ({"partition_specs": None}, "partition-specs: expected an array"),
        ({"partition_specs": []}, "default-spec-id: there is no partition spec 0"),
        ({"partition_specs": [{"fields": []}]}, r"partition-specs\[0\].spec-id: required field is missing"),
        ({"partition_specs": with_spec() * 2}, "partition-specs: id 0 is used twice"),
        ({"default_spec_id": 1}, "default-spec-id: there is no partition spec 1"),
        ({"default_spec_id": MISSING}, "default-spec-id: required field is missing"),
        ({"last_partition_id": MISSING}, "last-partition-id must exist in format v2"),
        (
            {"partition_specs": with_spec(partition(1, "identity", "p", **{"field-id": 1000}))},
            "last-partition-id: 999 is lower than the partition field id 1000",
        ),
        (
            {"partition_specs": with_spec(partition(1, "identity", "p", **{"field-id": None}))},
            "missing field IDs: 1 missing of 1",
        ),
        (
            {"partition_specs": with_spec(partition(1, "day", "p")), "last_partition_id": 1000},
            "Invalid source type long for transform: day",
        ),
        (
            {"partition_specs": with_spec(partition(9, "identity", "p")), "last_partition_id": 1000},
            "Cannot find source column for partition field: p",
        ),
        ({"sort_orders": MISSING}, "sort-orders must exist in format v2"),
        ({"sort_orders": []}, "default-sort-order-id: there is no sort order 0"),
        ({"sort_orders": [{"order-id": 0, "fields": []}] * 2}, "sort-orders: id 0 is used twice"),
        ({"sort_orders": [{"order-id": 1, "fields": []}]}, "Unsorted order ID must be 0"),
        ({"sort_orders": [{"order-id": 0, "fields": [sorting(1)]}]}, "Sort order ID 0 is reserved"),
        ({"default_sort_order_id": 4}, "there is no sort order 4"),
        ({"properties": None}, "properties: expected an object"),
        ({"properties": {"a": 1}}, "properties.a: expected a string"),
        ({"snapshots": None}, "snapshots: expected an array"),
        ({"snapshots": [snapshot(1), snapshot(1)]}, "snapshots: id 1 is used twice"),
        ({"snapshots": []}, "current-snapshot-id: there is no snapshot 2"),
        ({"snapshots": [snapshot(2, **{"parent-snapshot-id": None})]}, "parent-snapshot-id"),
        ({"snapshots": [snapshot(2, summary={"a": 1})]}, "summary.a: expected a string"),
        ({"current_snapshot_id": 9}, "there is no snapshot 9"),
        ({"current_snapshot_id": 1}, "Current snapshot ID does not match main branch"),
        ({"current_snapshot_id": None}, "Current snapshot is not set, but main branch exists"),
        ({"refs": None}, "refs"),
        ({"refs": {"b": {"snapshot-id": 9, "type": "branch"}}}, "refs.b: Snapshot for reference does not exist: 9"),
        ({"refs": {"b": {"snapshot-id": 1, "type": "twig"}}}, "refs.b.type"),
        ({"refs": {"b": []}}, "refs.b: expected an object"),
        ({"statistics": None}, "statistics: expected an array"),
        ({"statistics": [FILE]}, r"statistics\[0\].file-footer-size-in-bytes: required field is missing"),
        ({"partition_statistics": [{}]}, r"partition-statistics\[0\]"),
        ({"encryption_keys": [{"key-id": "k"}]}, "encrypted-key-metadata: required field is missing"),
        (
            {
                "snapshot_log": [
                    {"snapshot-id": 1, "timestamp-ms": NOW},
                    {"snapshot-id": 2, "timestamp-ms": NOW - 60_001},
                ]
            },
            r"snapshot-log\[0\].timestamp-ms: \d+ lies after the next entry",
        ),
        ({"snapshot_log": [{"snapshot-id": 1, "timestamp-ms": NOW + 62_001}]}, "lies after last-updated-ms"),
        ({"snapshot_log": None}, "snapshot-log: expected an array"),
        ({"metadata_log": [{"timestamp-ms": NOW + 62_001, "metadata-file": "f"}]}, "lies after last-updated-ms"),
        ({"metadata_log": [{"timestamp-ms": NOW}]}, r"metadata-log\[0\].metadata-file: required field is missing"),
    ],
)
def test_invalid_documents_are_rejected(fields: dict[str, Any], message: str) -> None:
    document = changed(**fields)
    before = copy.deepcopy(document)
    with pytest.raises(BadRequest, match=message):
        read_table_metadata(document)
    assert document == before


def test_version_3_needs_row_ids() -> None:
    with pytest.raises(BadRequest, match="next-row-id: required field is missing"):
        read_table_metadata(changed(3, next_row_id=MISSING))
    with pytest.raises(BadRequest, match="cannot be negative"):
        read_table_metadata(changed(3, snapshots=[snapshot(1), snapshot(2, **{"first-row-id": -1, "added-rows": 1})]))


def test_documents_that_are_accepted_unchanged() -> None:
    document = changed(
        partition_specs=with_spec(partition(3, "zorder[4]", "z", **{"field-id": 1000, "x": 1})),
        last_partition_id=1000,
        statistics=[{**FILE, "file-footer-size-in-bytes": 1, "blob-metadata": [], "x": 1}],
    )
    document["x-unknown"] = {"a": None}
    before = copy.deepcopy(document)
    assert read_table_metadata(document) == before
    assert list(read_table_metadata(document)) == list(before)


def test_an_old_spec_may_refer_to_a_removed_column() -> None:
    specs: list[dict[str, Any]] = [
        {"spec-id": 0, "fields": []},
        {"spec-id": 1, "fields": [partition(3, "day", "d", **{"field-id": 1000})]},
    ]
    document = changed(schemas=with_schema(ID, DATA), partition_specs=specs, last_partition_id=1000)
    assert read_table_metadata(document)["partition-specs"] == specs
    specs[1]["fields"].append(partition(1, "hour", "h", **{"field-id": 1000}))
    with pytest.raises(BadRequest, match="twice"):
        read_table_metadata(document)


def test_refs_are_built_from_the_current_snapshot() -> None:
    main = {"snapshot-id": 2, "type": "branch"}
    assert read_table_metadata(changed(refs=MISSING))["refs"] == {"main": main}
    other = {"b": {"snapshot-id": 1, "type": "branch"}}
    assert read_table_metadata(changed(refs=other))["refs"] == {"main": main, **other}
    empty = read_table_metadata(changed(history=0, refs=MISSING, properties=MISSING))
    assert (empty["refs"], empty["properties"]) == ({}, {})


@pytest.mark.parametrize("current", [MISSING, None, -1])
def test_no_current_snapshot_in_any_spelling(current: Any) -> None:
    document = changed(history=0, current_snapshot_id=current)
    assert read_table_metadata(document)["refs"] == {}


LEGACY: dict[str, Any] = {
    "format-version": 1,
    "location": "s3://bucket/t",
    "last-updated-ms": NOW,
    "last-column-id": 3,
    "schema": schema(ID, DATA, TIME),
    "partition-spec": [partition(3, "day", "day"), partition(1, "bucket[4]", "b")],
    "properties": {},
    "current-snapshot-id": 1,
    "snapshots": [{"snapshot-id": 1, "timestamp-ms": NOW, "manifests": ["s3://m"], "summary": {"operation": "append"}}],
}


def test_a_version_1_file_of_old() -> None:
    document = copy.deepcopy(LEGACY)
    metadata = read_table_metadata(document)
    assert document == LEGACY
    assert metadata["schemas"] == [{**LEGACY["schema"], "schema-id": 0}]
    assert metadata["current-schema-id"] == 0
    assert metadata["partition-specs"] == [
        {
            "spec-id": 0,
            "fields": [
                partition(3, "day", "day", **{"field-id": 1000}),
                partition(1, "bucket[4]", "b", **{"field-id": 1001}),
            ],
        }
    ]
    assert (metadata["default-spec-id"], metadata["last-partition-id"]) == (0, 1001)
    assert metadata["sort-orders"] == [{"order-id": 0, "fields": []}]
    assert metadata["default-sort-order-id"] == 0
    assert metadata["refs"] == {"main": {"snapshot-id": 1, "type": "branch"}}
    assert {name: metadata[name] for name in LEGACY} == LEGACY
    assert "table-uuid" not in metadata
    assert read_table_metadata(metadata) == metadata


@pytest.mark.parametrize("name", ["schema", "partition-spec"])
def test_a_version_1_file_needs_one_form_or_the_other(name: str) -> None:
    with pytest.raises(BadRequest, match=f"{name}: required field is missing"):
        read_table_metadata({key: value for key, value in LEGACY.items() if key != name})


def test_a_version_1_schema_keeps_its_id() -> None:
    metadata = read_table_metadata({**LEGACY, "schema": {**LEGACY["schema"], "schema-id": 5}})
    assert metadata["current-schema-id"] == metadata["schemas"][0]["schema-id"] == 5
