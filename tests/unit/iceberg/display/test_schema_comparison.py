"""Differences of schemas by field id, their consequences for old files, and the evolution that PyIceberg writes."""

from __future__ import annotations

import copy
import json
import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema as PySchema
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import DecimalType, IntegerType, LongType, NestedField, StringType, StructType

from catalog.iceberg.display.schema_comparison import ChangeKind, SchemaComparison, compare_schemas
from catalog.iceberg.display.schema_fields import walk_fields
from catalog.iceberg.display.type_promotions import is_promotion
from tests.unit.iceberg.document_fixtures import DATA, ID, NOW, TIME, after, column, nested_type, schema, table
from tests.unit.iceberg.strategy_fixtures import fields


def struct(*members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(members)}


def summarize(comparison: SchemaComparison) -> list[tuple[int, str, str]]:
    return [(change.field_id, " ".join(change.kinds), change.consequence) for change in comparison.changes]


def single(old: dict[str, Any], new: dict[str, Any]) -> tuple[str, str, bool]:
    [change] = compare_schemas(schema(old), schema(new)).changes
    return " ".join(change.kinds), change.consequence, change.breaks_old_files


def test_the_four_common_changes() -> None:
    old = schema(
        column(8, "quantity", "decimal(10, 2)"), column(15, "loaded_at", "timestamptz"), column(16, "code", "string"),
        **{"schema-id": 6},
    )  # fmt: skip
    new = schema(
        column(8, "quantity", "decimal(12,2)"), column(15, "ingested_at", "timestamptz"), column(17, "tax", "string"),
        **{"schema-id": 7},
    )  # fmt: skip
    comparison = compare_schemas(old, new)
    assert summarize(comparison) == [
        (17, "added", "Old rows read as null"),
        (8, "type", "Widened: old files are read without a rewrite"),
        (15, "renamed", "Same field id: data is kept"),
        (16, "dropped", "Old files keep the values; readers no longer see them"),
    ]
    assert (comparison.added_count, comparison.changed_count, comparison.dropped_count) == (1, 2, 1)
    assert (comparison.old_schema_id, comparison.new_schema_id, comparison.is_truncated) == (6, 7, False)
    added, widened, renamed, dropped = comparison.changes
    assert added.old is None
    assert added.new is not None
    assert added.new.position == "Last column"
    assert widened.old is not None
    assert widened.new is not None
    assert (widened.old.type_text, widened.new.type_text) == ("decimal(10, 2)", "decimal(12, 2)")
    assert renamed.old is not None
    assert renamed.new is not None
    assert (renamed.old.name, renamed.new.name) == ("loaded_at", "ingested_at")
    assert dropped.new is None
    assert not any(change.breaks_old_files for change in comparison.changes)


def test_several_changes_of_one_field_are_one_row() -> None:
    assert single(column(1, "a", "int", required=True), column(1, "b", "long", doc="now with a doc")) == (
        "renamed type optional doc",
        (
            "Same field id: data is kept. Widened: old files are read without a rewrite. "
            "Old files are read as before; new ones may have nulls. Description only: no effect on data"
        ),
        False,
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (column(1, "a", "long"), column(1, "a", "int"),
         ("type", "Not a type promotion of Iceberg: readers may fail on old files", True)),
        (column(1, "a", "decimal(10, 2)"), column(1, "a", "decimal(12, 3)"),
         ("type", "Not a type promotion of Iceberg: readers may fail on old files", True)),
        (column(1, "a", "unknown"), column(1, "a", "string"), ("type", "Old rows read as null", False)),
        (column(1, "a", "int"), column(1, "a", "int", required=True),
         ("required", "Old files may have nulls, on which readers may fail", True)),
        (column(1, "a", "int", doc="x"), column(1, "a", "int"), ("doc", "Description only: no effect on data", False)),
        (column(1, "a", "int"), column(1, "a", "int", **{"write-default": 5}),
         ("write default", "For rows written from now on: old files do not change", False)),
        (column(1, "a", "int", **{"initial-default": 4}), column(1, "a", "int", **{"initial-default": 5}),
         ("initial default", "Rows of files without the column read as the initial default 5", False)),
        (column(1, "a", "string", **{"initial-default": ""}), column(1, "a", "string"),
         ("initial default", "Rows of files without the column read as null", False)),
    ],
)  # fmt: skip
def test_consequences(old: dict[str, Any], new: dict[str, Any], expected: tuple[str, str, bool]) -> None:
    assert single(old, new) == expected


