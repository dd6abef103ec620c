"""Table creation: from a create request, and from the updates that complete a staged create."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from catalog.iceberg.create import create_table_metadata, requested_format_version
from catalog.iceberg.updates import apply_updates
from catalog.iceberg.validation import read_table_metadata
from icekeeper.kernel.errors.types import BadRequest
from tests.unit.iceberg.document_fixtures import (
    NOW,
    UUID,
    add,
    after,
    column,
    commit,
    partition,
    schema,
    set_main,
    snapshot,
    sorting,
)

# as Spark sends it: ids from 0, a struct inside a list inside a struct, null for unset members
NESTED = schema(
    column(0, "id", "long", required=True),
    column(
        1,
        "points",
        {
            "type": "list",
            "element-id": 4,
            "element": {"type": "struct", "fields": [column(5, "x"), column(6, "y")]},
            "element-required": False,
        },
    ),
    column(
        2,
        "tags",
        {"type": "map", "key-id": 7, "key": "string", "value-id": 8, "value": "int", "value-required": False},
    ),
    column(3, "ts", "timestamp"),
    **{"schema-id": 4, "identifier-field-ids": [0]},
)


def create(**changed: Any) -> dict[str, Any]:
    request: dict[str, Any] = {
        "schema": NESTED,
        "partition_spec": None,
        "write_order": None,
        "location": "s3://bucket/t/",
        "properties": None,
        "table_uuid": UUID,
        "format_version": 2,
        "now_ms": NOW,
    }
    return create_table_metadata(**(request | changed))


def test_a_whole_new_table() -> None:
    assert create(schema=schema(column(7, "a"))) == {
        "format-version": 2,
        "table-uuid": UUID,
        "location": "s3://bucket/t",
        "last-sequence-number": 0,
        "last-updated-ms": NOW,
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [schema(column(1, "a"), **{"schema-id": 0})],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "current-snapshot-id": -1,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }


def test_field_ids_are_assigned_level_by_level() -> None:
    sent = copy.deepcopy(NESTED)
    metadata = create()
    fields = metadata["schemas"][0]["fields"]
    assert [field["id"] for field in fields] == [1, 2, 3, 4]
    assert fields[1]["type"]["element-id"] == 5
    assert [field["id"] for field in fields[1]["type"]["element"]["fields"]] == [6, 7]
    assert (fields[2]["type"]["key-id"], fields[2]["type"]["value-id"]) == (8, 9)
    assert metadata["schemas"][0]["identifier-field-ids"] == [1]
    assert metadata["schemas"][0]["schema-id"] == 0
    assert metadata["last-column-id"] == 9
    assert sent == NESTED


def test_spec_and_order_follow_the_new_ids() -> None:
    spec: dict[str, Any] = {
        "spec-id": 8,
        "fields": [partition(3, "day", "day", **{"field-id": 5}), partition(5, "identity", "x")],
    }
    with pytest.raises(BadRequest, match=r"partition-spec.fields\[1\]: Invalid partition field parent: list"):
        create(partition_spec=spec)
    spec["fields"][1] = partition(0, "bucket[4]", "b", **{"x-note": "n"})
    metadata = create(partition_spec=spec, write_order={"order-id": 9, "fields": [sorting(3), sorting(0)]})
    assert metadata["partition-specs"] == [
        {
            "spec-id": 0,
            "fields": [
                partition(4, "day", "day", **{"field-id": 1000}),
                partition(1, "bucket[4]", "b", **{"x-note": "n", "field-id": 1001}),
            ],
        }
    ]
    assert metadata["last-partition-id"] == 1001
    assert [(order["order-id"], order["fields"]) for order in metadata["sort-orders"]] == [
        (1, [sorting(4), sorting(1)])
    ]
    assert (metadata["default-spec-id"], metadata["default-sort-order-id"]) == (0, 1)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_version(version: int) -> None:
    metadata = create(format_version=version)
    assert read_table_metadata(metadata) == metadata
    assert ("schema" in metadata) == ("partition-spec" in metadata) == (version == 1)
    assert metadata["current-snapshot-id"] == (None if version == 3 else -1)
    assert metadata.get("next-row-id") == (0 if version == 3 else None)
    if version == 1:
        assert metadata["schema"] == metadata["schemas"][0]


def test_reserved_properties_are_dropped() -> None:
    assert create(properties={"a": "b", "format-version": "2", "uuid": "x", "snapshot-count": "1"})["properties"] == {
        "a": "b"
    }


def test_defaults_survive_in_version_3() -> None:
    with_default = schema(column(0, "c", "string", **{"initial-default": "x", "write-default": "y"}))
    stored = create(schema=with_default, format_version=3)["schemas"][0]["fields"][0]
    assert (stored["initial-default"], stored["write-default"]) == ("x", "y")
    with pytest.raises(BadRequest, match="Invalid initial default for c"):
        create(schema=with_default)


def test_the_text_for_a_variant_in_version_2() -> None:
    with pytest.raises(BadRequest, match="Invalid type for c: variant is not supported until v3"):
        create(schema=schema(column(0, "c", "variant")))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"schema": None}, "schema: expected an object, got null"),
        ({"schema": {}}, "schema.type: required field is missing"),
        ({"schema": {"type": "list", "fields": []}}, 'schema.type: expected "struct"'),
        ({"schema": {"type": "struct"}}, "schema.fields: required field is missing"),
        ({"schema": schema(column(1, "a"), column(1, "b"))}, "field id 1 is used twice, by a and b"),
        ({"schema": schema(column(1, "a"), column(2, "a"))}, "multiple fields for name a: 1 and 2"),
        ({"schema": schema(column(True, "a"))}, r"schema.fields\[0\].id: expected a 32-bit integer, got true"),
        ({"schema": schema(column(1, "a", "number"))}, r'schema.fields\[0\].type: unknown type "number"'),
        ({"location": None}, "location: expected a string, got null"),
        ({"location": ""}, "location must not be empty"),
        ({"location": "///"}, "location must not be empty"),
        ({"properties": {"a": 1}}, "properties.a: expected a string, got the number 1"),
        ({"properties": []}, "properties: expected an object"),
        ({"partition_spec": []}, "partition-spec: expected an object"),
        ({"partition_spec": {"fields": [partition(99, "identity", "p")]}}, "Cannot find source column: 99"),
        ({"write_order": {"fields": [sorting(99)]}}, r"write-order.fields\[0\].source-id: Cannot find source column"),
        ({"write_order": {"fields": None}}, "write-order.fields: required field is missing"),
        ({"format_version": 5}, "Unsupported format version: v5"),
        ({"table_uuid": "x"}, "table-uuid: expected a UUID"),
    ],
)
def test_invalid_requests(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        create(**changed)


@pytest.mark.parametrize(
    ("text", "version"), [(None, None), ("1", 1), ("2", 2), ("3", 3), ("v2", 2), ("V3", 3), (" 2 ", 2)]
)
def test_the_requested_version(text: str | None, version: int | None) -> None:
    assert requested_format_version({} if text is None else {"format-version": text}) == version
    assert requested_format_version(None) is None


@pytest.mark.parametrize("text", ["", "two", "2.0", "-1", "0", "5", "9999", "²"])
def test_invalid_requested_versions(text: str) -> None:
    with pytest.raises(BadRequest, match="format-version"):
        requested_format_version({"format-version": text})


STAGED: list[dict[str, Any]] = [
    {"action": "assign-uuid", "uuid": UUID},
    {"action": "upgrade-format-version", "format-version": 3},
    {"action": "add-schema", "schema": schema(column(1, "id", "long"), **{"schema-id": 0}), "last-column-id": 1},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "add-spec", "spec": {"spec-id": 0, "fields": [partition(1, "identity", "id", **{"field-id": 1000})]}},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [sorting(1)]}},
    {"action": "set-default-sort-order", "sort-order-id": -1},
    {"action": "set-location", "location": "s3://bucket/t"},
    {"action": "set-properties", "updates": {"a": "b", "format-version": "3"}},
]
FIRST = [
    add(snapshot(1, number=1, **{"first-row-id": 0, "added-rows": 4})),
    set_main(1),
]


def test_a_staged_create_finished_with_data() -> None:
    change = commit(None, *STAGED, *FIRST)
    metadata = change.metadata
    assert change.changed
    assert metadata["format-version"] == 3
    assert metadata["metadata-log"] == []
    assert metadata["properties"] == {"a": "b"}
    assert metadata["table-uuid"] == UUID
    assert (metadata["current-snapshot-id"], metadata["last-sequence-number"], metadata["next-row-id"]) == (1, 1, 4)
    assert [entry["snapshot-id"] for entry in metadata["snapshot-log"]] == [1]
    assert (metadata["default-spec-id"], metadata["default-sort-order-id"]) == (0, 1)
    assert [snapshot["snapshot-id"] for snapshot in change.added_snapshots] == [1]
    assert read_table_metadata(metadata) == metadata


def test_several_schemas_specs_and_orders_in_one_create() -> None:
    metadata = after(
        None,
        *STAGED,
        {"action": "add-schema", "schema": schema(column(1, "id", "long"), column(2, "x"), **{"schema-id": 0})},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": [partition(2, "identity", "x")]}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [sorting(2)]}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    )
    assert (metadata["current-schema-id"], metadata["default-spec-id"], metadata["default-sort-order-id"]) == (1, 1, 2)


def test_a_staged_create_with_less() -> None:
    """The version defaults to 2, spec and order to none, the UUID to that of the staged create."""
    metadata = after(None, STAGED[2], STAGED[8], table_uuid=UUID)
    assert metadata["format-version"] == 2
    assert metadata["partition-specs"] == [{"spec-id": 0, "fields": []}]
    assert metadata["sort-orders"] == [{"order-id": 0, "fields": []}]
    assert metadata["table-uuid"] == UUID
    assert read_table_metadata(metadata) == metadata


def test_the_version_of_a_staged_create_counts_from_the_start() -> None:
    variant = {"action": "add-schema", "schema": schema(column(1, "v", "variant"))}
    upgrade = {"action": "upgrade-format-version", "format-version": 3}
    assert after(None, STAGED[0], variant, STAGED[8], upgrade)["format-version"] == 3
    assert after(None, *STAGED[:1], {**upgrade, "format-version": 1}, *STAGED[2:])["schema"]["schema-id"] == 0


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ([0], "UUID is required in format v3"),
        ([2, 3, 4, 5, 6, 7], "Cannot create a table without a schema"),
        ([8], "Cannot create a table without a location"),
        ([2, 3], "no schema has been added"),
        ([6], "no sort order has been added"),
        ([7], "Cannot set default sort order to unknown sort order: 0"),
    ],
)
def test_a_staged_create_that_lacks_something(left_out: list[int], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        after(None, *[update for index, update in enumerate(STAGED) if index not in left_out])


@pytest.mark.parametrize(
    ("left_out", "what"), [([2, 3, 4, 5, 6, 7], "schema"), ([4, 5], "spec"), ([6, 7], "sort order")]
)
def test_data_needs_schema_spec_and_order(left_out: list[int], what: str) -> None:
    updates = [update for index, update in enumerate(STAGED) if index not in left_out] + FIRST
    with pytest.raises(BadRequest, match=f"before a .*{what} is added"):
        after(None, *updates)


@pytest.mark.parametrize("version", [None, "3", True, 7])
def test_a_malformed_version_in_a_staged_create(version: Any) -> None:
    updates = [{"action": "upgrade-format-version", "format-version": version}]
    with pytest.raises(BadRequest, match=r"updates\[0\] \(upgrade-format-version\): format-version"):
        apply_updates(None, updates, now_ms=NOW, base_metadata_location=None)
