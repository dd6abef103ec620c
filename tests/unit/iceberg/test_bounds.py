"""Small documents that expand to much work or memory are rejected, documents that are merely large are not."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from catalog.iceberg.column_types import MAX_TYPE_LENGTH, parse_type
from catalog.iceberg.create import create_table_metadata
from catalog.iceberg.partition_specs import parse_transform
from catalog.iceberg.schemas import MAX_FIELDS, MAX_NAME_LENGTHS, parse_schema
from catalog.iceberg.validation import read_table_metadata
from icekeeper.kernel.errors.types import BadRequest
from tests.unit.iceberg.document_fixtures import NOW, UUID, after, column, one_long_name, schema, table

MEBIBYTE = 2**20


@pytest.mark.timeout(20)
@pytest.mark.parametrize("opening", ["geography(", "geometry(", "geography(a,", "decimal(", "decimal(1,", "fixed[", ""])
@pytest.mark.parametrize("filling", [" ", ",", "(", "\t a", "1"])
@pytest.mark.parametrize("length", [60, 100_000])
def test_a_type_that_never_ends(opening: str, filling: str, length: int) -> None:
    """4,000 spaces once took a minute, and eight times as long for twice as many."""
    with pytest.raises(BadRequest, match="t: ") as error:
        parse_type(opening + filling * length + "!", "t")
    assert len(error.value.message) < 300


def test_a_type_is_as_long_as_a_coordinate_system_needs() -> None:
    longest = f"geometry({'x' * (MAX_TYPE_LENGTH - len('geometry()'))})"
    assert parse_type(longest, "t") == longest
    with pytest.raises(BadRequest, match='t: type is longer than 200 characters: "geometry'):
        parse_type(longest.replace("(", "( "), "t")


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("geometry( srid:3857 )", "geometry(srid:3857)"),
        ("geometry (a, b)", "geometry(a, b)"),
        ("geography(OGC:CRS84)", "geography(OGC:CRS84)"),
        ("geography ( OGC:CRS84 ,karney )", "geography(OGC:CRS84, karney)"),
    ],
)
def test_spatial_types_have_one_spelling(sent: str, read: str) -> None:
    assert parse_type(sent, "t") == read


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        ("geometry( )", "t: geometry names an empty coordinate reference system"),
        ("geography(,karney)", "t: geography names an empty coordinate reference system"),
        ("geography(a, )", "t: unknown edge algorithm of geography: (empty)"),
        ("geography(a, karney, b)", "t: unknown edge algorithm of geography: karney, b"),
        ("geography(a))", 't: unknown type "geography(a))"'),
        ("geography[a]", 't: unknown type "geography[a]"'),
    ],
)
def test_spatial_types_that_are_none(sent: str, error: str) -> None:
    with pytest.raises(BadRequest) as raised:
        parse_type(sent, "t")
    assert raised.value.message == error


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["a" * 300_000, "bucket[" + "1" * 300_000, "bucket[" * 50_000, "bucket[1]" + " " * 99])
def test_a_transform_that_never_ends(text: str) -> None:
    assert not parse_transform(text, "t").is_known


@pytest.mark.timeout(20)
def test_a_long_default_value_takes_little_memory() -> None:
    """A regular expression that matched pairs of digits took about 140 bytes per pair."""
    document = schema(column(1, "b", "binary", **{"initial-default": "ab" * MEBIBYTE}))
    tracemalloc.start()
    try:
        parse_schema(document, "s")
        assert tracemalloc.get_traced_memory()[1] < MEBIBYTE
    finally:
        tracemalloc.stop()
    with pytest.raises(BadRequest, match=r"s.fields\[0\].initial-default: not a default value of type binary"):
        parse_schema(schema(column(1, "b", "binary", **{"initial-default": "abc"})), "s")


def test_names_that_repeat_a_long_one_are_refused_before_creation() -> None:
    """100 KB of name in 2,000 full names took 385 MB."""
    document = one_long_name(100_000, 2_000)
    error = "full names of all fields are longer than 8000000 characters together"
    tracemalloc.start()
    try:
        with pytest.raises(BadRequest, match=error):
            after(table(), {"action": "add-schema", "schema": document})
        assert tracemalloc.get_traced_memory()[1] < 16 * MEBIBYTE
    finally:
        tracemalloc.stop()
    with pytest.raises(BadRequest, match=r"schemas\[1\]: " + error):
        read_table_metadata({**table(), "schemas": [*table()["schemas"], {**document, "schema-id": 1}]})
    with pytest.raises(BadRequest, match=f"schema: {error}"):
        create_table_metadata(
            schema=document, partition_spec=None, write_order=None, location="s3://b", properties=None,
            table_uuid=UUID, format_version=2, now_ms=NOW,
        )  # fmt: skip


def test_the_bound_of_names_is_exact() -> None:
    # "id", the name of the struct, and 9 leaves named name.0 to name.8
    fits, rest = divmod(MAX_NAME_LENGTHS - len("id") - 9 * len(".0"), 10)
    assert rest == 0
    assert len(parse_schema(one_long_name(fits, 9), "s").columns) == 11
    with pytest.raises(BadRequest, match="s: full names"):
        parse_schema(one_long_name(fits + 1, 9), "s")


@pytest.mark.timeout(60)
def test_the_bound_of_fields() -> None:
    columns = [column(number, f"a_column_with_a_rather_long_name_{number}") for number in range(1, MAX_FIELDS + 2)]
    assert len(parse_schema(schema(*columns[:-1]), "s").columns) == MAX_FIELDS
    with pytest.raises(BadRequest, match="s: schema has more than 50000 fields"):
        parse_schema(schema(*columns), "s")


def test_an_error_names_a_few_of_many_problems() -> None:
    document = schema(*(column(number, f"v{number}", "variant") for number in range(1, 1_001)))
    with pytest.raises(BadRequest) as raised:
        after(table(), {"action": "add-schema", "schema": document})
    lines = raised.value.message.splitlines()
    assert lines[1] == "- Invalid type for v1: variant is not supported until v3"
    assert lines[-1] == "- and 980 more"
    assert len(lines) == 22


OLD = {name: value for name, value in table(1).items() if name != "table-uuid"}
UPGRADE = {"action": "upgrade-format-version", "format-version": 2}
ASSIGN = {"action": "assign-uuid", "uuid": UUID}
OTHER = UUID.replace("f", "e")


@pytest.mark.parametrize("updates", [[ASSIGN], [ASSIGN, UPGRADE], [UPGRADE, ASSIGN], [ASSIGN, ASSIGN]])
def test_an_old_table_is_given_its_uuid(updates: list[Any]) -> None:
    for spare in (None, OTHER):
        metadata = after(OLD, *updates, table_uuid=spare)
        assert metadata["table-uuid"] == UUID
        assert read_table_metadata(metadata) == metadata
    with pytest.raises(BadRequest, match="Cannot reassign uuid"):
        after(after(OLD, ASSIGN), {**ASSIGN, "uuid": OTHER})


def test_an_old_table_that_is_upgraded_gets_the_spare_uuid() -> None:
    metadata = after(OLD, UPGRADE, table_uuid=OTHER)
    assert metadata["table-uuid"] == OTHER
    assert read_table_metadata(metadata) == metadata
    with pytest.raises(BadRequest, match="UUID is required in format v2: no assign-uuid update"):
        after(OLD, UPGRADE)


def test_a_spare_uuid_is_not_used_where_none_is_needed() -> None:
    assert "table-uuid" not in after(OLD, {"action": "set-properties", "updates": {"a": "b"}}, table_uuid=OTHER)
    assert after(table(1), UPGRADE, table_uuid=OTHER)["table-uuid"] == UUID
