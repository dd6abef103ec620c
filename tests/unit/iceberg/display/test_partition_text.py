"""Partition specs and sort orders as text."""

from __future__ import annotations

import time

from catalog.iceberg.display.partition_text import list_partition_specs, list_sort_orders
from tests.unit.iceberg.document_fixtures import DATA, ID, TIME, column, partition, schema, sorting, table

NESTED = column(4, "product", {"type": "struct", "fields": [column(5, "sku", "string")]})
METADATA = {
    **table(),
    "current-schema-id": 1,
    "schemas": [
        schema(ID, DATA, TIME, **{"schema-id": 0}),
        schema(ID, {**TIME, "name": "shipped_at"}, NESTED, **{"schema-id": 1}),
    ],
    "default-spec-id": 1,
    "partition-specs": [
        {"spec-id": 0, "fields": []},
        {
            "spec-id": 1,
            "fields": [
                partition(3, "day", "shipped_at_day", **{"field-id": 1000}),
                partition(1, "bucket[16]", "id_bucket", **{"field-id": 1001}),
                partition(5, "identity", "product.sku", **{"field-id": 1002}),
                partition(1, "void", "id", **{"field-id": 1003}),
            ],
        },
        {"spec-id": 2, "fields": [partition(2, "TRUNCATE[4]", "data_trunc"), partition(77, "zorder", "z")]},
    ],
    "default-sort-order-id": 3,
    "sort-orders": [
        {"order-id": 0, "fields": []},
        {
            "order-id": 3,
            "fields": [
                sorting(1, direction="desc", **{"null-order": "nulls-last"}),
                sorting(3, "hour"),
            ],
        },
    ],
}


def test_partition_specs() -> None:
    default, newest, first = list_partition_specs(METADATA)
    assert (default.spec_id, default.is_default) == (1, True)
    assert default.text == "day(shipped_at), bucket[16](id), product.sku"
    assert [
        (field.field_id, field.name, field.source_path, field.transform, field.text) for field in default.fields
    ] == [
        (1000, "shipped_at_day", "shipped_at", "day", "day(shipped_at)"),
        (1001, "id_bucket", "id", "bucket[16]", "bucket[16](id)"),
        (1002, "product.sku", "product.sku", "identity", "product.sku"),
        (1003, "id", "id", "void", "void(id)"),
    ]
    assert (newest.spec_id, newest.is_default, newest.text) == (2, False, "truncate[4](data), zorder(field 77)")
    assert [field.source_path for field in newest.fields] == ["data", None]
    assert (first.spec_id, first.text, first.fields) == (0, "", ())


def test_sort_orders() -> None:
    default, unsorted = list_sort_orders(METADATA)
    assert default.text == "id desc nulls last, hour(shipped_at) asc nulls first"
    assert (default.order_id, default.is_default) == (3, True)
    assert [(field.direction, field.null_order) for field in default.fields] == [
        ("desc", "nulls last"), ("asc", "nulls first"),
    ]  # fmt: skip
    assert (unsorted.order_id, unsorted.text) == (0, "")


def test_version_1_without_lists() -> None:
    metadata = {"schema": schema(ID), "partition-spec": [partition(1, "identity", "id")]}
    [spec] = list_partition_specs(metadata)
    assert (spec.spec_id, spec.is_default, spec.text, spec.fields[0].field_id) == (0, True, "id", None)
    assert list_sort_orders(metadata) == ()
    assert list_partition_specs({}) == ()


def test_invalid_and_multi_argument_transforms() -> None:
    fields = [
        partition(1, "bucket[0]", "b"), {"source-ids": [1, 2], "transform": "bucket[4]", "name": "both"}, {},
    ]  # fmt: skip
    metadata = {**table(), "partition-specs": [{"spec-id": 0, "fields": fields}]}
    [spec] = list_partition_specs(metadata)
    assert [field.text for field in spec.fields] == ["bucket[0](id)", "bucket[4](id, data)", "()"]


def test_a_column_that_no_schema_has_is_not_searched_forever() -> None:
    wide = [
        schema(*(column(number, f"c{number}") for number in range(1, 2_001)), **{"schema-id": each})
        for each in range(500)
    ]
    metadata = {
        **table(),
        "schemas": wide,
        "partition-specs": [{"spec-id": 0, "fields": [partition(9_999, "day", "d")]}],
    }
    started = time.perf_counter()
    assert list_partition_specs(metadata)[0].text == "day(field 9999)"
    assert time.perf_counter() - started < 5
