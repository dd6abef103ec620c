"""Reading view metadata files of other writers: validation errors, completed members, and members kept unchanged."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from catalog.iceberg.validation import read_view_metadata
from icekeeper.kernel.errors.types import BadRequest
from tests.unit.iceberg.document_fixtures import DATA, ID, column, schema
from tests.unit.iceberg.views.document_fixtures import after, log_entry, set_properties, sql, version, view

MISSING = object()


def changed(**fields: Any) -> dict[str, Any]:
    document = view(2)
    for name, value in fields.items():
        key = name.replace("_", "-")
        document[key] = value
        if value is MISSING:
            del document[key]
    return document


def with_version(*representations: Any, **more: Any) -> dict[str, Any]:
    """Return a document with this first version."""
    return {"versions": [version(1, *representations, **more), version(2)]}


def without(name: str) -> dict[str, Any]:
    return {"versions": [{key: value for key, value in version(1).items() if key != name}, version(2)]}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format_version": MISSING}, "format-version: required field is missing"),
        ({"format_version": "1"}, "format-version: expected a 32-bit integer"),
        ({"format_version": 2}, "format-version: Unsupported format version: v2 (supported: v1)"),
        ({"format_version": 0}, "format-version: Unsupported format version: v0 (supported: v1)"),
        ({"view_uuid": MISSING}, "view-uuid: required field is missing"),
        ({"view_uuid": 1}, "view-uuid: expected a string"),
        ({"view_uuid": "x"}, "view-uuid: expected a UUID"),
        ({"location": MISSING}, "location: required field is missing"),
        ({"location": None}, "location: required field is missing"),
        ({"location": ""}, "location: location must not be empty"),
        ({"properties": None}, "properties: expected an object, got null"),
        ({"properties": {"a": 1}}, "properties.a: expected a string"),
        ({"schemas": MISSING}, "schemas: required field is missing"),
        ({"schemas": {}}, "schemas: expected an array"),
        ({"schemas": []}, "versions[0].schema-id: there is no schema 0"),
        ({"schemas": [None]}, "schemas[0]: expected an object, got null"),
        ({"schemas": [{}]}, "schemas[0].type: required field is missing"),
        ({"schemas": [schema(ID, **{"schema-id": "0"})]}, "schemas[0].schema-id: expected a 32-bit integer"),
        ({"schemas": [schema(ID, **{"schema-id": 0}), schema(DATA)]}, "schemas: id 0 is used twice"),
        (
            {"schemas": [schema(column(1, "a", **{"initial-default": None}))]},
            "schemas[0].fields[0].initial-default: expected a default value or no such field, got null",
        ),
        ({"versions": MISSING}, "versions: required field is missing"),
        ({"versions": None}, "versions: required field is missing"),
        ({"versions": []}, "current-version-id: Cannot find current version 2"),
        ({"versions": [7]}, "versions[0]: expected an object"),
        ({"versions": [version(2), version(1), version(2)]}, "versions: id 2 is used twice"),
        ({"versions": [version(-1), version(2)]}, "versions[0].version-id: -1 means the last one added"),
        ({"current_version_id": MISSING}, "current-version-id: required field is missing"),
        ({"current_version_id": 3}, "current-version-id: Cannot find current version 3 in view versions"),
        ({"current_version_id": 2.0}, "current-version-id: expected a 32-bit integer"),
        (with_version(**{"version-id": 2**31}), "versions[0].version-id: expected a 32-bit integer"),
        (with_version(**{"schema-id": 1}), "versions[0].schema-id: there is no schema 1"),
        (with_version(**{"schema-id": None}), "versions[0].schema-id: required field is missing"),
        (with_version(**{"timestamp-ms": 2**63}), "versions[0].timestamp-ms: expected a 64-bit integer"),
        (with_version(summary=[]), "versions[0].summary: expected an object"),
        (with_version(summary={"a": None}), "versions[0].summary.a: expected a string"),
        (with_version(**{"default-catalog": 1}), "versions[0].default-catalog: expected a string"),
        (with_version(**{"default-namespace": "db"}), "versions[0].default-namespace: expected an array"),
        (with_version(**{"default-namespace": ["a", 1]}), "versions[0].default-namespace[1]: expected a string"),
        (
            with_version(**{"default-namespace": ["a\0"]}),
            "versions[0].default-namespace[0]: Cannot create a namespace with the null-byte character",
        ),
        (with_version(representations={}), "versions[0].representations: expected an array"),
        (with_version(sql(), None), "versions[0].representations[1]: expected an object"),
        (with_version({"sql": ""}), "versions[0].representations[0].type: required field is missing"),
        (with_version({"type": "sql", "sql": ""}), "versions[0].representations[0].dialect: required field is missing"),
        (with_version(sql(sql=1)), "versions[0].representations[0].sql: expected a string"),
        *(
            (without(name), f"versions[0].{name}: required field is missing")
            for name in ("version-id", "timestamp-ms", "schema-id", "summary", "representations", "default-namespace")
        ),
        ({"version_log": MISSING}, "version-log: required field is missing"),
        ({"version_log": {}}, "version-log: expected an array"),
        ({"version_log": ["x"]}, "version-log[0]: expected an object"),
        ({"version_log": [{"version-id": 1}]}, "version-log[0].timestamp-ms: required field is missing"),
        ({"version_log": [{"timestamp-ms": 1}]}, "version-log[0].version-id: required field is missing"),
    ],
)
def test_invalid_documents_are_rejected(fields: dict[str, Any], message: str) -> None:
    document = changed(**fields)
    before = copy.deepcopy(document)
    with pytest.raises(BadRequest) as raised:
        read_view_metadata(document)
    assert raised.value.message.startswith(message)
    assert document == before


def test_missing_members_are_completed() -> None:
    document = changed(properties=MISSING, schemas=[schema(ID), schema(DATA, **{"schema-id": 1})])
    before = copy.deepcopy(document)
    metadata = read_view_metadata(document)
    assert document == before
    assert metadata == {
        **document,
        "properties": {},
        "schemas": [{**schema(ID), "schema-id": 0}, document["schemas"][1]],
    }
    assert after(metadata, set_properties(a="b"))["properties"] == {"a": "b"}
    no_id = changed(schemas=[schema(ID, **{"schema-id": None})])
    assert read_view_metadata(no_id)["schemas"][0]["schema-id"] == 0


@pytest.mark.parametrize(
    "fields",
    [
        with_version({"type": "plan", "sql": 7}),
        with_version(sql("a", "spark"), sql("b", "SPARK")),
        with_version(representations=[]),
        with_version(sql(type="SQL")),
        with_version(**{"default-catalog": None}),
        with_version(**{"default-namespace": []}),
        with_version(**{"version-id": 0}),
        with_version(**{"timestamp-ms": -(2**63)}),
        {"version_log": []},
        {"version_log": [log_entry(99), log_entry(1, at_ms=0)]},
        {"location": "s3://bucket/v/"},
        {"properties": {"version.history.num-entries": "junk"}},
        {"x_unknown": [None]},
    ],
)
def test_members_that_are_kept_unchanged(fields: dict[str, Any]) -> None:
    document = changed(**fields)
    assert read_view_metadata(document) == document
