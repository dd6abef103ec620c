"""Rows of columns: order, depth, type texts, and the bound on their number."""

from __future__ import annotations

import time
from typing import Any

import pytest

from catalog.iceberg.display.columns import ColumnRow, list_column_rows
from catalog.iceberg.display.schema_fields import MAX_TYPE_TEXT_DEPTH, walk_fields, write_type
from catalog.iceberg.display.stored_parts import find_current_schema, find_schema
from tests.unit.iceberg.document_fixtures import ID, column, nested_type, schema, table

HOSTILE = ['a"b', "a`b", "a\nb", "${env:HOME}", "</script>", "\u202egnp.exe", "'; DROP TABLE x --", "", ".", "a.b"]


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def list_of(element_id: int, element: Any, *, required: bool = False) -> dict[str, Any]:
    return {"type": "list", "element-id": element_id, "element": element, "element-required": required}


def map_of(key_id: int, key: Any, value_id: int, value: Any, *, required: bool = False) -> dict[str, Any]:
    return {
        "type": "map", "key-id": key_id, "key": key, "value-id": value_id, "value": value, "value-required": required,
    }  # fmt: skip


ORDERS = schema(
    column(1, "order_id", "long", required=True, doc="Order that the line belongs to"),
    column(4, "product", struct(column(5, "sku", "string"), column(7, "attributes", map_of(8, "string", 9, "string")))),
    column(10, "lines", list_of(11, struct(column(12, "price", "decimal(10,2)")), required=True)),
    column(13, "region", "string", **{"initial-default": "EU", "write-default": "US"}),
    **{"schema-id": 7, "identifier-field-ids": [1]},
)


def test_rows_are_in_document_order_with_depth_path_and_type() -> None:
    result = list_column_rows(ORDERS)
    assert [(row.depth, row.name, row.path, row.type_text, row.field_id) for row in result.rows] == [
        (0, "order_id", "order_id", "long", 1),
        (0, "product", "product", "struct", 4),
        (1, "sku", "product.sku", "string", 5),
        (1, "attributes", "product.attributes", "map<string, string>", 7),
        (0, "lines", "lines", "list<struct>", 10),
        (1, "element", "lines.element", "struct", 11),
        (2, "price", "lines.element.price", "decimal(10, 2)", 12),
        (0, "region", "region", "string", 13),
    ]
    assert (result.schema_id, result.column_count, result.is_truncated) == (7, 4, False)


def test_a_row_has_all_members_of_its_field() -> None:
    rows = list_column_rows(ORDERS).rows
    assert rows[0] == ColumnRow(
        depth=0, name="order_id", path="order_id", type_text="long", is_inner=False, is_required=True,
        is_identifier=True, doc="Order that the line belongs to", field_id=1, initial_default=None, write_default=None,
    )  # fmt: skip
    assert (rows[5].is_inner, rows[5].is_required) == (True, True)
    assert (rows[7].initial_default, rows[7].write_default) == ('"EU"', '"US"')


def test_inner_fields_that_the_type_text_shows_have_rows_on_request() -> None:
    rows = list_column_rows(ORDERS, with_all_inner_fields=True).rows
    inner = [(row.path, row.type_text, row.is_required) for row in rows if row.is_inner]
    assert inner == [
        ("product.attributes.key", "string", True),
        ("product.attributes.value", "string", False),
        ("lines.element", "struct", True),
    ]


@pytest.mark.parametrize("max_rows", [0, 1, 3, 7, 8, 9])
def test_rows_are_cut_off(max_rows: int) -> None:
    result = list_column_rows(ORDERS, max_rows=max_rows)
    assert result.rows == list_column_rows(ORDERS).rows[:max_rows]
    assert result.is_truncated is (max_rows < 8)
    assert result.column_count == 4


def test_the_beginning_of_a_wide_schema_is_read_quickly() -> None:
    wide = schema(*(column(number, f"c{number}", struct(column(number + 50_000, "x"))) for number in range(1, 25_000)))
    started = time.perf_counter()
    result = list_column_rows(wide)
    assert time.perf_counter() - started < 0.5
    assert (len(result.rows), result.column_count, result.is_truncated) == (500, 24_999, True)


@pytest.mark.parametrize("kind", ["struct", "list", "map"])
def test_deep_nesting(kind: str) -> None:
    result = list_column_rows(schema(ID, column(2, "deep", nested_type(kind, 100))), with_all_inner_fields=True)
    assert max(row.depth for row in result.rows) == 100
    assert all(len(row.type_text) < 100 for row in result.rows)
    if kind != "struct":
        short = list_column_rows(schema(column(2, "deep", nested_type(kind, 100)))).rows
        assert max(row.depth for row in short) == 100 - MAX_TYPE_TEXT_DEPTH


def test_type_texts() -> None:
    assert write_type("DECIMAL( 9 ,2 )") == "decimal(9, 2)"
    assert write_type("fixed[7]") == "fixed[7]"
    assert write_type("a type of the future") == "a type of the future"
    assert write_type(None) == write_type({}) == "?"
    assert (
        write_type(list_of(1, list_of(2, list_of(3, list_of(4, list_of(5, "int")))))) == "list<list<list<list<list>>>>"
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_returned_unchanged(name: str) -> None:
    rows = list_column_rows(schema(column(1, name, struct(column(2, name, doc=name))))).rows
    assert [(row.name, row.path, row.doc) for row in rows] == [(name, name, None), (name, f"{name}.{name}", name)]


def test_missing_members() -> None:
    assert list_column_rows({}).rows == ()
    row = list_column_rows({"fields": [{}]}).rows[0]
    assert (row.name, row.type_text, row.is_required, row.field_id) == ("", "?", False, None)
    assert [field.path for field in walk_fields({"type": "list"})] == ["element"]


def test_the_current_schema() -> None:
    metadata = table()
    assert find_current_schema(metadata) is metadata["schemas"][0]
    assert find_schema(metadata, 5) is None
    assert find_current_schema({"schema": ORDERS}) is ORDERS
    view = {"current-version-id": 2, "versions": [{"version-id": 2, "schema-id": 7}], "schemas": [schema(ID), ORDERS]}
    assert find_current_schema(view) is ORDERS
    assert find_current_schema({}) is None
