"""List soft-deleted tables, views and generic tables."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import Namespace, Tabular
from catalog.selectors import visible_pages
from icekeeper.kernel.clock import now
from icekeeper.kernel.http.paging import write_page_token
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tasks.models import Task
from tenancy.actor import INTERNAL
from tenancy.authz.actions import Can
from tenancy.selectors.projects import get_project
from tests.catalog_fixtures import SCHEMA
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import NO_ONE, choose, reported

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]


@pytest.fixture
def api(warehouse: Warehouse, soft_delete: int) -> ApiClient:
    return ApiClient(f"/management/v1/warehouse/{warehouse.pk}")


@pytest.fixture
def generic(catalog: ApiClient) -> ApiClient:
    return ApiClient(catalog.base.replace("/catalog/", "/lakekeeper/"))


def names(response: Any) -> list[str]:
    assert response.status == 200, response.body
    return [each["name"] for each in response.json()["tabulars"]]


def test_nothing_was_dropped(api: ApiClient, create_table: CreateTable) -> None:
    create_table()
    assert api.get("/deleted-tabulars").json() == {"tabulars": []}


def test_dropped_objects_are_listed_with_their_expiration(
    api: ApiClient,
    catalog: ApiClient,
    generic: ApiClient,
    create_table: CreateTable,
    warehouse: Warehouse,
    soft_delete: int,
) -> None:
    created = create_table("T", properties={"a": "b"})
    create_table("kept")
    assert generic.post("/namespaces/ns/generic-tables", {"name": "g", "format": "lance"}).status == 200
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    assert generic.delete("/namespaces/ns/generic-tables/g").status == 204
    table, other = api.get("/deleted-tabulars").json()["tabulars"]
    row = Tabular.objects.get(name="T")
    assert row.deleted_at is not None
    times = {key: datetime.fromisoformat(table.pop(key)) for key in ("created-at", "deleted-at", "expiration-date")}
    assert table == {
        "id": created["metadata"]["table-uuid"],
        "name": "T",
        "namespace": ["ns"],
        "typ": "table",
        "warehouse-id": str(warehouse.pk),
    }
    assert times == {
        "created-at": row.created_at,
        "deleted-at": row.deleted_at,
        "expiration-date": row.deleted_at + timedelta(seconds=soft_delete),
    }
    assert (other["name"], other["typ"]) == ("g", "generic-table")
    # The date is that of the queued task, not of the current profile.
    Warehouse.objects.update(delete_profile={"type": "soft", "expiration-seconds": 5})
    Task.objects.live().filter(entity_id=row.pk).update(scheduled_for=now() + timedelta(days=3))
    later = api.get("/deleted-tabulars").json()["tabulars"][0]["expiration-date"]
    assert datetime.fromisoformat(later) == Task.objects.live().get(entity_id=row.pk).scheduled_for


def test_permanently_deleted_objects_are_not_reported(
    api: ApiClient, catalog: ApiClient, create_table: CreateTable, do_tasks: Callable[[], int]
) -> None:
    create_table("forced")
    create_table("expired")
    assert catalog.delete("/namespaces/ns/tables/forced?force=true").status == 204
    assert catalog.delete("/namespaces/ns/tables/expired").status == 204
    assert names(api.get("/deleted-tabulars")) == ["expired"]
    assert do_tasks() == 1
    assert names(api.get("/deleted-tabulars")) == []


def test_one_name_dropped_again_and_again(api: ApiClient, catalog: ApiClient, create_table: CreateTable) -> None:
    ids = []
    for _ in range(3):
        ids.append(create_table()["metadata"]["table-uuid"])
        assert catalog.delete("/namespaces/ns/tables/t").status == 204
    assert [each["id"] for each in api.get("/deleted-tabulars").json()["tabulars"]] == ids


def fill(warehouse: Warehouse, namespace: Namespace, count: int) -> None:
    Tabular.objects.bulk_create(
        Tabular(
            warehouse=warehouse, namespace=namespace, kind="table", uuid=new_id(), name=f"t{number:03}",
            name_key=f"t{number:03}", location=f"{namespace.location}/{number}",
            deleted_at=None if number % 3 == 2 else now(),
        )
        for number in range(count)
    )  # fmt: skip


def all_pages(api: ApiClient, query: str) -> list[list[str]]:
    pages, token = [], ""
    while True:
        response = api.get(f"/deleted-tabulars?{query}&pageToken={token}")
        pages.append(names(response))
        token = response.json().get("next-page-token")
        if not token:
            return pages


def test_pages(api: ApiClient, warehouse: Warehouse, namespace: str) -> None:
    fill(warehouse, Namespace.objects.get(), 30)
    expected = [f"t{number:03}" for number in range(30) if number % 3 != 2]
    assert [len(page) for page in all_pages(api, "pageSize=7")] == [7, 7, 6]
    assert [name for page in all_pages(api, "pageSize=7") for name in page] == expected
    assert [len(page) for page in all_pages(api, "pageSize=10")] == [10, 10]
    assert all_pages(api, "") == [expected]
    # Drops and restores in between do not shift the pages.
    first = api.get("/deleted-tabulars?pageSize=4")
    Tabular.objects.filter(name__in=["t000", "t007"]).update(deleted_at=None)
    rest = api.get(f"/deleted-tabulars?pageToken={first.json()['next-page-token']}")
    assert names(rest) == [name for name in expected if name > "t004" and name != "t007"]


def test_only_of_one_namespace(api: ApiClient, catalog: ApiClient, create_table: CreateTable) -> None:
    create_table("outer")
    for levels in (["ns", "in"], ["ns2"]):
        assert catalog.post("/namespaces", {"namespace": levels}).status == 200
        path = "%1F".join(levels)
        assert catalog.post(f"/namespaces/{path}/tables", {"name": levels[-1], "schema": SCHEMA}).status == 200
        assert catalog.delete(f"/namespaces/{path}/tables/{levels[-1]}").status == 204
    assert catalog.delete("/namespaces/ns/tables/outer").status == 204
    by_path = {row.path: str(row.pk) for row in Namespace.objects.all()}
    found = {path: names(api.get(f"/deleted-tabulars?namespaceId={key}")) for path, key in by_path.items()}
    assert found == {"ns": ["outer"], "ns\x1fin": ["in"], "ns2": ["ns2"]}
    assert names(api.get(f"/deleted-tabulars?namespaceId={by_path['ns'].upper()}&pageToken=&pageSize=1")) == ["outer"]


@pytest.mark.parametrize(
    ("query", "status", "wire_type"),
    [
        (f"namespaceId={NO_ONE}", 404, "NoSuchNamespaceException"),
        ("namespaceId=ns", 400, "BadRequestException"),
        ("namespaceId=", 400, "BadRequestException"),
        ("namespaceId=%00", 400, "BadRequestException"),
        ("pageToken=x", 400, "InvalidPaginationToken"),
        (f"pageToken={write_page_token('search-tabular', NO_ONE)}", 400, "InvalidPaginationToken"),
        (f"pageToken={write_page_token('deleted-tabulars', 'x')}", 400, "InvalidPaginationToken"),
        ("pageSize=0", 400, "BadRequestException"),
        ("pageSize=-1", 400, "BadRequestException"),
        ("pageSize=many", 400, "BadRequestException"),
    ],
)
def test_invalid_queries(api: ApiClient, catalog: ApiClient, query: str, status: int, wire_type: str) -> None:
    assert api.get(f"/deleted-tabulars?{query}").refused(status, wire_type)


def test_nothing_is_reported_of_other_warehouses(
    api: ApiClient, catalog: ApiClient, create_table: CreateTable, storage_root: Any
) -> None:
    create_table()
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    other = create_warehouse(
        actor=INTERNAL,
        project=get_project(None),
        name="other",
        storage_profile={"type": "local", "path": str(storage_root / "other")},
    )
    elsewhere = ApiClient(f"/management/v1/warehouse/{other.pk}")
    assert names(elsewhere.get("/deleted-tabulars")) == []
    here = Namespace.objects.get().pk
    assert elsewhere.get(f"/deleted-tabulars?namespaceId={here}").refused(404, "NoSuchNamespaceException")
    for warehouse_id in (NO_ONE, "wh"):
        stranger = ApiClient(f"/management/v1/warehouse/{warehouse_id}")
        assert stranger.get("/deleted-tabulars").refused(404, "NoSuchWarehouseException")


def test_an_inactive_warehouse_shows_too(api: ApiClient, catalog: ApiClient, create_table: CreateTable) -> None:
    create_table()
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    Warehouse.objects.update(status="inactive")
    assert names(api.get("/deleted-tabulars")) == ["t"]


def test_each_caller_sees_permitted_tabulars_only(
    api: ApiClient, warehouse: Warehouse, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(warehouse, Namespace.objects.get(), 30)
    hidden = {str(row.pk) for row in Tabular.objects.all() if int(row.name[1:]) % 2}
    choosing = choose(monkeypatch, hidden)
    monkeypatch.setattr(visible_pages, "BATCH_SIZE", 8)
    expected = [f"t{number:03}" for number in range(0, 30, 2) if number % 3 != 2]
    assert [len(page) for page in all_pages(api, "pageSize=4")] == [4, 4, 2], "every page except the last is full"
    assert [name for page in all_pages(api, "pageSize=4") for name in page] == expected
    assert max(choosing.batches) == 8, "checked in batches"
    choosing.refused[:] = [Can.LIST_DELETED_TABULARS]
    assert api.get("/deleted-tabulars").refused(403, "WarehouseActionForbidden", "list_deleted_tabulars")
    choosing.refused[:] = [Can.USE]
    unseen, missing = (ApiClient(f"/management/v1/warehouse/{at}") for at in (warehouse.pk, NO_ONE))
    assert unseen.get("/deleted-tabulars").refused(404, "NoSuchWarehouseException")
    assert reported(unseen.get("/deleted-tabulars"), warehouse.pk) == reported(missing.get("/deleted-tabulars"), NO_ONE)


def test_statements_do_not_grow_with_the_page(api: ApiClient, warehouse: Warehouse, namespace: str) -> None:
    counts = []
    for count in (3, 300):
        fill(warehouse, Namespace.objects.get(), count)
        with CaptureQueriesContext(connection) as seen:
            assert len(names(api.get("/deleted-tabulars"))) == count * 2 / 3
        counts.append(len(seen))
        Tabular.objects.all().delete()
    assert counts[0] == counts[1] <= 3


def test_tabulars_that_are_not_dropped_are_not_read(warehouse: Warehouse, namespace: str) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("the PostgreSQL run has this: the planner of SQLite does not count")
    space = Namespace.objects.get()
    fill(warehouse, space, 3_000)
    Tabular.objects.filter(name__gt="t020").update(deleted_at=None)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    dropped = Tabular.objects.filter(deleted_at__isnull=False, pk__gt=NO_ONE).order_by("pk")
    assert "tabular_dropped " in dropped.filter(warehouse=warehouse)[:10].explain()
    within = dropped.filter(warehouse=warehouse, namespace=space)[:10].explain()
    assert "tabular_dropped_in " in within or "tabular_dropped " in within
