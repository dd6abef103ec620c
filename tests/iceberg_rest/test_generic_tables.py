"""Generic tables: names shared with tables and views, unchanged properties, and errors that change nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from catalog.models import GenericTable, IdempotencyRecord, Tabular
from storage.models import Warehouse
from tasks.models import Task
from tenancy.models import Securable
from tests.catalog_fixtures import SCAN_REPORT, SCHEMA
from tests.harness.wsgi_client import ApiClient, Response, call

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
Files = Callable[[], list[str]]

TABLES = "/namespaces/ns/generic-tables"


@pytest.fixture
def generic(warehouse: Warehouse, namespace: str) -> ApiClient:
    """A client of `/lakekeeper/v1/{prefix}` with the namespace `ns`."""
    return ApiClient(f"/lakekeeper/v1/{warehouse.pk}")


@pytest.fixture
def create(generic: ApiClient) -> CreateTable:
    """Create a generic table in `ns` and return `table` of the response."""

    def create(name: str = "g", **more: Any) -> dict[str, Any]:
        response = generic.post(TABLES, {"name": name, "format": "lance", **more})
        assert response.status == 200, response.body
        table: dict[str, Any] = response.json()["table"]
        return table

    return create


def nothing_was_created() -> bool:
    securables = Securable.objects.filter(type="generic-table")
    return not Tabular.objects.exists() and not GenericTable.objects.exists() and not securables.exists()


def sent_once(address: ApiClient, method: str, target: str, key: str, body: Any = None) -> Response:
    data = b"" if body is None else json.dumps(body).encode()
    return call(method, address.base + target, body=data, headers={"Idempotency-Key": key})


def test_a_generic_table_is_returned_as_it_was_described(
    generic: ApiClient, warehouse: Warehouse, files: Files, namespace: str
) -> None:
    described = {
        "format": "lance",
        "doc": "Embeddings, ☃",
        "properties": {"Owner": "ann", "": ""},
        "schema": {"z": 1, "a": [None, True, 1.5, "x\x00y"], "fields": {"b": 9223372036854775807, "a": {}}},
        "statistics": [{"rows": 3}],
    }
    created = generic.post(TABLES, {"name": "Vectors", **described})
    assert created.status == 200, created.body
    row = Tabular.objects.get()
    table = {
        "name": "Vectors",
        "format": "lance",
        "base-location": row.location,
        "protected": False,
        "doc": described["doc"],
        "properties": described["properties"],
        "schema": described["schema"],
        "statistics": described["statistics"],
    }
    assert created.json() == {"table": table, "config": {}}
    assert row.location.startswith(f"{warehouse.location}/")
    assert row.location.endswith(f"/{row.uuid}")
    assert (row.kind, row.metadata_location, row.uuid) == ("generic-table", "", row.pk)
    for target in (f"{TABLES}/Vectors", "/namespaces/NS/generic-tables/vectors"):
        loaded = generic.get(target)
        assert loaded.json() == created.json()
        assert (
            b'"schema":{"z":1,"a":[null,true,1.5,"x\\u0000y"],"fields":{"b":9223372036854775807,"a":{}}}' in loaded.body
        )
    listed = {"namespace": ["ns"], "name": "Vectors", "format": "lance", "id": str(row.uuid)}
    assert generic.get(TABLES).json() == {"identifiers": [listed]}
    assert files() == []
    assert Securable.objects.get(type="generic-table").object_id == str(row.pk)


def test_missing_members_are_null_and_missing_properties_empty(create: CreateTable) -> None:
    for more in ({}, {"doc": None, "properties": None, "schema": None, "statistics": None, "base-location": None}):
        table = create(f"g{len(more)}", **more)
        assert {key: table[key] for key in ("doc", "properties", "schema", "statistics")} == {
            "doc": None,
            "properties": {},
            "schema": None,
            "statistics": None,
        }


@pytest.mark.parametrize(
    "value", ["text", "", 0, False, [], {}, -9223372036854775808, 1e-300, [[[]]], {"": {"": None}}]
)
def test_schema_and_statistics_are_any_json(generic: ApiClient, create: CreateTable, value: Any) -> None:
    create(schema=value, statistics=value)
    table = generic.get(f"{TABLES}/g").json()["table"]
    assert (table["schema"], table["statistics"]) == (value, value)
    assert type(table["schema"]) is type(value)


def test_it_is_no_table_and_no_namespace(
    catalog: ApiClient, generic: ApiClient, create: CreateTable, files: Files
) -> None:
    create("g")
    target = "/namespaces/ns/tables/g"
    commit = {"requirements": [], "updates": []}
    for response in (
        catalog.get(target),
        catalog.delete(target),
        catalog.post(target, commit),
        catalog.post(f"{target}/unregister"),
        catalog.post(f"{target}/metrics", SCAN_REPORT),
        catalog.post("/transactions/commit", {"table-changes": [{"identifier": named("g"), **commit}]}),
        catalog.post("/tables/rename", {"source": named("g"), "destination": named("h")}),
    ):
        assert response.refused(404, "NoSuchTableException", "Table does not exist: ns.g")
    assert catalog.head(target).status == 404
    assert catalog.get("/namespaces/ns/tables").json() == {"identifiers": []}
    assert catalog.delete("/namespaces/ns").refused(409, "NamespaceNotEmptyException", "is not empty")
    assert generic.get(f"{TABLES}/g").status == 200
    assert files() == []


def test_a_name_is_had_by_one_of_all_kinds(
    catalog: ApiClient, generic: ApiClient, create: CreateTable, create_table: CreateTable, files: Files
) -> None:
    create("G")
    created = create_table("t")
    before = files()
    taken = "Generic table with same name already exists: ns.g"
    assert generic.post(TABLES, {"name": "g", "format": "delta"}).refused(
        409, "GenericTableAlreadyExists", "Generic table already exists: ns.g"
    )
    assert generic.post(TABLES, {"name": "T", "format": "delta"}).refused(
        409, "AlreadyExistsException", "Table with same name already exists: ns.T"
    )
    assert catalog.post("/namespaces/ns/tables", {"name": "g", "schema": SCHEMA}).refused(
        409, "AlreadyExistsException", taken
    )
    register = {"name": "g", "metadata-location": created["metadata-location"], "overwrite": True}
    assert catalog.post("/namespaces/ns/register", register).refused(409, "AlreadyExistsException", taken)
    assert (files(), Tabular.objects.count(), GenericTable.objects.count()) == (before, 2, 1)


def test_a_staged_table_does_not_take_the_name_of_a_generic_one(
    catalog: ApiClient, create: CreateTable, files: Files
) -> None:
    staged = {"name": "t", "schema": SCHEMA, "stage-create": True}
    metadata = catalog.post("/namespaces/ns/tables", staged).json()["metadata"]
    create("t")
    updates = [{"action": "assign-uuid", "uuid": metadata["table-uuid"]}]
    commit = {"requirements": [{"type": "assert-create"}], "updates": updates}
    assert catalog.post("/namespaces/ns/tables/t", commit).refused(
        409, "AlreadyExistsException", "Generic table with same name already exists: ns.t"
    )
    assert files() == []
    assert Tabular.objects.get().kind == "generic-table"


@pytest.mark.parametrize(
    "name",
    ["a/b", "..a", "...", "%2F", "a%2Fb", "*?", "${jndi:x}", "q\"uo'te", "a b+c", "☃ 雪", "-", "a.b", "\\", "n" * 255],
)
def test_any_printable_name_survives_the_round_trip(generic: ApiClient, create: CreateTable, name: str) -> None:
    created = create(name)
    target = f"{TABLES}/{quote(name, safe='')}"
    assert created["name"] == name
    assert generic.get(target).json()["table"] == created
    assert generic.get(f"{target}/credentials").json() == {"storage-credentials": []}
    assert generic.delete(target).status == 204
    assert nothing_was_created()


def test_look_alikes_are_one_name(generic: ApiClient, create: CreateTable) -> None:
    create("Straße")
    for twin in ("STRASSE", "\uff53trasse"):
        response = generic.post(TABLES, {"name": twin, "format": "lance"})
        assert response.refused(409, "GenericTableAlreadyExists")
        assert generic.get(f"{TABLES}/{quote(twin)}").json()["table"]["name"] == "Straße"
    create("\u0440\u0430ypal")  # Cyrillic: another name
    assert generic.get(f"{TABLES}/paypal").status == 404


@pytest.mark.parametrize(
    ("change", "wire_type"),
    [
        ({"name": None}, "InvalidName"),
        ({"name": ""}, "InvalidName"),
        ({"name": 7}, "InvalidName"),
        ({"name": ".."}, "InvalidName"),
        ({"name": "a\x00b"}, "InvalidName"),
        ({"name": "a\x1fb"}, "InvalidName"),
        ({"name": "a\u202eb"}, "InvalidName"),
        ({"name": "n" * 256}, "InvalidName"),
        ({"format": None}, "InvalidFormat"),
        ({"format": ""}, "InvalidFormat"),
        ({"format": "Lance"}, "InvalidFormat"),
        ({"format": "1a"}, "InvalidFormat"),
        ({"format": "a b"}, "InvalidFormat"),
        ({"format": "a\n"}, "InvalidFormat"),
        ({"format": "ä"}, "InvalidFormat"),
        ({"format": "a" * 65}, "InvalidFormat"),
        ({"format": ["lance"]}, "InvalidFormat"),
        ({"doc": 7}, "BadRequestException"),
        ({"doc": "\x00"}, "BadRequestException"),
        ({"doc": "d" * 1_048_577}, "PayloadTooLarge"),
        ({"properties": []}, "BadRequestException"),
        ({"properties": {"a": 1}}, "BadRequestException"),
        ({"properties": {"a": None}}, "BadRequestException"),
        ({"properties": {"a\x00": "b"}}, "BadRequestException"),
        ({"properties": {"a": "b" * 1_048_577}}, "PayloadTooLarge"),
        ({"schema": "s" * 1_048_577}, "PayloadTooLarge"),
        ({"statistics": ["é" * 600_000]}, "PayloadTooLarge"),
        ({"schema": {"s": ["x" * 1000] * 10_000}}, "PayloadTooLarge"),
        ({"base-location": 7}, "InvalidLocation"),
        ({"base-location": ""}, "InvalidLocation"),
        ({"base-location": "{base}"}, "InvalidLocation"),
        ({"base-location": "{base}/../x"}, "InvalidLocation"),
        ({"base-location": "{base}x/y"}, "InvalidLocation"),
        ({"base-location": "{base}/a%2Fb"}, "InvalidLocation"),
        ({"base-location": "s3://bucket/x"}, "InvalidLocation"),
        ({"base-location": "file:///etc"}, "InvalidLocation"),
    ],
)
def test_bad_create_requests_change_nothing(
    generic: ApiClient, warehouse: Warehouse, files: Files, change: dict[str, Any], wire_type: str
) -> None:
    if isinstance(change.get("base-location"), str):
        change = {"base-location": change["base-location"].replace("{base}", warehouse.location)}
    response = generic.post(TABLES, {"name": "g", "format": "lance"} | change)
    assert response.refused(400, wire_type)
    assert nothing_was_created()
    assert files() == []


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "Malformed JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"name": "g", "name": "h", "format": "lance"}', "appears twice"),
        (b'{"name": "g", "format": "lance", "schema": {"a": 1, "a": 2}}', "appears twice"),
        (b'{"name": "g", "format": "lance", "schema": 9223372036854775808}', "64 bits"),
        (b'{"name": "g", "format": "lance", "schema": NaN}', "NaN"),
        (b'{"name": "g", "format": "lance", "schema": "\\ud800"}', "Malformed JSON"),
        (b'{"name": "g", "format": "lance", "schema": ' + b"[" * 300 + b"]" * 300 + b"}", "Malformed JSON"),
        (b'{"name": "g", "format": "lance", "schema": ' + b"[" * 900_000, "has more than"),
    ],
)
def test_malformed_json(generic: ApiClient, body: bytes, text: str) -> None:
    assert generic.post(TABLES, raw=body).refused(400, "BadRequestException", text)
    assert nothing_was_created()


def test_the_largest_parts_and_the_deepest_json_are_returned(generic: ApiClient) -> None:
    deep = b"[" * 250 + b"]" * 250
    large = json.dumps("s" * (1_048_576 - 2)).encode()
    response = generic.post(
        TABLES, raw=b'{"name": "g", "format": "lance", "schema": %b, "statistics": %b}' % (deep, large)
    )
    assert response.status == 200, response.body[:300]
    loaded = generic.get(f"{TABLES}/g")
    assert loaded.body == response.body
    assert b'"schema":%b,"statistics":%b}' % (deep, large) in loaded.body


def test_locations_are_exclusive(
    catalog: ApiClient, generic: ApiClient, warehouse: Warehouse, create: CreateTable, create_table: CreateTable
) -> None:
    base = warehouse.location
    assert create("g", **{"base-location": f"{base}/deep/g/"})["base-location"] == f"{base}/deep/g"
    create_table("t", location=f"{base}/deep/t")
    for location, is_free in {
        f"{base}/deep": False,
        f"{base}/deep/g": False,
        f"{base}/deep/g/inner": False,
        f"{base}/deep/t": False,
        f"{base}/deep/t/inner": False,
        f"{base}/deep/g10": True,
    }.items():
        response = generic.post(TABLES, {"name": "x", "format": "lance", "base-location": location})
        table = catalog.post("/namespaces/ns/tables", {"name": "y", "schema": SCHEMA, "location": f"{location}/"})
        if is_free:
            assert response.status == 200
        else:
            assert response.refused(409, "LocationAlreadyTaken")
        assert table.refused(409, "LocationAlreadyTaken")


def test_missing_objects(generic: ApiClient, catalog: ApiClient, create_table: CreateTable) -> None:
    create_table("t")
    for target, text in (
        ("/namespaces/ns/generic-tables/no", "Generic table does not exist: ns.no"),
        ("/namespaces/ns/generic-tables/t", "Generic table does not exist: ns.t"),
        ("/namespaces/no/generic-tables/g", "Generic table does not exist: no.g"),
        ("/namespaces//generic-tables/g", "Generic table does not exist: .g"),
        ("/namespaces/ns%1F/generic-tables/g", "Generic table does not exist: ns..g"),
        ("/namespaces/a%1Fb%1Fc%1Fd%1Fe%1Ff/generic-tables/g", "Generic table does not exist: a.b.c.d.e.f.g"),
        ("/namespaces/ns/generic-tables/..%2Ft", "Generic table does not exist: ns.../t"),
        (f"/namespaces/{'n' * 3000}/generic-tables/g", "Generic table does not exist"),
    ):
        assert generic.get(target).refused(404, "NoSuchGenericTableException", text)
        assert generic.get(f"{target}/credentials").refused(404, "NoSuchGenericTableException", text)
        assert generic.delete(target).refused(404, "NoSuchGenericTableException", text)
    assert generic.get("/namespaces/ns/generic-tables/%00").refused(400, "BadRequestException", "NUL")
    assert generic.get("/namespaces/ns/generic-tables/%FF").refused(400, "BadRequestException", "UTF-8")
    assert generic.get("/namespaces/no/generic-tables").refused(404, "NoSuchNamespaceException")
    body = {"name": "g", "format": "lance"}
    assert generic.post("/namespaces/no/generic-tables", body).refused(404, "NoSuchNamespaceException")
    assert Tabular.objects.get().kind == "table"


def test_another_or_an_inactive_warehouse(generic: ApiClient, create: CreateTable) -> None:
    create("g")
    stranger = ApiClient("/lakekeeper/v1/0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44")
    for address in (stranger, ApiClient("/lakekeeper/v1/wh")):
        for response in (address.get(TABLES), address.get(f"{TABLES}/g"), address.delete(f"{TABLES}/g")):
            assert response.error["type"] in {"NoSuchWarehouseException", "PrefixIsNotWarehouseID"}
    Warehouse.objects.update(status="inactive")
    for response in (
        generic.get(TABLES),
        generic.get(f"{TABLES}/g"),
        generic.get(f"{TABLES}/g/credentials"),
        generic.post(TABLES, {"name": "h", "format": "lance"}),
        generic.delete(f"{TABLES}/g"),
    ):
        assert response.refused(404, "NoSuchWarehouseException")
    assert Tabular.objects.count() == 1


def test_listing_pages(generic: ApiClient, create: CreateTable, create_table: CreateTable) -> None:
    for number in range(5):
        create(f"g{number}")
        create_table(f"t{number}")
    first = generic.get(f"{TABLES}?pageToken=&pageSize=2").json()
    create("late")
    second = generic.get(f"{TABLES}?pageSize=2&pageToken={first['next-page-token']}").json()
    third = generic.get(f"{TABLES}?pageSize=2&pageToken={second['next-page-token']}").json()
    shown = [[each["name"] for each in page["identifiers"]] for page in (first, second, third)]
    assert shown == [["g0", "g1"], ["g2", "g3"], ["g4", "late"]]
    assert "next-page-token" not in third
    assert len(generic.get(TABLES).json()["identifiers"]) == 6
    assert generic.get(f"{TABLES}?pageToken=x").refused(400, "InvalidPaginationToken")
    tables = ApiClient(generic.base.replace("/lakekeeper/", "/catalog/")).get(
        f"/namespaces/ns/tables?pageSize=2&pageToken={first['next-page-token']}"
    )
    assert tables.refused(400, "InvalidPaginationToken")


def named(name: str, namespace: str = "ns") -> dict[str, Any]:
    return {"namespace": [namespace], "name": name}


def test_rename(catalog: ApiClient, generic: ApiClient, create: CreateTable, create_table: CreateTable) -> None:
    before = create("g")
    create("taken")
    create_table("t")
    catalog.post("/namespaces", {"namespace": ["other"]})

    def rename(source: dict[str, Any], destination: dict[str, Any]) -> Response:
        return generic.post("/generic-tables/rename", {"source": source, "destination": destination})

    assert rename(named("no"), named("x")).refused(404, "NoSuchGenericTableException")
    assert rename(named("t"), named("x")).refused(404, "NoSuchGenericTableException")
    assert rename(named("g"), named("x", "no")).refused(404, "NoSuchNamespaceException")
    assert rename(named("g"), named("TAKEN")).refused(409, "GenericTableAlreadyExists")
    assert rename(named("g"), named("t")).refused(
        409, "AlreadyExistsException", "Cannot rename ns.g to ns.t. Table already exists"
    )
    assert rename(named("g"), named("..")).refused(400, "BadRequestException")
    assert generic.post("/generic-tables/rename", {"source": "g"}).refused(400, "BadRequestException", "source")
    assert catalog.post("/tables/rename", {"source": named("t"), "destination": named("g")}).refused(
        409, "AlreadyExistsException", "Cannot rename ns.t to ns.g. Generic table already exists"
    )
    assert generic.get(f"{TABLES}/g").json()["table"] == before
    assert rename(named("g"), named("Moved", "other")).status == 204
    assert generic.get(f"{TABLES}/g").status == 404
    assert generic.get("/namespaces/other/generic-tables/moved").json()["table"] == before | {"name": "Moved"}
    securable = Securable.objects.get(object_id=str(Tabular.objects.get(name="Moved").pk))
    assert securable.parent is not None
    assert securable.path.startswith(securable.parent.path)


def test_a_drop_purges_by_default(generic: ApiClient, create: CreateTable) -> None:
    create("keep")
    create("purge")
    purged = Tabular.objects.get(name="purge")
    assert generic.delete(f"{TABLES}/keep?purgeRequested=False").status == 204
    assert not Task.objects.live().exists()
    assert generic.delete(f"{TABLES}/purge?purgeRequested=perhaps").refused(400, "BadRequestException")
    assert generic.delete(f"{TABLES}/purge").status == 204
    task = Task.objects.live().get()
    assert (task.queue, task.entity_id) == (Task.Queue.TABULAR_PURGE, purged.pk)
    assert task.payload["tabular_location"] == purged.location
    assert nothing_was_created()
    assert generic.delete(f"{TABLES}/purge").refused(404, "NoSuchGenericTableException")


def test_a_protected_table_is_dropped_by_force_only(generic: ApiClient, create: CreateTable) -> None:
    create("g")
    Tabular.objects.update(protected=True)
    assert generic.get(f"{TABLES}/g").json()["table"]["protected"] is True
    assert generic.delete(f"{TABLES}/g").refused(
        409, "ProtectedTabularDeletionWithoutForce", "Generic table is protected: ns.g"
    )
    assert not Task.objects.live().exists()
    assert generic.delete(f"{TABLES}/g?force=true").status == 204


def test_the_same_request_is_done_once(generic: ApiClient, namespace: str) -> None:
    body = {"name": "g", "format": "lance", "schema": {"b": 1, "a": "\x00"}, "properties": {"k": "v"}}
    key, other = str(uuid4()), str(uuid4())
    first = sent_once(generic, "POST", TABLES, key, body)
    assert first.status == 200, first.body
    assert sent_once(generic, "POST", TABLES, key, body).body == first.body
    assert sent_once(generic, "POST", TABLES, key, body | {"name": "h"}).refused(400, "IdempotencyKeyReused")
    assert Tabular.objects.count() == 1

    rename = {"source": named("g"), "destination": named("h")}
    for _ in range(2):
        assert sent_once(generic, "POST", "/generic-tables/rename", other, rename).status == 204
    assert sent_once(generic, "POST", TABLES, key, body).body == first.body, "under the name at its creation"

    drop = str(uuid4())
    for _ in range(2):
        assert sent_once(generic, "DELETE", f"{TABLES}/h", drop).status == 204
    assert sent_once(generic, "POST", TABLES, key, body).refused(404, "NoSuchGenericTableException")
    assert nothing_was_created()
    assert Task.objects.live().count() == 1


def test_an_error_is_kept_under_its_key(generic: ApiClient, create: CreateTable) -> None:
    key = str(uuid4())
    for _ in range(2):
        assert sent_once(generic, "DELETE", f"{TABLES}/g", key).refused(404, "NoSuchGenericTableException")
        if not Tabular.objects.exists():
            create("g")
    assert Tabular.objects.count() == 1
    assert IdempotencyRecord.objects.get().status == 404


@pytest.mark.parametrize("views", [0, 1, 10])
def test_the_chain_of_views_is_bounded(generic: ApiClient, create: CreateTable, views: int) -> None:
    create("g")
    chain = ",".join(["ns%1Fv"] * views)
    assert generic.get(f"{TABLES}/g/credentials?referenced-by={chain}").json() == {"storage-credentials": []}
    assert generic.get(f"{TABLES}/g/credentials?referenced-by={chain}{',ns%1Fv' * (11 - views)}").refused(
        400, "ReferencedByDepthExceeded"
    )


def test_methods_that_generic_tables_do_not_have(generic: ApiClient, create: CreateTable) -> None:
    create("g")
    assert generic.post(f"{TABLES}/g", {"updates": []}).refused(405, "MethodNotAllowedException")
    assert generic.get("/generic-tables/rename").refused(405, "MethodNotAllowedException")
    assert generic.get("/generic-tables").refused(404, "NotFoundException")
