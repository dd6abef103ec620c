"""The first metadata of a view: assigned ids, members kept as sent, and errors."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from catalog.iceberg.validation import read_view_metadata
from icekeeper.kernel.errors.types import BadRequest, EmptyView, IllegalArgument
from tests.unit.iceberg.document_fixtures import DATA, ID, NOW, UUID, column, schema
from tests.unit.iceberg.views.document_fixtures import created, sql, version


def test_a_basic_view() -> None:
    metadata = created()
    assert metadata == {
        "view-uuid": UUID,
        "format-version": 1,
        "location": "s3://bucket/v",
        "properties": {"owner": "ann"},
        "schemas": [schema(ID, DATA, **{"schema-id": 0})],
        "current-version-id": 1,
        "versions": [version(1)],
        "version-log": [{"timestamp-ms": NOW + 1_000, "version-id": 1}],
    }
    assert list(metadata) == [
        "view-uuid", "format-version", "location", "properties", "schemas", "current-version-id", "versions",
        "version-log",
    ]  # fmt: skip
    assert read_view_metadata(metadata) == metadata


def test_a_version_is_kept_exactly() -> None:
    sent = version(
        1,
        sql("select * from ns.tbl", "spark"),
        sql("select * from ns.tbl using X", "trino", **{"x-unknown": [1]}),
        **{
            "summary": {"user": "some-user", "operation": "replace", "": ""},
            "default-catalog": "elsewhere",
            "default-namespace": ["no", "such.namespace", "ß +/"],
            "timestamp-ms": -5,
            "x-unknown": {"a": [None]},
        },
    )
    assert created(view_version=sent)["versions"] == [sent]
    assert created(view_version=sent)["version-log"] == [{"timestamp-ms": -5, "version-id": 1}]


def test_the_client_chooses_no_ids() -> None:
    wide = schema(column(8, "b"), column(3, "a"), **{"schema-id": 7, "x-unknown": 1})
    metadata = created(schema=wide, view_version=version(9, **{"schema-id": 5}))
    assert metadata["schemas"] == [{**wide, "schema-id": 0}]
    assert metadata["versions"] == [{**version(9), "version-id": 1, "schema-id": 0}]
    assert metadata["current-version-id"] == 1
    assert [entry["version-id"] for entry in metadata["version-log"]] == [1]


def test_nulls_that_mean_nothing_are_not_stored() -> None:
    metadata = created(
        schema=schema(column(1, "a", **{"initial-default": None, "doc": "d"})),
        view_version=version(1, **{"default-catalog": None}),
        properties=None,
    )
    assert metadata["schemas"][0]["fields"] == [column(1, "a", doc="d")]
    assert "default-catalog" not in metadata["versions"][0]
    assert metadata["properties"] == {}
    assert read_view_metadata(metadata) == metadata


def test_the_type_of_a_representation_is_written_in_lower_case() -> None:
    metadata = created(view_version=version(1, sql("select 1", "Spark", type="SQL")))
    assert metadata["versions"][0]["representations"] == [sql("select 1", "Spark")]


def test_a_location_loses_its_trailing_slashes() -> None:
    assert created(location="s3://bucket/v//")["location"] == "s3://bucket/v"


def test_types_of_every_format_version_may_be_seen_through_a_view() -> None:
    columns = [column(1, "v", "variant"), column(2, "t", "timestamp_ns"), column(3, "d", "int", **{"write-default": 4})]
    assert created(schema=schema(*columns))["schemas"][0]["fields"] == columns


def test_the_request_is_left_as_it_was() -> None:
    request: dict[str, Any] = {
        "schema": schema(ID, column(2, "x", **{"write-default": None})),
        "view_version": version(4, sql(type="SQL"), **{"default-catalog": None}),
        "properties": {"a": "b"},
    }
    sent = copy.deepcopy(request)
    metadata = created(**request)
    metadata["properties"]["c"] = "d"
    assert request == sent


def test_a_view_needs_a_representation() -> None:
    with pytest.raises(EmptyView, match=r"view-version\.representations: View must have at least one representation"):
        created(view_version=version(1, representations=[]))
    assert (EmptyView.status, EmptyView.wire_type) == (400, "EmptyView")


@pytest.mark.parametrize("second", ["trino", "TrIno"])
def test_one_text_a_dialect(second: str) -> None:
    with pytest.raises(IllegalArgument) as raised:
        created(view_version=version(1, sql("a", "spark"), sql("b", "trino"), sql("c", second)))
    # the compatibility kit expects exactly this text
    assert raised.value.message == "Invalid view version: Cannot add multiple queries for dialect trino"
    assert (IllegalArgument.status, IllegalArgument.wire_type) == (400, "IllegalArgumentException")


def test_representations_that_java_cannot_write() -> None:
    with pytest.raises(BadRequest, match=r"Found unsupported view representations: \[cube, plan\]"):
        created(view_version=version(1, {"type": "Plan"}, sql(), {"type": "cube", "sql": 1}, {"type": "plan"}))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"schema": None}, "schema: expected an object, got null"),
        ({"schema": []}, "schema: expected an object, got an array"),
        ({"schema": {"type": "struct"}}, "schema.fields: required field is missing"),
        ({"schema": schema(ID, ID)}, "schema: field id 1 is used twice"),
        ({"view_version": None}, "view-version: expected an object, got null"),
        ({"view_version": {}}, "view-version.schema-id: required field is missing"),
        ({"location": None}, "location: expected a string, got null"),
        ({"location": "/"}, "location: location must not be empty"),
        ({"properties": []}, "properties: expected an object, got an array"),
        ({"properties": {"a": None}}, "properties.a: expected a string, got null"),
        ({"properties": {"a": 1}}, "properties.a: expected a string, got the number 1"),
        ({"properties": {"version.history.num-entries": "x"}}, "num-entries: expected an integer, got x"),
        (
            {"properties": {"version.history.num-entries": "0"}},
            "properties: version.history.num-entries must be positive but was 0",
        ),
        ({"view_uuid": "x"}, "view-uuid: expected a UUID, got x"),
    ],
)
def test_invalid_requests(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest) as raised:
        created(**fields)
    assert message in raised.value.message
