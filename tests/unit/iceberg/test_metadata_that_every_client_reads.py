"""Metadata that only Java's client could open is rewritten in the common form, or rejected."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from pyiceberg.table.metadata import TableMetadataUtil

from catalog.iceberg.create import create_table_metadata
from catalog.iceberg.json_fields import LONG_RANGE
from catalog.iceberg.types import MAX_CLOCK_AHEAD_MS
from catalog.iceberg.validation import check_times, read_table_metadata, read_view_metadata
from icekeeper.kernel.errors.types import BadRequest
from tests.unit.iceberg.document_fixtures import (
    NOW,
    UUID,
    add,
    after,
    column,
    partition,
    schema,
    set_main,
    snapshot,
    sorting,
    table,
)
from tests.unit.iceberg.views.document_fixtures import add_schema as add_view_schema
from tests.unit.iceberg.views.document_fixtures import add_version, version, view
from tests.unit.iceberg.views.document_fixtures import after as view_after

SPELLINGS = [
    ("decimal(9,2)", "decimal(9, 2)"),
    ("decimal( 9 ,  2 )", "decimal(9, 2)"),
    ("DECIMAL(09,02)", "decimal(9, 2)"),
    ("fixed[ 16 ]", "fixed[16]"),
    ("Fixed[016]", "fixed[16]"),
    ("INT", "int"),
    ("TimestampTZ", "timestamptz"),
]
SPELLINGS_OF_VERSION_3 = [
    ("Geometry( srid:3857 )", "geometry(srid:3857)"),
    ("GEOGRAPHY(srid:4326,Karney)", "geography(srid:4326, karney)"),
]


def nested(text: str) -> dict[str, Any]:
    """A schema with the type in every kind of position, next to unknown members that look like types."""
    return schema(
        column(1, "a", text, value="INT", type_name="INT"),
        column(2, "l", {"type": "list", "element-id": 3, "element": text, "element-required": False, "hint": "INT"}),
        column(4, "m", {
            "type": "map", "key-id": 5, "key": text, "value-id": 6, "value": text, "value-required": False,
        }),
        column(7, "s", {"type": "struct", "fields": [column(8, "inner", text)], "key": "INT"}),
        key="INT",
    )  # fmt: skip


def created(document: dict[str, Any], format_version: int = 2) -> dict[str, Any]:
    return create_table_metadata(
        schema=document,
        partition_spec=None,
        write_order=None,
        location="s3://bucket/t",
        properties=None,
        table_uuid=UUID,
        format_version=format_version,
        now_ms=NOW,
    )


@pytest.mark.parametrize(("text", "canonical"), SPELLINGS)
def test_types_are_written_in_canonical_form(text: str, canonical: str) -> None:
    asked = nested(text)
    before = copy.deepcopy(asked)
    wanted = {**nested(canonical), "schema-id": 1}
    changed = after(table(), {"action": "add-schema", "schema": asked})
    assert changed["schemas"][1] == wanted
    assert asked == before
    (only,) = created(asked)["schemas"]
    assert [field["type"] for field in only["fields"][:1]] == [canonical]
    assert only["fields"][1]["type"]["element"] == canonical
    assert only["fields"][3]["type"]["fields"][0]["type"] == canonical
    TableMetadataUtil.parse_obj(copy.deepcopy(changed))


@pytest.mark.parametrize(("text", "canonical"), SPELLINGS_OF_VERSION_3)
def test_spatial_types_are_written_in_canonical_form(text: str, canonical: str) -> None:
    (only,) = created(schema(column(1, "a", text)), 3)["schemas"]
    assert only["fields"][0]["type"] == canonical


@pytest.mark.parametrize(("text", "canonical"), SPELLINGS)
def test_a_schema_in_another_spelling_is_the_same(text: str, canonical: str) -> None:
    base = after(table(), {"action": "add-schema", "schema": nested(canonical)})
    assert after(base, {"action": "add-schema", "schema": nested(text)}) == base


@pytest.mark.parametrize(("text", "canonical"), SPELLINGS)
def test_types_of_views_are_written_in_canonical_form(text: str, canonical: str) -> None:
    changed = view_after(view(), add_view_schema(nested(text)))
    assert changed["schemas"][-1]["fields"] == nested(canonical)["fields"]


@pytest.mark.parametrize(
    "text", ["decimal (9, 2)", "decimal(9)", "decimal(9, 2", "fixed(16)", "integer", "in t", "\u0131nt"]
)
def test_texts_that_are_no_type(text: str) -> None:
    with pytest.raises(BadRequest, match=r"schema\.fields\[0\]\.type: unknown type"):
        after(table(), {"action": "add-schema", "schema": schema(column(1, "a", text))})


@pytest.mark.parametrize(("text", "canonical"), SPELLINGS)
def test_files_with_spellings_that_only_java_reads_are_refused(text: str, canonical: str) -> None:
    for location in range(4):
        document = copy.deepcopy(table())
        fields = nested(canonical)["fields"]
        fields[location] = nested(text)["fields"][location]
        document["schemas"] = [schema(*fields, **{"schema-id": 0})]
        document["last-column-id"] = 8
        if text == "decimal(9,2)":  # which several clients write, and all read
            assert read_table_metadata(document) == document
            continue
        with pytest.raises(BadRequest, match="types must be written in their canonical form"):
            read_table_metadata(document)
        of_view = copy.deepcopy(view())
        of_view["schemas"][0]["fields"] = fields
        with pytest.raises(BadRequest, match="types must be written in their canonical form"):
            read_view_metadata(of_view)


@pytest.mark.parametrize("operation", ["", "APPEND", "merge", "update", "append "])
def test_unknown_operations(operation: str) -> None:
    document = snapshot(1, summary={"operation": operation})
    with pytest.raises(BadRequest, match=r"summary\.operation: must be one of append, replace, overwrite, delete"):
        after(table(), add(document), set_main(1))
    file = copy.deepcopy(table(snapshots=1))
    file["snapshots"][0]["summary"]["operation"] = operation
    with pytest.raises(BadRequest, match=r"snapshots\[0\]\.summary\.operation"):
        read_table_metadata(file)


@pytest.mark.parametrize("operation", ["append", "replace", "overwrite", "delete"])
def test_operations(operation: str) -> None:
    changed = after(table(), add(snapshot(1, summary={"operation": operation})), set_main(1))
    assert changed["snapshots"][0]["summary"] == {"operation": operation}


SORT_SPELLINGS = [
    ("direction", "ASC", "asc"),
    ("direction", "Desc", "desc"),
    ("null-order", "NULLS-FIRST", "nulls-first"),
    ("transform", "Identity", "identity"),
    ("transform", "BUCKET[16]", "bucket[16]"),
    ("transform", "truncate[04]", "truncate[4]"),
]
TRANSFORMS = [("BUCKET[16]", "bucket[16]"), ("bucket[016]", "bucket[16]"), ("Identity", "identity"), ("VOID", "void")]


@pytest.mark.parametrize(("name", "text", "canonical"), SORT_SPELLINGS)
def test_files_with_sort_fields_that_only_java_reads_are_refused(name: str, text: str, canonical: str) -> None:
    file = copy.deepcopy(table())
    file["sort-orders"] = [{"order-id": 1, "fields": [sorting(1), {**sorting(1), name: text}]}]
    file["default-sort-order-id"] = 1
    with pytest.raises(BadRequest, match=rf"^sort-orders\[0\]\.fields\[1\]\.{name}: must be written in its canonical"):
        read_table_metadata(file)
    file["sort-orders"][0]["fields"][1][name] = canonical
    assert read_table_metadata(file) == file
    TableMetadataUtil.parse_obj(copy.deepcopy(file))


@pytest.mark.parametrize("is_legacy", [False, True])
@pytest.mark.parametrize(("text", "canonical"), TRANSFORMS)
def test_files_with_transforms_that_only_java_reads_are_refused(text: str, canonical: str, *, is_legacy: bool) -> None:
    file = copy.deepcopy(table())
    fields = [partition(1, text, "p", **{"field-id": 1000})]
    if is_legacy:
        file = {**file, "format-version": 1, "partition-spec": fields}
        del file["partition-specs"]
    else:
        file["partition-specs"] = [{"spec-id": 0, "fields": fields}]
    file["last-partition-id"] = 1000
    with pytest.raises(BadRequest, match=r"fields\[0\]\.transform: must be written in its canonical form"):
        read_table_metadata(file)
    fields[0]["transform"] = canonical
    assert read_table_metadata(file)["partition-specs"] == [{"spec-id": 0, "fields": fields}]


def test_files_with_unknown_transforms_are_read() -> None:
    file = copy.deepcopy(table())
    file["partition-specs"] = [{"spec-id": 0, "fields": [partition(1, "Z-Order[2]", "p", **{"field-id": 1000})]}]
    file["last-partition-id"] = 1000
    assert read_table_metadata(file) == file
    TableMetadataUtil.parse_obj(copy.deepcopy(file))


@pytest.mark.parametrize("format_version", [2, 3])
def test_snapshots_without_a_manifest_list_are_refused_from_version_2_on(format_version: int) -> None:
    file = {**copy.deepcopy(table(snapshots=1)), "format-version": format_version, "next-row-id": 0}
    (only,) = file["snapshots"]
    del only["manifest-list"]
    only["manifests"] = ["s3://bucket/t/metadata/m0.avro"]
    with pytest.raises(BadRequest, match=r"^snapshots\[0\]\.manifest-list: required field is missing"):
        read_table_metadata(file)
    only["manifest-list"] = "s3://bucket/t/metadata/snap-1.avro"
    assert read_table_metadata(file) == file


@pytest.mark.filterwarnings("ignore:Encountered invalid snapshot summary")
@pytest.mark.parametrize("name", ["summary", "operation", "sequence-number"])
def test_snapshots_of_old_writers_are_read(name: str) -> None:
    file = copy.deepcopy(table(snapshots=1))
    (only,) = file["snapshots"]
    (only["summary"] if name == "operation" else only).pop(name)
    assert read_table_metadata(file) == file
    TableMetadataUtil.parse_obj(copy.deepcopy(file))


def test_a_snapshot_lies_at_most_a_day_ahead() -> None:
    now_ms = NOW + 100_000
    latest = now_ms + MAX_CLOCK_AHEAD_MS
    document = snapshot(1, **{"timestamp-ms": latest})
    assert after(table(), add(document), set_main(1))["last-updated-ms"] == latest
    with pytest.raises(BadRequest, match=r"snapshot\.timestamp-ms: \d+ is more than a day ahead"):
        after(table(), add(document | {"timestamp-ms": latest + 1}))


def test_a_version_of_a_view_lies_at_most_a_day_ahead() -> None:
    late = version(2, **{"timestamp-ms": NOW + 10 * MAX_CLOCK_AHEAD_MS})
    with pytest.raises(BadRequest, match="more than a day ahead"):
        view_after(view(), add_version(late))


@pytest.mark.parametrize("name", ["last-updated-ms", "snapshots", "snapshot-log", "metadata-log"])
def test_files_lie_at_most_a_day_ahead(name: str) -> None:
    metadata = copy.deepcopy(table(snapshots=1))
    metadata["metadata-log"] = [{"timestamp-ms": NOW, "metadata-file": "s3://bucket/t/metadata/0.json"}]
    check_times(metadata, NOW)
    late = NOW + MAX_CLOCK_AHEAD_MS + 1
    if name == "last-updated-ms":
        metadata[name] = late
    else:
        metadata[name][0]["timestamp-ms"] = late
    with pytest.raises(BadRequest, match=rf"^{name}.*more than a day ahead"):
        check_times(metadata, NOW)


@pytest.mark.parametrize("number", [1, 2])
def test_files_with_sequence_numbers_out_of_order_are_refused(number: int) -> None:
    file = copy.deepcopy(table(snapshots=3))
    file["snapshots"][2]["sequence-number"] = number
    with pytest.raises(BadRequest, match=r"snapshots\[2\]\.sequence-number: \d is out of order"):
        read_table_metadata(file)


def test_files_with_a_negative_sequence_number_are_refused() -> None:
    file = copy.deepcopy(table(snapshots=3))
    file["snapshots"][0]["sequence-number"] = -1
    with pytest.raises(BadRequest, match=r"^snapshots\[0\]\.sequence-number: must not be negative: -1$"):
        read_table_metadata(file)


def test_snapshots_of_version_1_have_no_order() -> None:
    file = copy.deepcopy(table(snapshots=3))
    for each in file["snapshots"][:2]:
        del each["sequence-number"]
    assert read_table_metadata(file) == file


def test_no_snapshot_takes_the_last_sequence_number() -> None:
    with pytest.raises(BadRequest, match="leaves none for later snapshots"):
        after(table(), add(snapshot(1, number=LONG_RANGE[1])))
