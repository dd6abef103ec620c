"""Locations of namespaces and of the tables in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.models import Namespace, Tabular
from storage.models import Warehouse
from tests.catalog_fixtures import SCHEMA
from tests.harness.wsgi_client import ApiClient, Response

pytestmark = pytest.mark.django_db

CreateTable = Callable[..., dict[str, Any]]


@pytest.fixture
def create(catalog: ApiClient) -> Callable[[str, str | None], Response]:
    """Create a namespace at a location."""

    def create(name: str, location: str | None) -> Response:
        properties = {} if location is None else {"location": location}
        return catalog.post("/namespaces", {"namespace": [name], "properties": properties})

    return create


def location_of(catalog: ApiClient, namespace: str) -> str:
    location: str = catalog.get(f"/namespaces/{namespace}").json()["properties"]["location"]
    return location


def new_table(catalog: ApiClient, namespace: str, name: str = "t", **more: Any) -> str:
    """Create a table and return its location."""
    response = catalog.post(f"/namespaces/{namespace}/tables", {"name": name, "schema": SCHEMA, **more})
    assert response.status == 200, response.body
    location: str = response.json()["metadata"]["location"]
    return location


@pytest.mark.parametrize("spelling", ["{base}/sales", "{base}/sales/", "{base}/sales//", "{short}/sales/"])
def test_a_chosen_location_is_kept_and_tables_are_created_below_it(
    catalog: ApiClient, warehouse: Warehouse, create: Any, spelling: str
) -> None:
    base = warehouse.location
    chosen = spelling.replace("{base}", base).replace("{short}", base.replace("file://", "file:"))
    created = create("sales", chosen)
    assert created.status == 200, created.body
    assert created.json()["properties"]["location"] == location_of(catalog, "sales") == f"{base}/sales/"
    assert new_table(catalog, "sales") == f"{base}/sales/{Tabular.objects.get().uuid}"
    generic = ApiClient(catalog.base.replace("/catalog/", "/lakekeeper/"))
    vectors = generic.post("/namespaces/sales/generic-tables", {"name": "g", "format": "lance"}).json()["table"]
    assert vectors["base-location"] == f"{base}/sales/{Tabular.objects.get(name='g').uuid}"
    staged = new_table(catalog, "sales", "s", **{"stage-create": True})
    assert staged.startswith(f"{base}/sales/")
    assert new_table(catalog, "sales", "u", location=f"{base}/elsewhere") == f"{base}/elsewhere"


def test_without_a_location_tables_are_created_in_the_warehouse_folder(
    catalog: ApiClient, warehouse: Warehouse, create: Any
) -> None:
    create("a", f"{warehouse.location}/a")
    create("b", None)
    catalog.post("/namespaces", {"namespace": ["a", "c"]})
    for target in ("b", "a%1Fc"):
        assert location_of(catalog, target) == f"{warehouse.location}/"
        table = new_table(catalog, target)
        assert table == f"{warehouse.location}/{Tabular.objects.order_by('created_at').last().uuid}"  # type: ignore[union-attr]
    same = {"updates": {"location": f"{warehouse.location}/"}}
    assert catalog.post("/namespaces/b/properties", same).json()["updated"] == ["location"]
    other = {"updates": {"location": f"{warehouse.location}/b"}}
    assert catalog.post("/namespaces/b/properties", other).refused(400, "LocationCannotBeUpdated")


def test_a_renamed_table_stays_where_it_is(catalog: ApiClient, create: Any) -> None:
    create("a", None)
    create("b", None)
    location = new_table(catalog, "a")
    names = [{"namespace": [namespace], "name": "t"} for namespace in ("a", "b")]
    assert catalog.post("/tables/rename", {"source": names[0], "destination": names[1]}).status == 204
    assert catalog.get("/namespaces/b/tables/t").json()["metadata"]["location"] == location


@pytest.mark.parametrize(
    "location",
    [
        "",
        "sales",
        "/sales",
        "{base}",
        "{base}/",
        "{base}x",
        "{base}/../x",
        "{base}/a/../b",
        "{base}/./a",
        "{base}/a//b",
        "{base}/a%2Fb",
        "{base}/a?b",
        "{base}/a\nb",
        "file:///etc",
        "s3://bucket/sales",
        "file://host/sales",
        "{base}/" + "n" * 2000,
        "{base}/fits-but-not-with-a-table-below/" + "n" * 1850,
    ],
)
def test_locations_outside_the_warehouse_are_refused(
    catalog: ApiClient, warehouse: Warehouse, create: Any, location: str
) -> None:
    if "fits-but" in location:
        project = 2000 - len(warehouse.location) - 1 - 36
        location = f"{{base}}/{'n' * project}"
    assert create("n", location.replace("{base}", warehouse.location)).refused(400, "InvalidLocation")
    assert not Namespace.objects.exists()


def test_a_namespace_cannot_be_in_the_folder_of_a_table(
    catalog: ApiClient, warehouse: Warehouse, create_table: CreateTable, create: Any
) -> None:
    base = warehouse.location
    create_table("t", location=f"{base}/deep/t")
    moved = [{"action": "set-location", "location": f"{base}/new/t"}]
    assert catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": moved}).status == 200
    # The former locations of the table still have files.
    for taken in ("new/t", "new/t/inner", "new/t/a/b", "deep/t", "deep/t/inner"):
        assert create("n", f"{base}/{taken}").refused(409, "LocationAlreadyTaken")
    assert Namespace.objects.count() == 1
    for free in ("deep", "deep/t10", "new", "new/t_", "DEEP/T"):
        assert create(free.replace("/", "-"), f"{base}/{free}").status == 200


def test_namespaces_may_share_or_nest_locations(catalog: ApiClient, warehouse: Warehouse, create: Any) -> None:
    for name, folder in (("a", "shared"), ("b", "shared"), ("c", "shared/inner")):
        assert create(name, f"{warehouse.location}/{folder}").status == 200
    locations = {new_table(catalog, name) for name in ("a", "b", "c")}
    assert len(locations) == 3
    assert all(location.startswith(f"{warehouse.location}/shared/") for location in locations)


def test_a_table_may_take_a_namespaces_folder_and_stays_the_only_one_there(
    catalog: ApiClient, warehouse: Warehouse, create: Any
) -> None:
    create("a", f"{warehouse.location}/a")
    new_table(catalog, "a", location=f"{warehouse.location}/a")
    response = catalog.post("/namespaces/a/tables", {"name": "u", "schema": SCHEMA})
    assert response.refused(409, "LocationAlreadyTaken")
    assert Tabular.objects.count() == 1


def test_the_location_stays(catalog: ApiClient, warehouse: Warehouse, create: Any) -> None:
    base = warehouse.location
    create("n", f"{base}/n")

    def update(**body: Any) -> Response:
        return catalog.post("/namespaces/n/properties", body)

    for other in (f"{base}/m", f"{base}/n/inner", f"{base}/N", base, "s3://x/y", "", "n", f"{base}/../n"):
        assert update(updates={"a": "b", "location": other}).refused(400, "LocationCannotBeUpdated")
    assert update(removals=["a", "location"]).refused(400, "LocationCannotBeRemoved")
    assert update(removals=["location"], updates={"location": f"{base}/n"}).refused(422, "UnprocessableEntityException")
    assert Namespace.objects.get().properties == {}
    for same in (f"{base}/n", f"{base}/n/"):
        response = update(updates={"location": same, "a": "b"})
        assert response.json() == {"updated": ["location", "a"], "removed": [], "missing": []}
    assert location_of(catalog, "n") == f"{base}/n/"
    assert Namespace.objects.get().properties == {"a": "b"}


def test_a_namespace_of_old_has_no_location(catalog: ApiClient, warehouse: Warehouse, create: Any) -> None:
    create("old", None)
    Namespace.objects.update(location=None)
    assert "location" not in catalog.get("/namespaces/old").json()["properties"]
    assert new_table(catalog, "old") == f"{warehouse.location}/{Tabular.objects.get().uuid}"
    update = {"updates": {"location": f"{warehouse.location}/x"}}
    assert catalog.post("/namespaces/old/properties", update).refused(400, "LocationCannotBeUpdated")
    assert catalog.post("/namespaces/old/properties", {"updates": {"a": "b"}}).status == 200
    assert Namespace.objects.get().properties == {"a": "b"}
