"""Pages of any table or view that the engine can produce, also of documents that lack members: nothing raises."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from catalog.iceberg.display.columns import list_column_rows
from catalog.iceberg.display.create_statements import write_spark_statement, write_trino_statement
from catalog.iceberg.display.partition_text import list_partition_specs, list_sort_orders
from catalog.iceberg.display.schema_comparison import compare_schemas
from catalog.iceberg.display.schema_fields import walk_fields
from catalog.iceberg.display.snapshot_comparison import compare_snapshots
from catalog.iceberg.display.snapshot_graph import build_snapshot_graph, read_refs, read_snapshot_nodes
from catalog.iceberg.display.stored_parts import find_current_schema, list_schemas
from catalog.iceberg.display.visible_text import show_invisible
from catalog.iceberg.schemas import parse_schema
from catalog.iceberg.validation import read_table_metadata
from icekeeper.kernel.errors.types import BadRequest
from tests.unit.iceberg.damaged_document_fixtures import damaged, locations
from tests.unit.iceberg.display.test_snapshot_graph import check_graph
from tests.unit.iceberg.strategy_fixtures import table_metadata
from tests.unit.iceberg.views.strategy_fixtures import view_metadata

NAMES = ["c", "ns", "t"]


def show_everything(metadata: dict[str, Any]) -> None:
    """Read what the pages show. Nothing raises, and the metadata, which a cache shares, is not changed."""
    before = copy.deepcopy(metadata)
    schemas = list_schemas(metadata)
    for schema in schemas:
        list_column_rows(schema)
        compare_schemas(schemas[0], schema)
    list_partition_specs(metadata)
    list_sort_orders(metadata)
    write_spark_statement(metadata, NAMES)
    write_trino_statement(metadata, NAMES)
    nodes = read_snapshot_nodes(metadata)
    check_graph(build_snapshot_graph(nodes, read_refs(metadata)))
    for node in nodes:
        assert compare_snapshots(metadata, nodes[0].snapshot_id, node.snapshot_id)
    assert metadata == before


@given(table_metadata())
def test_tables(metadata: dict[str, Any]) -> None:
    show_everything(metadata)
    current = find_current_schema(metadata)
    assert current is not None
    parsed = parse_schema(current, "schema")
    fields = list(walk_fields(current))
    assert {field.field_id: field.path for field in fields} == {
        field_id: column.name for field_id, column in parsed.columns.items()
    }
    assert [(field.parent_id, field.is_required) for field in fields] == [
        (column.parent_id, column.is_required) for column in parsed.columns.values()
    ]
    assert sum(spec.is_default for spec in list_partition_specs(metadata)) == 1
    assert sum(order.is_default for order in list_sort_orders(metadata)) == 1


@given(view_metadata())
def test_views(metadata: dict[str, Any]) -> None:
    current = find_current_schema(metadata)
    assert current is not None
    assert len(list_column_rows(current, with_all_inner_fields=True).rows) == len(list(walk_fields(current)))


@given(st.data())
def test_tables_with_missing_members(data: st.DataObject) -> None:
    """Any error of a function that displays metadata fails the test."""
    metadata = copy.deepcopy(data.draw(table_metadata()))
    for _ in range(data.draw(st.integers(1, 5))):
        path = data.draw(st.sampled_from([path for path in locations(metadata) if path]))
        owner: Any = metadata
        for step in path[:-1]:
            owner = owner[step]
        del owner[path[-1]]
    show_everything(metadata)


@given(damaged(table_metadata()))
def test_every_document_that_validation_accepts(document: tuple[str, Any]) -> None:
    """Any error of a function that displays metadata fails the test."""
    try:
        metadata = read_table_metadata(document[1])
    except BadRequest:
        return
    show_everything(metadata)


def test_invisible_characters_are_shown() -> None:
    assert show_invisible("order_lines ü😀") == "order_lines ü😀"
    assert show_invisible("a\nb\u202egnp\u00a0\u200b\x00") == r"a\nb\u202egnp\xa0\u200b\x00"
    assert show_invisible("a\u200cb\u200d") == "a\u200cb\u200d"


@given(st.text())
def test_shown_text_is_one_printable_line(text: str) -> None:
    shown = show_invisible(text)
    assert shown.replace("\u200c", "").replace("\u200d", "").isprintable()
    assert show_invisible(shown) == shown
