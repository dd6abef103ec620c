from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.models import Tabular, TabularMetadata
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tenancy.models import Securable
from tests.harness.wsgi_client import ApiClient, Response

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
CreateView = Callable[..., dict[str, Any]]
Files = Callable[[], list[str]]
V = "/namespaces/ns/views/v"
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "x", "type": "int", "required": False}]}


def version(*dialects: str, version_id: int = 1, sql: str = "select 1 as x", **more: Any) -> dict[str, Any]:
    return {
        "version-id": version_id,
        "schema-id": 0,
        "timestamp-ms": 1_700_000_000_000,
        "summary": {"engine-name": "test"},
        "representations": [{"type": "sql", "sql": sql, "dialect": dialect} for dialect in dialects or ("spark",)],
        "default-namespace": ["nowhere", "at all"],
        **more,
    }


def request(name: str = "v", **more: Any) -> dict[str, Any]:
    return {"name": name, "schema": SCHEMA, "view-version": version(), "properties": {}, **more}


@pytest.fixture
def create_view(catalog: ApiClient, namespace: str) -> CreateView:
    def create(name: str = "v", **more: Any) -> dict[str, Any]:
        response = catalog.post("/namespaces/ns/views", request(name, **more))
        assert response.status == 200, response.body
        created: dict[str, Any] = response.json()
        return created

    return create


def replace(catalog: ApiClient, *updates: dict[str, Any], requirements: Any = None) -> Response:
    return catalog.post(V, {"requirements": requirements or [], "updates": list(updates)})


def test_a_created_view_loads_as_it_was_returned(
    catalog: ApiClient, create_view: CreateView, warehouse: Warehouse, files: Files, storage_root: Any
) -> None:
    first = version("trino", "spark", **{"default-catalog": "cat"})
    created = create_view(properties={"a": "b"}, **{"view-version": first})
    metadata = created["metadata"]
    folder = catalog.get("/namespaces/ns").json()["properties"]["location"]
    assert metadata["location"] == f"{folder}{metadata['view-uuid']}"
    assert created["metadata-location"].startswith(f"{metadata['location']}/metadata/00000-")
    assert metadata["versions"] == [first]
    assert (metadata["current-version-id"], metadata["format-version"]) == (1, 1)
    assert [entry["version-id"] for entry in metadata["version-log"]] == [1]
    assert catalog.get(V).json() == created
    assert catalog.get("/namespaces/NS/views/V").json() == created
    assert catalog.head(V).status == 204
    assert catalog.get("/namespaces/ns/views").json() == {"identifiers": [{"namespace": ["ns"], "name": "v"}]}
    assert catalog.get("/namespaces/ns/tables").json() == {"identifiers": []}
    (file,) = files()
    assert (storage_root / file).read_bytes() == bytes(TabularMetadata.objects.get().document)
    assert Securable.objects.filter(type="view").count() == 1


def test_views_and_tables_do_not_find_each_other(
    catalog: ApiClient, create_view: CreateView, create_table: CreateTable
) -> None:
    create_view()
    create_table("t")
    assert catalog.get("/namespaces/ns/tables/v").refused(404, "NoSuchTableException", "Table does not exist: ns.v")
    assert catalog.get("/namespaces/ns/views/t").refused(404, "NoSuchViewException", "View does not exist: ns.t")
    assert catalog.get("/namespaces/no/views/v").refused(404, "NoSuchViewException", "View does not exist: no.v")
    assert catalog.head("/namespaces/ns/views/t").status == catalog.head("/namespaces/ns/tables/v").status == 404
    assert catalog.delete("/namespaces/ns/tables/v").refused(404, "NoSuchTableException")
    assert catalog.delete("/namespaces/ns/views/t").refused(404, "NoSuchViewException")
    commit = {"requirements": [], "updates": []}
    assert catalog.post("/namespaces/ns/tables/v", commit).refused(404, "NoSuchTableException")
    assert catalog.post("/namespaces/ns/views/t", commit).refused(404, "NoSuchViewException")
    assert catalog.post("/namespaces/ns/tables/v/unregister").refused(404, "NoSuchTableException")


