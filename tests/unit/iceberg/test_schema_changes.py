"""Updates add / set-current / remove of schemas, specs and sort orders: assigned ids, and the meaning of -1."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.iceberg.create import create_table_metadata
from catalog.iceberg.validation import read_table_metadata
from icekeeper.kernel.errors.types import BadRequest
from tests.unit.iceberg.document_fixtures import (
    DATA,
    ID,
    NOW,
    TIME,
    UUID,
    after,
    column,
    commit,
    partition,
    schema,
    sorting,
    table,
)

WIDER = schema(ID, DATA, TIME, column(4, "extra"), **{"schema-id": 0})


def add_schema(document: Any) -> dict[str, Any]:
    return {"action": "add-schema", "schema": document}


def set_schema(schema_id: int) -> dict[str, Any]:
    return {"action": "set-current-schema", "schema-id": schema_id}


def add_spec(*fields: Any, **more: Any) -> dict[str, Any]:
    return {"action": "add-spec", "spec": {"spec-id": 0, "fields": list(fields), **more}}


def add_order(*fields: Any, order_id: int = 1) -> dict[str, Any]:
    return {"action": "add-sort-order", "sort-order": {"order-id": order_id, "fields": list(fields)}}


def test_a_new_schema_gets_the_next_id_whatever_id_the_client_sends() -> None:
    metadata = after(table(), {**add_schema(WIDER), "last-column-id": 1}, set_schema(-1))
    assert [document["schema-id"] for document in metadata["schemas"]] == [0, 1]
    assert metadata["current-schema-id"] == 1
    assert metadata["last-column-id"] == 4


@pytest.mark.parametrize(
    "bad",
    [
        column(-1, "c"),
        column(4, "c", {"type": "struct", "fields": [column(-1, "x")]}),
        column(4, "c", {"type": "list", "element-id": -1, "element": "int", "element-required": False}),
    ],
)
def test_a_new_schema_has_no_negative_ids(bad: dict[str, Any]) -> None:
    """Neither an added schema nor that of a new table; a file that already has some is read unchanged."""
    with pytest.raises(BadRequest, match=r"schema: field id -1 of .* must not be negative"):
        after(table(), add_schema(schema(ID, bad)))
    with pytest.raises(BadRequest, match=r"schema: field id -1 of .* must not be negative"):
        create_table_metadata(
            schema=schema(ID, bad), partition_spec=None, write_order=None, location="s3://b", properties=None,
            table_uuid=UUID, format_version=2, now_ms=NOW,
        )  # fmt: skip
    assert read_table_metadata({**table(), "schemas": [schema(ID, bad, **{"schema-id": 0})], "last-column-id": 4})


def test_an_equal_schema_is_reused() -> None:
    base = after(table(), add_schema(WIDER), set_schema(-1))
    change = commit(base, add_schema({**base["schemas"][0], "schema-id": 9}), set_schema(0))
    assert change.metadata["schemas"] is base["schemas"]
    assert change.metadata["current-schema-id"] == 0


def test_minus_one_after_reusing_an_older_schema_is_an_error() -> None:
    base = table()
    with pytest.raises(BadRequest, match=r"updates\[1\] \(set-current-schema\): schema-id: .*no schema has been added"):
        after(base, add_schema(base["schemas"][0]), set_schema(-1))


def test_minus_one_after_reusing_a_schema_of_this_request() -> None:
    narrower = schema(ID)
    metadata = after(table(), add_schema(WIDER), add_schema(narrower), add_schema(WIDER), set_schema(-1))
    assert metadata["current-schema-id"] == 1
    assert len(metadata["schemas"]) == 3


@pytest.mark.parametrize("action", ["set-current-schema", "set-default-spec", "set-default-sort-order"])
def test_minus_one_without_an_addition(action: str) -> None:
    name = {"set-current-schema": "schema-id", "set-default-spec": "spec-id"}.get(action, "sort-order-id")
    with pytest.raises(BadRequest, match="Cannot set last added"):
        after(table(), {"action": action, name: -1})
    with pytest.raises(BadRequest, match="unknown"):
        after(table(), {"action": action, name: 5})


@pytest.mark.parametrize(
    "other",
    [
        schema(ID, DATA, column(3, "ts", "timestamp", doc="when")),
        schema(ID, DATA, column(3, "time", "timestamp")),
        schema(ID, DATA, column(3, "ts", "timestamptz")),
        schema(ID, DATA, column(3, "ts", "timestamp", required=True)),
        schema(ID, TIME, DATA),
        schema(ID, DATA, TIME, **{"identifier-field-ids": [1]}),
    ],
)
def test_changes_that_create_another_schema(other: Any) -> None:
    assert len(after(table(), add_schema(other))["schemas"]) == 2


def test_unknown_fields_do_not_create_another_schema_and_survive_in_a_new_one() -> None:
    base = table()
    assert not commit(base, add_schema({**base["schemas"][0], "x-tool": "t"})).changed
    sent = {"x-tool": {"deep": [1]}, **WIDER, "fields": [ID, DATA, TIME, column(4, "extra", **{"x-tag": "pii"})]}
    added = after(base, add_schema(sent))["schemas"][1]
    assert list(added) == ["x-tool", "type", "fields", "schema-id"]
    assert added["x-tool"] == {"deep": [1]}
    assert added["fields"][3]["x-tag"] == "pii"


def test_null_defaults_are_not_stored() -> None:
    nested = column(4, "s", {"type": "struct", "fields": [column(5, "x", **{"initial-default": None})]})
    added = after(table(3), add_schema(schema(ID, nested, column(6, "y", **{"write-default": None}))))["schemas"][1]
    assert "initial-default" not in added["fields"][1]["type"]["fields"][0]
    assert "write-default" not in added["fields"][2]


@pytest.mark.parametrize("name", ["variant", "timestamp_ns", "timestamptz_ns", "unknown", "geometry", "geography"])
def test_types_of_version_3(name: str) -> None:
    with pytest.raises(BadRequest, match=f"Invalid type for c: {name} is not supported until v3"):
        after(table(2), add_schema(schema(column(4, "c", name))))
    assert after(table(3), add_schema(schema(column(4, "c", name))))["last-column-id"] == 4


def test_initial_defaults_need_version_3() -> None:
    with_default = add_schema(schema(ID, column(4, "c", **{"initial-default": 7})))
    with pytest.raises(BadRequest, match=r"Invalid initial default for c: non-null default \(7\) is not supported"):
        after(table(2), with_default)
    assert after(table(3), with_default)["schemas"][1]["fields"][1]["initial-default"] == 7


def test_the_current_schema_must_keep_the_columns_of_the_default_spec() -> None:
    base = after(table(), add_spec(partition(3, "day", "day")), {"action": "set-default-spec", "spec-id": -1})
    with pytest.raises(BadRequest, match="Cannot find source column for partition field: day"):
        after(base, add_schema(schema(ID, DATA)), set_schema(-1))
    metadata = after(base, add_schema(schema(ID, DATA)), set_schema(-1), {"action": "set-default-spec", "spec-id": 0})
    assert metadata["current-schema-id"] == 1


def test_a_new_column_must_not_take_the_name_of_an_old_partition() -> None:
    base = after(table(), add_spec(partition(3, "day", "day")))
    with pytest.raises(
        BadRequest, match="Cannot create identity partition sourced from different field in schema: day"
    ):
        after(base, add_schema(schema(ID, DATA, TIME, column(4, "day"))), set_schema(-1))


def test_removing_schemas_and_specs() -> None:
    base = after(table(), add_schema(WIDER), add_spec(partition(1, "identity", "id")))
    change = commit(
        base,
        {"action": "remove-schemas", "schema-ids": [1, 55]},
        {"action": "remove-partition-specs", "spec-ids": [1, 55]},
    )
    assert [document["schema-id"] for document in change.metadata["schemas"]] == [0]
    assert [document["spec-id"] for document in change.metadata["partition-specs"]] == [0]
    assert change.metadata["last-column-id"] == 4
    assert change.metadata["last-partition-id"] == 1000
    with pytest.raises(BadRequest, match="Cannot remove the current schema"):
        after(base, {"action": "remove-schemas", "schema-ids": [1, 0]})
    with pytest.raises(BadRequest, match="Cannot remove the default partition spec"):
        after(base, {"action": "remove-partition-specs", "spec-ids": [0]})


def test_a_new_spec_gets_ids_and_the_same_field_keeps_its_own() -> None:
    first = after(table(), add_spec(partition(3, "day", "day"), partition(1, "bucket[4]", "b")))
    second = after(first, add_spec(partition(1, "bucket[4]", "b"), partition(2, "Identity", "data"), **{"x-y": 1}))
    assert [[field["field-id"] for field in spec["fields"]] for spec in second["partition-specs"]] == [
        [],
        [1000, 1001],
        [1001, 1002],
    ]
    assert second["partition-specs"][2]["spec-id"] == 2
    assert second["partition-specs"][2]["fields"][1]["transform"] == "identity"
    assert second["partition-specs"][2]["x-y"] == 1
    assert second["last-partition-id"] == 1002
    assert second["default-spec-id"] == 0


def test_a_client_keeps_its_partition_field_ids() -> None:
    metadata = after(
        table(), add_spec(partition(3, "day", "day", **{"field-id": 1007}), partition(1, "identity", "id"))
    )
    assert [field["field-id"] for field in metadata["partition-specs"][1]["fields"]] == [1007, 1008]


def test_an_equal_spec_is_reused() -> None:
    base = after(table(), add_spec(partition(3, "day", "day")), {"action": "set-default-spec", "spec-id": -1})
    assert base["default-spec-id"] == 1
    again = commit(base, add_spec(partition(3, "day", "day", **{"field-id": 1234})), add_spec())
    assert not again.changed
    with pytest.raises(BadRequest, match="Cannot set last added spec: no spec has been added"):
        after(base, add_spec(), {"action": "set-default-spec", "spec-id": -1})
    assert after(base, add_spec(), {"action": "set-default-spec", "spec-id": 0})["default-spec-id"] == 0


def test_version_1_numbers_partition_fields_by_position() -> None:
    base = after(table(1), add_spec(partition(3, "day", "day")), {"action": "set-default-spec", "spec-id": -1})
    metadata = after(base, add_spec(partition(1, "identity", "id"), partition(3, "day", "day")))
    assert [field["field-id"] for field in metadata["partition-specs"][2]["fields"]] == [1000, 1001]
    assert metadata["partition-spec"] == base["partition-specs"][1]["fields"]
    with pytest.raises(BadRequest, match="sequential IDs that are required in v1"):
        after(base, add_spec(partition(1, "identity", "id", **{"field-id": 1001})))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([partition(9, "identity", "x")], "Cannot find source column for partition field: x"),
        ([partition(3, "truncate[2]", "x")], "Invalid source type timestamp for transform: truncate"),
        ([partition(1, "hour", "x")], "Invalid source type long for transform: hour"),
        ([partition(1, "bucket[0]", "x")], "width of bucket must be between 1"),
        ([partition(1, "zorder", "x")], "unknown transform: zorder"),
        ([partition(1, "days", "x")], "unknown transform: days"),
        ([partition(1, "bucket[8]", "id")], "Cannot create partition from name that exists in schema: id"),
        ([partition(1, "identity", "data")], "Cannot create partition from name that exists in schema: data"),
        ([partition(1, "identity", "")], "Cannot use empty partition name"),
        ([partition(1, "identity", "x"), partition(2, "identity", "x")], "Cannot use partition name more than once"),
        (
            [partition(1, "identity", "x", **{"field-id": 1000}), partition(2, "void", "y", **{"field-id": 1000})],
            "twice",
        ),
    ],
)
def test_invalid_specs(fields: Any, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        after(table(), add_spec(*fields))


def test_nothing_inside_a_list_or_map_is_a_partition() -> None:
    items = column(4, "items", {"type": "list", "element-id": 5, "element": "int", "element-required": True})
    base = after(table(), add_schema(schema(ID, DATA, TIME, items)), set_schema(-1))
    with pytest.raises(BadRequest, match="Invalid partition field parent: list"):
        after(base, add_spec(partition(5, "identity", "x")))
    with pytest.raises(BadRequest, match="Cannot partition by non-primitive source field: items"):
        after(base, add_spec(partition(4, "identity", "x")))


def test_sort_orders_count_from_one_and_unsorted_is_zero() -> None:
    default = {"action": "set-default-sort-order", "sort-order-id": -1}
    base = after(table(), add_order(sorting(1), order_id=1), default)
    assert base["default-sort-order-id"] == 1
    metadata = after(base, add_order(sorting(2, direction="DESC"), order_id=1), default)
    assert [order["order-id"] for order in metadata["sort-orders"]] == [0, 1, 2]
    assert metadata["sort-orders"][2]["fields"][0]["direction"] == "desc"
    assert metadata["default-sort-order-id"] == 2
    assert after(metadata, add_order(sorting(1)), {**default, "sort-order-id": 1})["default-sort-order-id"] == 1
    assert not commit(metadata, add_order(order_id=7)).changed
    with pytest.raises(BadRequest, match="no sort order has been added"):
        after(metadata, add_order(), default)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (sorting(9), "Cannot find source column for sort field: 9"),
        (sorting(1, "day"), "Invalid source type long for transform: day"),
        (sorting(1, direction="up"), "direction: expected asc or desc, got up"),
        (sorting(1, **{"null-order": "first"}), "null-order: expected nulls-first or nulls-last, got first"),
        (sorting(1, "zorder"), "unknown transform: zorder"),
    ],
)
def test_invalid_orders(field: Any, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        after(table(), add_order(field))


def test_schema_spec_and_order_of_one_request_refer_to_each_other() -> None:
    """A replaced table: Java's client sends all three with -1 and ids that may collide with the table's."""
    metadata = after(
        table(snapshots=1),
        add_schema(schema(column(4, "key", "string"), **{"schema-id": 0})),
        set_schema(-1),
        add_spec(partition(4, "bucket[2]", "part", **{"field-id": 1000})),
        {"action": "set-default-spec", "spec-id": -1},
        add_order(sorting(4)),
        {"action": "set-default-sort-order", "sort-order-id": -1},
    )
    assert (metadata["current-schema-id"], metadata["default-spec-id"], metadata["default-sort-order-id"]) == (1, 1, 1)
    assert (metadata["last-column-id"], metadata["last-partition-id"]) == (4, 1000)


def test_ids_end_where_32_bits_end() -> None:
    highest = 2**31 - 1
    base = table(
        **{
            "schemas": [schema(ID, DATA, TIME, **{"schema-id": highest})],
            "current-schema-id": highest,
            "partition-specs": [{"spec-id": highest, "fields": []}],
            "default-spec-id": highest,
            "sort-orders": [{"order-id": 0, "fields": []}, {"order-id": highest, "fields": [sorting(2)]}],
        }
    )
    for addition in (add_schema(WIDER), add_spec(partition(1, "identity", "id")), add_order(sorting(1))):
        with pytest.raises(BadRequest, match="no id is left"):
            after(base, addition)
    with pytest.raises(BadRequest, match="no id is left"):
        after(table(**{"last-partition-id": highest}), add_spec(partition(1, "identity", "id")))