def test_equal_spellings_are_no_change() -> None:
    old = schema(column(1, "a", "decimal(9,2)", doc=None), column(2, "b", "int", **{"write-default": None}))
    new = schema(column(1, "a", "DECIMAL(9, 2)"), column(2, "b", "int", doc=""))
    assert compare_schemas(old, new).changes == ()


def test_added_with_an_initial_default_and_required_without() -> None:
    new = schema(ID, column(4, "region", "string", **{"initial-default": "EU"}), column(5, "n", "int", required=True))
    region, number = compare_schemas(schema(ID), new).changes
    assert (region.consequence, region.breaks_old_files) == ('Old rows read as the initial default "EU"', False)
    assert number.consequence == "Required without an initial default: readers may fail on old files"
    assert number.breaks_old_files
    assert region.new is not None
    assert region.new.position == "After id"


def test_a_column_that_was_dropped_and_added_again_is_another_one() -> None:
    added, dropped = compare_schemas(schema(ID, DATA), schema(ID, column(9, "data", "string"))).changes
    assert (added.field_id, dropped.field_id) == (9, 2)
    assert added.consequence == (
        "Old rows read as null. Another field than the dropped one of this name (id 2): its values are not read"
    )


def test_fields_inside_an_added_or_dropped_field_are_counted() -> None:
    nested = column(4, "product", struct(column(5, "sku"), column(6, "size", struct(column(7, "width")))))
    comparison = compare_schemas(schema(ID), schema(ID, nested))
    assert [(change.field_id, change.nested_count) for change in comparison.changes] == [(4, 3)]
    assert comparison.added_count == 1
    comparison = compare_schemas(schema(ID, nested), schema(ID))
    assert [(change.field_id, change.kinds, change.nested_count) for change in comparison.changes] == [
        (4, (ChangeKind.DROPPED,), 3)
    ]


def test_changes_below_structs_lists_and_maps_belong_to_the_inner_field() -> None:
    old = schema(column(1, "s", struct(column(2, "a"))), column(3, "l", nested_type("list", 1)))
    new = schema(
        column(1, "s", struct(column(2, "a"), column(20, "b"))),
        column(3, "l", {**nested_type("list", 1), "element": "long"}),
    )
    comparison = compare_schemas(old, new)
    paths = [(change.new.path, change.kinds) for change in comparison.changes if change.new]
    assert paths == [("s.b", (ChangeKind.ADDED,)), ("l.element", (ChangeKind.TYPE,))]


def test_a_struct_that_became_a_primitive() -> None:
    old, new = schema(column(1, "s", struct(column(2, "a")))), schema(column(1, "s", "string"))
    changed, dropped = compare_schemas(old, new).changes
    assert (changed.kinds, changed.breaks_old_files) == ((ChangeKind.TYPE,), True)
    assert (dropped.field_id, dropped.kinds) == (2, (ChangeKind.DROPPED,))


def test_moved_to_another_parent() -> None:
    old = schema(ID, column(2, "s", struct(column(3, "a"), column(4, "b"))))
    new = schema(ID, column(2, "s", struct(column(4, "b"))), column(3, "a"))
    [change] = compare_schemas(old, new).changes
    assert (change.field_id, change.kinds, change.breaks_old_files) == (3, (ChangeKind.MOVED,), True)


def test_the_fewest_columns_count_as_reordered() -> None:
    columns = [column(number, f"c{number}") for number in range(1, 7)]
    comparison = compare_schemas(schema(*columns), schema(columns[5], *columns[:5]))
    assert summarize(comparison) == [(6, "reordered", "Only the order of columns: files are read by field id")]
    added = schema(columns[0], column(9, "new"), *columns[1:])
    assert [change.kinds for change in compare_schemas(schema(*columns), added).changes] == [(ChangeKind.ADDED,)]


def test_identifier_fields() -> None:
    old, new = schema(ID, DATA), schema(ID, DATA, **{"identifier-field-ids": [1]})
    assert summarize(compare_schemas(old, new)) == [
        (1, "identifier", "Part of a row's identity from now on: old files do not change")
    ]
    assert summarize(compare_schemas(new, old)) == [
        (1, "identifier", "No longer part of a row's identity: old files do not change")
    ]


def test_changes_are_cut_off_but_counted() -> None:
    new = schema(*(column(number, f"c{number}") for number in range(10, 30)))
    comparison = compare_schemas(schema(ID, DATA), new, max_changes=5)
    assert len(comparison.changes) == 5
    assert (comparison.added_count, comparison.dropped_count, comparison.is_truncated) == (20, 2, True)