def test_views_and_tables_share_one_name_space(
    catalog: ApiClient, create_view: CreateView, create_table: CreateTable
) -> None:
    created = create_view()
    table = create_table("t")
    schema = {"type": "struct", "fields": []}
    assert catalog.post("/namespaces/ns/views", request("V")).refused(
        409, "AlreadyExistsException", "View already exists: ns.V"
    )
    assert catalog.post("/namespaces/ns/views", request("t")).refused(
        409, "AlreadyExistsException", "Table with same name already exists: ns.t"
    )
    assert catalog.post("/namespaces/ns/tables", {"name": "v", "schema": schema}).refused(
        409, "AlreadyExistsException", "View with same name already exists: ns.v"
    )
    register = {"name": "v", "metadata-location": table["metadata-location"], "overwrite": True}
    assert catalog.post("/namespaces/ns/register", register).refused(
        409, "AlreadyExistsException", "View with same name already exists: ns.v"
    )
    register = {"name": "t", "metadata-location": created["metadata-location"]}
    assert catalog.post("/namespaces/ns/register-view", register).refused(
        409, "AlreadyExistsException", "Table with same name already exists: ns.t"
    )
    here = {"namespace": ["ns"], "name": "v"}
    there = {"namespace": ["ns"], "name": "t"}
    assert catalog.post("/views/rename", {"source": here, "destination": there}).refused(
        409, "AlreadyExistsException", "Cannot rename ns.v to ns.t. Table already exists"
    )
    assert catalog.post("/tables/rename", {"source": there, "destination": here}).refused(
        409, "AlreadyExistsException", "Cannot rename ns.t to ns.v. View already exists"
    )
    assert catalog.post("/tables/rename", {"source": here, "destination": there}).refused(404, "NoSuchTableException")
    assert Tabular.objects.count() == 2
    commit = {"requirements": [{"type": "assert-create"}], "updates": []}
    assert catalog.post("/namespaces/ns/tables/v", commit).refused(
        409, "AlreadyExistsException", "View with same name already exists: ns.v"
    )
    create_view("w")
    assert catalog.post("/views/rename", {"source": here, "destination": here | {"name": "w"}}).refused(
        409, "AlreadyExistsException", "Cannot rename ns.v to ns.w. View already exists"
    )


def test_a_replaced_view_has_both_versions(catalog: ApiClient, create_view: CreateView) -> None:
    created = create_view()
    second = version(sql="select 2 as x", version_id=2)
    held = [{"type": "assert-view-uuid", "uuid": created["metadata"]["view-uuid"]}]
    updates = [
        {"action": "add-view-version", "view-version": second},
        {"action": "set-current-view-version", "view-version-id": -1},
        {"action": "set-properties", "updates": {"p": "q"}},
    ]
    response = replace(catalog, *updates, requirements=held)
    assert response.status == 200, response.body
    replaced = response.json()
    assert replaced["metadata-location"].startswith(f"{created['metadata']['location']}/metadata/00001-")
    assert replaced["config"] == {}
    metadata = replaced["metadata"]
    assert [each["version-id"] for each in metadata["versions"]] == [1, 2]
    assert [entry["version-id"] for entry in metadata["version-log"]] == [1, 2]
    assert (metadata["current-version-id"], metadata["properties"]) == (2, {"p": "q"})
    assert catalog.get(V).json() == replaced
    late = replace(catalog, {**updates[0], "view-version": version(sql="select 3 as x", version_id=2)}, updates[1])
    assert late.json()["metadata"]["current-version-id"] == 3, "two that both asked for 2"


def test_nothing_to_do_writes_nothing(catalog: ApiClient, create_view: CreateView, files: Files) -> None:
    created = create_view()
    before = files()
    assert replace(catalog).json() == created
    assert replace(catalog, {"action": "remove-properties", "removals": ["no"]}).json() == created
    for body in ({"updates": []}, {}, {"updates": None, "requirements": None}):
        assert catalog.post(V, body).json() == created
    assert files() == before


@pytest.mark.parametrize(
    ("body", "status", "wire_type"),
    [
        ({"updates": {}}, 400, "BadRequestException"),
        ({"updates": [], "requirements": {}}, 400, "BadRequestException"),
        ({"updates": [{"action": "add-snapshot"}]}, 400, "BadRequestException"),
        ({"updates": [{"action": "assign-uuid", "uuid": str(new_id())}]}, 400, "BadRequestException"),
        ({"updates": [{"action": "set-location", "location": "file:///etc"}]}, 400, "InvalidLocation"),
        ({"updates": [{"action": "set-current-view-version", "view-version-id": 9}]}, 400, "BadRequestException"),
        ({"updates": [], "requirements": [{"type": "assert-create"}]}, 400, "BadRequestException"),
        (
            {"updates": [], "requirements": [{"type": "assert-view-uuid", "uuid": str(new_id())}]},
            409,
            "CommitFailedException",
        ),
        (
            {"updates": [{"action": "add-view-version", "view-version": version("spark", "Spark")}]},
            400,
            "IllegalArgumentException",
        ),
    ],
)
def test_refused_replacements_change_nothing(
    body: dict[str, Any], status: int, wire_type: str, catalog: ApiClient, create_view: CreateView, files: Files
) -> None:
    created = create_view()
    before = files()
    assert catalog.post(V, body).refused(status, wire_type)
    assert catalog.get(V).json() == created
    assert files() == before


