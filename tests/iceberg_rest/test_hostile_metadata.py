"""Contradictory or oversized schemas, snapshots, references and views, in every request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from icekeeper.kernel.clock import now_ms
from icekeeper.kernel.ids import new_id
from tests.catalog_fixtures import SCHEMA, snapshot
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient, Response

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(120)]

CreateTable = Callable[..., dict[str, Any]]
Everything = Callable[[], Fingerprint]
Json = Any

T, V = "/namespaces/ns/tables/t", "/namespaces/ns/views/v"
LARGEST = 2**63 - 1
AT = now_ms() + 3_600_000
"""After everything that happens in the run, and less than a day ahead."""
"""In the future, so that no clock decides."""


def column(field_id: Json, name: str = "c", column_type: Json = "int", **more: Json) -> Json:
    return {"id": field_id, "name": name, "type": column_type, "required": False, **more}


def schema(*columns: Json, **more: Json) -> Json:
    return {"type": "struct", "fields": list(columns), **more}


def wide(number: int) -> Json:
    return schema(*(column(index + 1, f"column_{index}") for index in range(number)))


def version(*representations: Json, **more: Json) -> Json:
    return {
        "version-id": 1, "schema-id": 0, "timestamp-ms": 1_700_000_000_000, "summary": {}, "default-namespace": ["ns"],
        "representations": list(representations) or [{"type": "sql", "sql": "select 1", "dialect": "spark"}], **more,
    }  # fmt: skip


def view(name: str = "v", **more: Json) -> Json:
    return {"name": name, "schema": SCHEMA, "view-version": version(), "properties": {}, **more}


def commit(catalog: ApiClient, *updates: Json) -> Response:
    return catalog.post(T, {"requirements": [], "updates": list(updates)})


def transact(catalog: ApiClient, *updates: Json) -> Response:
    """Commit the updates to `t` in a transaction after a change to `other`, which must be rolled back."""
    harmless = {"action": "set-properties", "updates": {"a": "b"}}
    changes = [("other", [harmless]), ("t", updates)]
    body = [
        {"identifier": {"namespace": ["ns"], "name": name}, "requirements": [], "updates": list(wanted)}
        for name, wanted in changes
    ]
    return catalog.post("/transactions/commit", {"table-changes": body})


def add_schema(document: Json) -> Json:
    return {"action": "add-schema", "schema": document}


def add_snapshot(document: Json) -> Json:
    return {"action": "add-snapshot", "snapshot": document}


def set_ref(name: Json, snapshot_id: Json, kind: Json = "branch", **more: Json) -> Json:
    return {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": snapshot_id, **more}


STRUCT = {"type": "struct", "fields": [column(2, "inner")]}
BAD_SCHEMAS = {
    "the same id twice": schema(column(1, "a"), column(1, "b")),
    "the id of its own struct": schema(column(2, "a", STRUCT)),
    "an id of another branch": schema(column(1, "a", STRUCT), column(2, "b")),
    "a list that is its own element": schema(
        column(5, "a", {"type": "list", "element-id": 5, "element": "int", "element-required": False})
    ),
    "a map whose key is its value": schema(
        column(
            5, "a", {"type": "map", "key-id": 6, "key": "int", "value-id": 6, "value": "int", "value-required": True}
        )
    ),
    "a negative id": schema(column(-1)),
    "the most negative id": schema(column(-(2**63))),
    "an id of 64 bits": schema(column(LARGEST)),
    "an id of 32 bits": schema(column(2**31)),
    "an id that is a text": schema(column("1")),
    "an id that is a float": schema(column(1.0)),
    "an id that is true": schema(column(True)),
    "the same name twice": schema(column(1), column(2)),
    "a name that is none": schema(column(1, None)),
    "an identifier that is no column": schema(column(1), **{"identifier-field-ids": [7]}),
    "an identifier that may be null": schema(column(1), **{"identifier-field-ids": [1]}),
    "more columns than may be": wide(50_001),
}


@pytest.fixture
def tables(catalog: ApiClient, create_table: CreateTable) -> None:
    """Create `t` with the snapshots 1 and 2, and `other`."""
    create_table("t")
    create_table("other")
    first, second = snapshot(1, at=AT), snapshot(2, parent=1, sequence_number=2, at=AT + 1)
    assert commit(catalog, add_snapshot(first), add_snapshot(second), set_ref("main", 2)).status == 200


@pytest.mark.parametrize("name", BAD_SCHEMAS)
@pytest.mark.usefixtures("tables")
def test_a_schema_that_contradicts_itself(name: str, catalog: ApiClient, everything: Everything) -> None:
    before = everything()
    bad = BAD_SCHEMAS[name]
    for send in (commit, transact):
        assert send(catalog, add_schema(bad)).refused(400, "BadRequestException")
    assert catalog.post("/namespaces/ns/views", view(schema=bad)).refused(400, "BadRequestException")
    for stage in (False, True):
        create = {"name": "new", "schema": bad, "stage-create": stage}
        assert catalog.post("/namespaces/ns/tables", create).refused(400, "BadRequestException")
    assert everything() == before


@pytest.mark.parametrize("width", [10_000, 50_000])
def test_a_wide_schema_is_a_schema(width: int, catalog: ApiClient, create_table: CreateTable) -> None:
    if width == 10_000:
        assert len(create_table("wide", schema=wide(width))["metadata"]["schemas"][0]["fields"]) == width
        assert len(catalog.get("/namespaces/ns/tables/wide").json()["metadata"]["schemas"][0]["fields"]) == width
        created = catalog.post("/namespaces/ns/views", view(schema=wide(width)))
        assert created.status == 200
    create_table("t")
    grown = commit(catalog, add_schema(wide(width)), {"action": "set-current-schema", "schema-id": -1})
    assert grown.status == 200
    assert grown.json()["metadata"]["last-column-id"] == width


@pytest.mark.parametrize(
    "updates",
    [
        [{"action": "set-current-schema", "schema-id": 7}],
        [{"action": "set-current-schema", "schema-id": -2}],
        [{"action": "set-current-schema", "schema-id": -1}],
        [{"action": "set-current-schema", "schema-id": LARGEST}],
        [{"action": "remove-schemas", "schema-ids": [0]}],
        [{"action": "set-default-spec", "spec-id": 7}],
        [{"action": "set-default-spec", "spec-id": -1}],
        [{"action": "remove-partition-specs", "spec-ids": [0]}],
        [{"action": "set-default-sort-order", "sort-order-id": 7}],
        [{"action": "set-default-sort-order", "sort-order-id": -1}],
        [{"action": "add-spec", "spec": {"fields": [{"source-id": 9, "transform": "identity", "name": "p"}]}}],
        [{"action": "add-spec", "spec": {"fields": [{"source-id": -1, "transform": "identity", "name": "p"}]}}],
        [{"action": "add-spec", "spec": {"fields": [{"source-id": 1, "transform": "bucket[0]", "name": "p"}]}}],
        [
            {
                "action": "add-sort-order",
                "sort-order": {
                    "order-id": 1,
                    "fields": [
                        {"source-id": 9, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
                    ],
                },
            }
        ],
        [add_snapshot(snapshot(3, parent=2, sequence_number=3, at=AT + 2) | {"schema-id": 7})],
        [add_snapshot(snapshot(3, parent=2, sequence_number=3, at=AT + 2) | {"schema-id": -1})],
        [add_snapshot(snapshot(2, sequence_number=3, at=AT + 2))],
        [add_snapshot(snapshot(3, parent=3, sequence_number=3, at=AT + 2))],
        [add_snapshot(snapshot(-1, parent=2, sequence_number=3, at=AT + 2))],
        [add_snapshot(snapshot(3, parent=2, sequence_number=-1, at=AT + 2))],
        [add_snapshot(snapshot(3, parent=2, sequence_number=LARGEST + 1, at=AT + 2))],
        [add_snapshot(snapshot(3, parent=2, sequence_number=3, at=AT + 2)), {"action": "remove-snapshots"}],
        [set_ref("main", 9)],
        [set_ref("main", -1)],
        [set_ref("b", 9)],
        [set_ref("b", LARGEST)],
        [set_ref("b", 1, "twig")],
        [set_ref("main", 1, "tag")],
        [set_ref("b", 1, **{"min-snapshots-to-keep": 0})],
        [set_ref("b", 1, **{"max-ref-age-ms": -1})],
        [set_ref("b", 1, "tag", **{"min-snapshots-to-keep": 1})],
        [{"action": "set-statistics", "statistics": {"snapshot-id": 9}}],
        [{"action": "upgrade-format-version", "format-version": 1}],
        [{"action": "upgrade-format-version", "format-version": 99}],
    ],
    ids=lambda updates: str(updates)[:80],
)
@pytest.mark.usefixtures("tables")
def test_updates_with_unknown_references(updates: list[Json], catalog: ApiClient, everything: Everything) -> None:
    before = everything()
    for send in (commit, transact):
        response = send(catalog, *updates)
        assert response.status in {400, 409}, response.body
        assert response.error["type"] in {"BadRequestException", "FormatVersionNotAllowed", "CommitFailedException"}
    assert everything() == before


@pytest.mark.parametrize(
    "requirement",
    [
        {"type": "assert-ref-snapshot-id", "ref": "no", "snapshot-id": 1},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": LARGEST},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
        {"type": "assert-table-uuid", "uuid": str(new_id())},
        {"type": "assert-current-schema-id", "current-schema-id": -1},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": -1},
        {"type": "assert-default-spec-id", "default-spec-id": 2**31 - 1},
    ],
)
@pytest.mark.usefixtures("tables")
def test_requirements_with_unknown_references(requirement: Json, catalog: ApiClient, everything: Everything) -> None:
    before = everything()
    changes = {"requirements": [requirement], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    assert catalog.post(T, changes).refused(409, "CommitFailedException", "Requirement failed")
    entry = {"identifier": {"namespace": ["ns"], "name": "t"}, **changes}
    response = catalog.post("/transactions/commit", {"table-changes": [entry]})
    assert response.refused(409, "CommitFailedException", "Requirement failed")
    assert everything() == before


def test_a_view_in_ten_thousand_dialects(catalog: ApiClient, namespace: str) -> None:
    dialects = [{"type": "sql", "sql": "select 1", "dialect": f"d{number}"} for number in range(10_000)]
    created = catalog.post("/namespaces/ns/views", view(**{"view-version": version(*dialects)}))
    assert created.status == 200
    assert created.json()["metadata"]["versions"][0]["representations"] == dialects
    assert catalog.get(V).json() == created.json()


def test_a_view_with_ten_thousand_versions_at_once(catalog: ApiClient, namespace: str, everything: Everything) -> None:
    assert catalog.post("/namespaces/ns/views", view()).status == 200
    updates: list[Json] = [
        {
            "action": "add-view-version",
            "view-version": version(
                {"type": "sql", "sql": f"select {number}", "dialect": "spark"}, **{"version-id": number + 2}
            ),
        }
        for number in range(10_000)
    ]
    response = catalog.post(V, {"updates": [*updates, {"action": "set-current-view-version", "view-version-id": -1}]})
    assert response.status == 200, response.body[:500]
    assert len(response.json()["metadata"]["versions"]) <= 10_001
    before = everything()
    bad = {"action": "set-current-view-version", "view-version-id": LARGEST}
    assert catalog.post(V, {"updates": [*updates, bad]}).refused(400, "BadRequestException")
    assert everything() == before


@pytest.mark.parametrize("schema_id", [7, -1, -2])
def test_a_version_with_an_unknown_schema(
    schema_id: int, catalog: ApiClient, namespace: str, everything: Everything
) -> None:
    assert catalog.post("/namespaces/ns/views", view()).status == 200
    before = everything()
    update = {"action": "add-view-version", "view-version": version(**{"schema-id": schema_id})}
    assert catalog.post(V, {"updates": [update]}).refused(400, "BadRequestException", "schema")
    assert everything() == before


@pytest.mark.parametrize(
    "change",
    [
        {"view-version": version(**{"timestamp-ms": "now"})},
        {"view-version": version(**{"default-namespace": "ns"})},
        {"view-version": version({"type": "python", "code": "1"})},
        {"view-version": version({"type": "sql", "sql": 1, "dialect": "spark"})},
        {"view-version": version({"type": "sql", "sql": "select 1"})},
    ],
    ids=lambda change: str(change)[:120],
)
def test_a_view_that_contradicts_itself(
    change: Json, catalog: ApiClient, namespace: str, everything: Everything
) -> None:
    before = everything()
    assert catalog.post("/namespaces/ns/views", view(**change)).refused(400, "BadRequestException")
    assert everything() == before
    assert catalog.post("/namespaces/ns/views", view()).status == 200
    before = everything()
    update = {"action": "add-view-version", **change}
    assert catalog.post(V, {"updates": [update]}).refused(400, "BadRequestException")
    assert everything() == before