def test_wide_schemas_are_compared_quickly() -> None:
    columns = [column(number, f"c{number}") for number in range(1, 20_001)]
    started = time.perf_counter()
    comparison = compare_schemas(schema(*columns), schema(*reversed(columns)))
    assert time.perf_counter() - started < 5
    assert comparison.changed_count == 19_999


def test_promotions() -> None:
    allowed = [
        ("int", "long"), ("float", "double"), ("decimal(9, 2)", "decimal(10, 2)"), ("date", "timestamp"),
        ("date", "timestamp_ns"), ("unknown", "map"),
    ]  # fmt: skip
    assert all(is_promotion(old, new) for old, new in allowed)
    denied = [(new, old) for old, new in allowed if old != "unknown"]
    denied += [("decimal(9, 2)", "decimal(10, 3)"), ("date", "timestamptz"), ("int", "string"), ("int", "double")]
    assert not any(is_promotion(old, new) for old, new in denied)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    return schema(*draw(fields([0], 3, "java", 2)))


@given(schemas())
def test_a_schema_equals_itself(document: dict[str, Any]) -> None:
    assert compare_schemas(document, copy.deepcopy(document)).changes == ()


@given(schemas(), schemas())
def test_every_field_that_differs_is_reported_once_and_both_ways(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Ids of both schemas count from 1, so most fields meet another one."""
    there, back = compare_schemas(old, new, max_changes=10_000), compare_schemas(new, old, max_changes=10_000)
    assert (there.added_count, there.dropped_count) == (back.dropped_count, back.added_count)
    old_ids = {field.field_id for field in walk_fields(old)}
    new_ids = {field.field_id for field in walk_fields(new)}
    by_kind: dict[str, set[int]] = {"added": set(), "dropped": set(), "changed": set()}
    nested = {"added": 0, "dropped": 0, "changed": 0}
    for change in there.changes:
        kind = "added" if change.old is None else "dropped" if change.new is None else "changed"
        assert change.field_id not in by_kind[kind]
        by_kind[kind].add(change.field_id)
        nested[kind] += change.nested_count
        assert change.kinds
        assert change.consequence
    assert by_kind["added"] <= new_ids - old_ids
    assert by_kind["dropped"] <= old_ids - new_ids
    assert by_kind["changed"] <= old_ids & new_ids
    assert len(by_kind["added"]) + nested["added"] == len(new_ids - old_ids)
    assert len(by_kind["dropped"]) + nested["dropped"] == len(old_ids - new_ids)


def test_the_engines_own_schemas() -> None:
    wider = schema({**ID, "doc": "key"}, TIME, column(4, "extra"))
    metadata = after(
        table(), {"action": "add-schema", "schema": wider}, {"action": "set-current-schema", "schema-id": -1}
    )
    assert metadata["last-updated-ms"] > NOW
    comparison = compare_schemas(*metadata["schemas"])
    kinds = [(change.field_id, " ".join(change.kinds)) for change in comparison.changes]
    assert kinds == [(4, "added"), (1, "doc"), (2, "dropped")]


def test_evolution_by_pyiceberg() -> None:
    before = PySchema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "quantity", IntegerType()),
        NestedField(3, "price", DecimalType(9, 2)),
        NestedField(
            4, "product", StructType(NestedField(5, "sku", StringType()), NestedField(6, "name", StringType()))
        ),
        NestedField(7, "note", StringType()),
        schema_id=0,
    )
    base = TableMetadataUtil.parse_obj(table(schemas=[json.loads(before.model_dump_json())], **{"last-column-id": 7}))
    update = UpdateSchema(SimpleNamespace(table_metadata=base))
    update.add_column("tax", StringType()).add_column(("product", "color"), StringType(), doc="RGB")
    update.update_column("quantity", LongType()).update_column("price", DecimalType(11, 2))
    update.rename_column(("product", "name"), "title").delete_column("note").move_first("price")
    update.update_column("id", required=False)
    after_update = update._apply()
    comparison = compare_schemas(json.loads(before.model_dump_json()), json.loads(after_update.model_dump_json()))
    assert [(change.field_id, " ".join(change.kinds)) for change in comparison.changes] == [
        (9, "added"),
        (8, "added"),
        (3, "type reordered"),
        (1, "optional"),
        (2, "type"),
        (6, "renamed"),
        (7, "dropped"),
    ]
    assert not any(change.breaks_old_files for change in comparison.changes)