@pytest.mark.parametrize(
    ("change", "status", "wire_type"),
    [
        ({"name": ""}, 400, "BadRequestException"),
        ({"name": ".."}, 400, "BadRequestException"),
        ({"schema": None}, 400, "BadRequestException"),
        ({"view-version": None}, 400, "BadRequestException"),
        ({"view-version": {**version(), "representations": []}}, 400, "EmptyView"),
        ({"view-version": version("spark", "spark")}, 400, "IllegalArgumentException"),
        ({"location": "file:///etc/x"}, 400, "InvalidLocation"),
        ({"location": 7}, 400, "InvalidLocation"),
        ({"properties": {"a": 1}}, 400, "BadRequestException"),
        ({"properties": {"write.metadata.path": "file:///etc"}}, 400, "InvalidLocation"),
    ],
)
def test_refused_creates_leave_nothing(
    change: dict[str, Any], status: int, wire_type: str, catalog: ApiClient, namespace: str, files: Files
) -> None:
    assert catalog.post("/namespaces/ns/views", request() | change).refused(status, wire_type)
    assert not Tabular.objects.exists()
    assert files() == []


def test_a_view_in_a_missing_namespace(catalog: ApiClient) -> None:
    response = catalog.post("/namespaces/no/views", request())
    assert response.refused(404, "NoSuchNamespaceException", "Namespace does not exist: no")


def test_rename_and_drop(catalog: ApiClient, create_view: CreateView, files: Files) -> None:
    created = create_view()
    catalog.post("/namespaces", {"namespace": ["other"]})
    source, destination = {"namespace": ["ns"], "name": "v"}, {"namespace": ["other"], "name": "w"}
    assert catalog.post("/views/rename", {"source": source, "destination": destination}).status == 204
    assert catalog.get(V).refused(404, "NoSuchViewException", "View does not exist: ns.v")
    assert catalog.get("/namespaces/other/views/w").json() == created
    missing = {"source": source, "destination": destination | {"namespace": ["no"]}}
    assert catalog.post("/views/rename", missing).refused(404, "NoSuchViewException")
    back = {"source": destination, "destination": {"namespace": ["no"], "name": "v"}}
    assert catalog.post("/views/rename", back).refused(404, "NoSuchNamespaceException", "Namespace does not exist: no")
    assert catalog.delete("/namespaces/other").refused(409, "NamespaceNotEmptyException")
    before = files()
    assert catalog.delete("/namespaces/other/views/w").status == 204
    assert catalog.delete("/namespaces/other/views/w").refused(404, "NoSuchViewException")
    assert files() == before
    assert not Securable.objects.filter(type="view").exists()
    registered = catalog.post(
        "/namespaces/other/register-view", {"name": "w", "metadata-location": created["metadata-location"]}
    )
    assert registered.json() == created


def test_only_view_metadata_can_be_registered(
    catalog: ApiClient, create_view: CreateView, create_table: CreateTable, warehouse: Warehouse
) -> None:
    table = create_table("t")["metadata-location"]
    view = create_view()["metadata-location"]
    assert catalog.post("/namespaces/ns/tables/t/unregister").status == 200
    missing = f"{warehouse.location}/no.metadata.json"
    for location, status, wire_type in (
        (table, 400, "BadRequestException"),
        (view, 409, "LocationAlreadyTaken"),
        (missing, 404, "NotFoundException"),
        ("file:///etc/hostname", 400, "InvalidLocation"),
        (None, 400, "InvalidLocation"),
    ):
        body = {"name": "w", "metadata-location": location}
        assert catalog.post("/namespaces/ns/register-view", body).refused(status, wire_type)
    body = {"name": "w", "metadata-location": view}
    assert catalog.post("/namespaces/ns/register", body).refused(409, "LocationAlreadyTaken")
    assert Tabular.objects.count() == 1
    assert catalog.delete("/namespaces/ns/views/v").status == 204
    assert catalog.post("/namespaces/ns/register", body).refused(400, "BadRequestException"), "a view is no table"
    assert Tabular.objects.count() == 0


def test_requests_are_not_done_twice(catalog: ApiClient, namespace: str) -> None:
    keys = [str(new_id()) for _ in range(4)]
    first = catalog.post("/namespaces/ns/views", request(), idempotency_key=keys[0])
    assert catalog.post("/namespaces/ns/views", request(), idempotency_key=keys[0]).body == first.body
    other = catalog.post("/namespaces/ns/views", request(properties={"a": "b"}), idempotency_key=keys[0])
    assert other.refused(400, "IdempotencyKeyReused")
    change = {"updates": [{"action": "set-properties", "updates": {"p": "q"}}]}
    second = catalog.post(V, change, idempotency_key=keys[1])
    assert catalog.post(V, change, idempotency_key=keys[1]).body == second.body
    assert second.json() == catalog.get(V).json() != first.json()
    rename = {"source": {"namespace": ["ns"], "name": "v"}, "destination": {"namespace": ["ns"], "name": "w"}}
    for _ in range(2):
        assert catalog.post("/views/rename", rename, idempotency_key=keys[2]).status == 204
    for _ in range(2):
        assert catalog.delete("/namespaces/ns/views/w", idempotency_key=keys[3]).status == 204
