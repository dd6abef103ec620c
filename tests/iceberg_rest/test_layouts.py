"""Locations of new namespaces, tables, views and generic tables in warehouses with a storage layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.models import LocationClaim, Namespace, Tabular
from storage.models import Warehouse
from tasks.models import Task
from tests.catalog_fixtures import SCHEMA, finishing_updates
from tests.harness.wsgi_client import ApiClient, Response

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

Files = Callable[[], list[str]]
SetLayout = Callable[[dict[str, Any] | None], Response]
BY_NAME = {"type": "full-hierarchy", "namespace": "{name}", "tabular": "{name}"}
READABLE = {"type": "full-hierarchy", "namespace": "{name}", "tabular": "{name}-{uuid}"}
VERSION = {
    "version-id": 1,
    "timestamp-ms": 1,
    "schema-id": 0,
    "summary": {},
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    "default-namespace": ["ns"],
}
KINDS = ["table", "view", "generic table"]


@pytest.fixture
def set_layout(warehouse: Warehouse) -> SetLayout:
    """Set the layout of the warehouse as an operator."""
    api = ApiClient(f"/management/v1/warehouse/{warehouse.pk}")

    def change(layout: dict[str, Any] | None) -> Response:
        profile = {"type": "local", "path": warehouse.storage_profile["path"], "storage-layout": layout}
        return api.post("/storage", {"storage-profile": profile})

    return change


@pytest.fixture
def generic(catalog: ApiClient) -> ApiClient:
    return ApiClient(catalog.base.replace("/catalog/", "/lakekeeper/"))


@pytest.fixture
def create(catalog: ApiClient, generic: ApiClient) -> Callable[..., Response]:
    def create(kind: str, name: str, namespace: str = "ns", **more: Any) -> Response:
        folder = f"/namespaces/{namespace}"
        if kind == "table":
            return catalog.post(f"{folder}/tables", {"name": name, "schema": SCHEMA, **more})
        if kind == "view":
            return catalog.post(f"{folder}/views", {"name": name, "schema": SCHEMA, "view-version": VERSION, **more})
        return generic.post(f"{folder}/generic-tables", {"name": name, "format": "lance", **more})

    return create


@pytest.fixture
def drop(catalog: ApiClient, generic: ApiClient) -> Callable[..., None]:
    def drop(kind: str, name: str, *, purge: bool) -> None:
        client = generic if kind == "generic table" else catalog
        segment = kind.replace(" ", "-") + "s"
        assert client.delete(f"/namespaces/ns/{segment}/{name}?purgeRequested={str(purge).lower()}").status == 204

    return drop


def new_namespace(catalog: ApiClient, *levels: str, **properties: str) -> str:
    response = catalog.post("/namespaces", {"namespace": list(levels), "properties": properties})
    assert response.status == 200, response.body
    location: str = response.json()["properties"]["location"]
    return location


def location_of(response: Response) -> str:
    assert response.status == 200, response.body
    body = response.json()
    location: str = body["table"]["base-location"] if "table" in body else body["metadata"]["location"]
    return location


def uuid_of(name: str) -> str:
    return str(Tabular.objects.get(name=name).uuid)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_for_each_namespace_level_and_table(
    catalog: ApiClient, warehouse: Warehouse, set_layout: SetLayout, create: Any, kind: str
) -> None:
    assert set_layout(READABLE).json()["storage-profile"]["storage-layout"] == READABLE
    base = warehouse.location
    assert new_namespace(catalog, "Sales") == f"{base}/Sales/"
    assert new_namespace(catalog, "sales", "eu") == f"{base}/Sales/eu/"
    created = location_of(create(kind, "Orders", "sales%1Feu"))
    assert created == f"{base}/Sales/eu/Orders-{uuid_of('Orders')}"


def test_ids_instead_of_names(catalog: ApiClient, warehouse: Warehouse, set_layout: SetLayout, create: Any) -> None:
    set_layout({"type": "full-hierarchy", "namespace": "ns-{uuid}", "tabular": "{uuid}"})
    new_namespace(catalog, "ns")
    new_namespace(catalog, "ns", "in")
    outer, inner = (Namespace.objects.get(path=path).pk for path in ("ns", "ns\x1fin"))
    created = location_of(create("table", "t", "ns%1Fin"))
    assert created == f"{warehouse.location}/ns-{outer}/ns-{inner}/{uuid_of('t')}"


def test_only_tables_have_folders(catalog: ApiClient, warehouse: Warehouse, set_layout: SetLayout, create: Any) -> None:
    set_layout({"type": "tabular-only", "tabular": "{name}.{uuid}"})
    base = warehouse.location
    assert new_namespace(catalog, "ns") == new_namespace(catalog, "ns", "in") == f"{base}/"
    assert location_of(create("table", "t", "ns%1Fin")) == f"{base}/t.{uuid_of('t')}"
    staged = create("table", "s", **{"stage-create": True}).json()["metadata"]
    assert staged["location"] == f"{base}/s.{staged['table-uuid']}"


def test_a_location_chosen_by_the_user_overrides_the_layout(
    catalog: ApiClient, warehouse: Warehouse, set_layout: SetLayout, create: Any
) -> None:
    set_layout(READABLE)
    base = warehouse.location
    assert new_namespace(catalog, "ns", location=f"{base}/chosen/deep") == f"{base}/chosen/deep/"
    assert new_namespace(catalog, "ns", "in") == f"{base}/chosen/deep/in/"
    assert location_of(create("table", "t")) == f"{base}/chosen/deep/t-{uuid_of('t')}"
    assert location_of(create("table", "u", location=f"{base}/u")) == f"{base}/u"


def test_a_layout_applies_to_new_objects(
    catalog: ApiClient, warehouse: Warehouse, set_layout: SetLayout, create: Any
) -> None:
    base = warehouse.location
    new_namespace(catalog, "old")
    before = location_of(create("table", "t", "old"))
    set_layout(READABLE)
    assert catalog.get("/namespaces/old").json()["properties"]["location"] == f"{base}/"
    assert location_of(catalog.get("/namespaces/old/tables/t")) == before
    assert location_of(create("table", "u", "old")) == f"{base}/u-{uuid_of('u')}"
    new_namespace(catalog, "new")
    set_layout(None)  # keeps the layout
    assert location_of(create("table", "v", "new")) == f"{base}/new/v-{uuid_of('v')}"
    set_layout({"type": "default"})
    assert location_of(create("table", "w", "new")) == f"{base}/new/{uuid_of('w')}"


def test_a_namespace_of_old_is_a_level_without_folder(
    catalog: ApiClient, warehouse: Warehouse, set_layout: SetLayout, create: Any
) -> None:
    new_namespace(catalog, "old")
    Namespace.objects.update(location=None)
    set_layout(READABLE)
    assert new_namespace(catalog, "old", "in") == f"{warehouse.location}/in/"
    assert location_of(create("table", "t", "old")) == f"{warehouse.location}/t-{uuid_of('t')}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["my table", "a/b", "ü", "n" * 256, "x" * 255])
def test_a_name_without_a_valid_folder_is_refused(
    catalog: ApiClient, set_layout: SetLayout, create: Any, files: Files, kind: str, name: str
) -> None:
    set_layout(READABLE)
    new_namespace(catalog, "ns")
    before = files()
    expected = "Invalid" if len(name) == 256 else "Choose a location, or another name"
    response = create(kind, name)
    assert response.status == 400
    assert expected in response.json()["error"]["message"]
    if len(name) < 256:
        assert response.json()["error"]["type"] == "InvalidLocation"
    assert catalog.post("/namespaces", {"namespace": ["ns", name]}).status == (200 if name == "x" * 255 else 400)
    assert not Tabular.objects.exists()
    assert files() == before


def test_such_a_name_with_a_location_is_fine(
    catalog: ApiClient, warehouse: Warehouse, set_layout: SetLayout, create: Any
) -> None:
    set_layout(READABLE)
    new_namespace(catalog, "my space", location=f"{warehouse.location}/my_space")
    assert location_of(create("table", "a b", "my%20space", location=f"{warehouse.location}/ab")).endswith("/ab")


@pytest.mark.parametrize("stage", [False, True])
@pytest.mark.parametrize("purge", [False, True])
def test_the_same_name_again(
    catalog: ApiClient, warehouse: Warehouse, set_layout: SetLayout, create: Any, drop: Any, files: Files,
    stage: bool, purge: bool,
) -> None:  # fmt: skip
    set_layout(BY_NAME)
    new_namespace(catalog, "ns")
    first = location_of(create("table", "t"))
    assert first == f"{warehouse.location}/ns/t"
    drop("table", "t", purge=purge)
    again = create("table", "t", **{"stage-create": stage})
    if not purge:
        assert again.refused(400, "InvalidLocation", "Unexpected files")
        assert len(files()) == 1
        return
    assert location_of(again) == first
    assert not Task.objects.live().exists(), "purged by the request instead of the worker"
    if stage:
        body = {"requirements": [{"type": "assert-create"}], "updates": finishing_updates(again.json()["metadata"])}
        assert catalog.post("/namespaces/ns/tables/t", body).status == 200
    assert [Path(file).name for file in files()] == [Tabular.objects.get().metadata_location.rpartition("/")[2]]


@pytest.mark.parametrize("kind", ["view", "generic table"])
def test_reusing_the_name_of_a_dropped_object_that_needs_no_empty_folder(
    catalog: ApiClient, set_layout: SetLayout, create: Any, drop: Any, files: Files, kind: str
) -> None:
    set_layout(BY_NAME)
    new_namespace(catalog, "ns")
    for purge in (True, False, True):
        first = location_of(create(kind, "t"))
        drop(kind, "t", purge=purge)
        assert location_of(create(kind, "t")) == first
        assert not LocationClaim.objects.exists()
        drop(kind, "t", purge=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_in_use_is_refused(
    catalog: ApiClient, warehouse: Warehouse, set_layout: SetLayout, create: Any, files: Files, kind: str
) -> None:
    set_layout(BY_NAME)
    new_namespace(catalog, "ns")
    assert create("table", "t").status == 200
    names = [{"namespace": ["ns"], "name": name} for name in ("t", "renamed")]
    assert catalog.post("/tables/rename", {"source": names[0], "destination": names[1]}).status == 204
    create("table", "around", location=f"{warehouse.location}/ns/u/inner")
    before = files()
    for name in ("t", "u"):
        assert create(kind, name).refused(409, "LocationAlreadyTaken")
    assert files() == before
    assert Tabular.objects.count() == 2


def test_restorable_tables_keep_their_folder(
    catalog: ApiClient, set_layout: SetLayout, create: Any, drop: Any, soft_delete: int
) -> None:
    set_layout(BY_NAME)
    new_namespace(catalog, "ns")
    create("table", "t")
    drop("table", "t", purge=True)
    assert create("table", "t").refused(409, "LocationAlreadyTaken")


def test_a_namespace_gets_no_folder_inside_a_table(
    catalog: ApiClient, warehouse: Warehouse, set_layout: SetLayout, create: Any
) -> None:
    set_layout(BY_NAME)
    new_namespace(catalog, "ns")
    create("table", "t", location=f"{warehouse.location}/data")
    assert catalog.post("/namespaces", {"namespace": ["data"]}).refused(409, "LocationAlreadyTaken")
    create("table", "in")
    assert catalog.post("/namespaces", {"namespace": ["ns", "in"]}).refused(409, "LocationAlreadyTaken")
    assert Namespace.objects.count() == 1
    assert new_namespace(catalog, "data", location=f"{warehouse.location}/other") == f"{warehouse.location}/other/"


def test_nothing_is_written_below_a_location_during_its_purge(
    catalog: ApiClient, warehouse: Warehouse, set_layout: SetLayout, create: Any, drop: Any, files: Files
) -> None:
    """A dropped table had the folder that a namespace would get: the purge would delete new files below it, too."""
    set_layout({"type": "full-hierarchy", "namespace": "{name}", "tabular": "{uuid}"})
    new_namespace(catalog, "ns")
    assert create("table", "wide", location=f"{warehouse.location}/ns").status == 200
    drop("table", "wide", purge=True)
    before = files()
    for kind in KINDS:
        assert create(kind, "t").refused(409, "LocationAlreadyTaken")
    assert files() == before
    assert Task.objects.live().get().status == "scheduled"


def test_a_staged_table_that_was_created_and_dropped_is_not_created_again_during_its_purge(
    catalog: ApiClient, namespace: str, create: Any, drop: Any, files: Files
) -> None:
    """Its UUID is used by then, so its folder is not exclusive to it."""
    staged = create("table", "t", **{"stage-create": True}).json()["metadata"]
    body = {"requirements": [{"type": "assert-create"}], "updates": finishing_updates(staged)}
    assert catalog.post("/namespaces/ns/tables/t", body).status == 200
    drop("table", "t", purge=True)
    before = files()
    assert catalog.post("/namespaces/ns/tables/t", body).refused(409, "LocationAlreadyTaken")
    assert files() == before
