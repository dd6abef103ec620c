"""Undrop: dropped tabulars are restored unchanged, all or none."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalog.models import Namespace, Snapshot, Tabular
from catalog.services.tables.drop import expire_tabular
from catalog.services.tables.named_targets import MAX_TARGETS
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tasks.models import Task
from tasks.queue.leases import LeaseLost, lease_task
from tenancy.actor import INTERNAL
from tenancy.authz.actions import Can
from tenancy.selectors.projects import get_project
from tests.catalog_fixtures import SCHEMA, snapshot
from tests.harness.tree_invariants import check_trees
from tests.harness.wsgi_client import ApiClient, Response
from tests.management.warehouse_request_fixtures import NO_ONE, choose, forbid, refuse, reported

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

OTHER = "0198e0f4-3f6e-7c31-8c7d-000000000001"
MISSING = {
    "table": "NoSuchTableException",
    "view": "NoSuchViewException",
    "generic-table": "NoSuchGenericTableException",
}
CreateTable = Callable[..., dict[str, Any]]


@pytest.fixture
def api(warehouse: Warehouse, soft_delete: int) -> ApiClient:
    return ApiClient(f"/management/v1/warehouse/{warehouse.pk}")


@pytest.fixture
def generic(catalog: ApiClient) -> ApiClient:
    return ApiClient(catalog.base.replace("/catalog/", "/lakekeeper/"))


@pytest.fixture
def drop(catalog: ApiClient) -> Callable[..., None]:
    def dropped(*names: str, purge: bool = False) -> None:
        for name in names:
            response = catalog.delete(f"/namespaces/ns/tables/{name}?purgeRequested={str(purge).lower()}")
            assert response.status == 204, response.body

    return dropped


def undrop(api: ApiClient, *ids: str, kind: str = "table") -> Response:
    return api.post("/deleted-tabulars/undrop", {"targets": [{"type": kind, "id": each} for each in ids]})


def uuid_of(created: dict[str, Any]) -> str:
    return str(created["metadata"]["table-uuid"])


def test_a_table_is_restored_unchanged(
    api: ApiClient, catalog: ApiClient, create_table: CreateTable, drop: Any, files: Callable[[], list[str]],
    do_tasks: Callable[[], int],
) -> None:  # fmt: skip
    created = create_table(properties={"a": "b"})
    at = created["metadata"]["last-updated-ms"]
    main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}
    body = {"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": snapshot(1, at=at)}, main]}
    assert catalog.post("/namespaces/ns/tables/t", body).status == 200
    uuid = uuid_of(created)
    assert api.post(f"/table/{uuid}/protection", {"protected": True}).status == 200
    loaded = catalog.get("/namespaces/ns/tables/t")
    row, written = Tabular.objects.values().get(), files()
    assert catalog.delete("/namespaces/ns/tables/t").refused(409, "ProtectedTabularDeletionWithoutForce")
    Tabular.objects.update(protected=False)
    drop("t", purge=True)
    Tabular.objects.update(protected=True)
    assert catalog.get("/namespaces/ns/tables/t").refused(404, "NoSuchTableException")

    response = undrop(api, uuid)
    assert (response.status, response.body) == (204, b"")
    again = catalog.get("/namespaces/ns/tables/t")
    assert again.body == loaded.body
    assert again.headers["ETag"] == loaded.headers["ETag"]
    etag = {"if-none-match": loaded.headers["ETag"]}
    assert catalog.get("/namespaces/ns/tables/t", **etag).status == 304
    assert Tabular.objects.values().get() == row
    assert Snapshot.objects.get().snapshot_id == 1
    assert api.get(f"/table/{uuid}/protection").json()["protected"] is True
    assert files() == written
    assert not Task.objects.live().exists()
    assert do_tasks() == 0
    check_trees()
    # Commits continue.
    updates = [{"action": "set-properties", "updates": {"c": "d"}}]
    assert catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": updates}).status == 200


def test_all_kinds_at_once_and_in_any_namespace(
    api: ApiClient, catalog: ApiClient, generic: ApiClient, create_table: CreateTable, drop: Any
) -> None:
    table = uuid_of(create_table())
    assert generic.post("/namespaces/ns/generic-tables", {"name": "g", "format": "lance"}).status == 200
    version = {
        "version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {}, "default-namespace": ["ns"],
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    }  # fmt: skip
    view = {"name": "v", "schema": SCHEMA, "view-version": version, "properties": {}}
    assert catalog.post("/namespaces", {"namespace": ["ns", "in"]}).status == 200
    created = catalog.post("/namespaces/ns%1Fin/views", view).json()
    described = generic.get("/namespaces/ns/generic-tables/g").json()
    drop("t")
    assert catalog.delete("/namespaces/ns%1Fin/views/v").status == 204
    assert generic.delete("/namespaces/ns/generic-tables/g").status == 204
    targets = [{"type": each["typ"], "id": each["id"]} for each in api.get("/deleted-tabulars").json()["tabulars"]]
    assert [target["type"] for target in targets] == ["table", "generic-table", "view"]
    assert targets[0]["id"] == table
    response = api.post("/deleted-tabulars/undrop", {"targets": [*targets, targets[0]]})
    assert response.status == 204
    assert catalog.get("/namespaces/ns%1Fin/views/v").json() == created
    assert generic.get("/namespaces/ns/generic-tables/g").json() == described
    assert catalog.get("/namespaces/ns/tables/t").status == 200
    assert not Task.objects.live().exists()


def test_it_may_be_repeated(
    api: ApiClient, create_table: CreateTable, drop: Any, everything: Callable[[], Any]
) -> None:
    uuid = uuid_of(create_table())
    before = everything()
    assert undrop(api, uuid).status == 204, "it is not dropped"
    assert everything() == before
    drop("t")
    assert undrop(api, uuid).status == 204
    restored = everything()
    assert {table for table in before.rows if restored.rows[table] != before.rows[table]} == {
        "tasks_task", "tenancy_objectsequence", "tenancy_outboxevent",
    }  # fmt: skip
    assert undrop(api, uuid).status == 204
    assert undrop(api).status == 204
    assert everything() == restored


def test_dropped_again_it_has_all_its_time_again(
    api: ApiClient, create_table: CreateTable, drop: Any, soft_delete: int
) -> None:
    uuid = uuid_of(create_table())
    drop("t", purge=True)
    undrop(api, uuid)
    before = now()
    drop("t")
    task = Task.objects.live().get()
    assert task.scheduled_for >= before + timedelta(seconds=soft_delete)
    assert task.payload == {"deletion_kind": "default"}


def test_a_name_in_use_prevents_the_undrop_of_all(
    api: ApiClient, catalog: ApiClient, create_table: CreateTable, drop: Any, everything: Callable[[], Any]
) -> None:
    first, other = uuid_of(create_table()), uuid_of(create_table("other"))
    drop("t", "other")
    second = uuid_of(create_table("T"))
    before = everything()
    for ids in ((first,), (other, first), (first, other)):
        assert undrop(api, *ids).refused(409, "AlreadyExistsException", "Cannot restore ns.t: another table")
    assert everything() == before
    drop("T")
    before = everything()
    assert undrop(api, first, second).refused(409, "AlreadyExistsException", "Cannot restore ns.")
    assert everything() == before
    assert undrop(api, second, other).status == 204
    assert catalog.get("/namespaces/ns/tables/t").json()["metadata"]["table-uuid"] == second
    assert undrop(api, first).refused(409, "AlreadyExistsException")
    names = [{"namespace": ["ns"], "name": name} for name in ("T", "away")]
    assert catalog.post("/tables/rename", {"source": names[0], "destination": names[1]}).status == 204
    assert undrop(api, first).status == 204


def test_a_name_that_another_kind_has(
    api: ApiClient, generic: ApiClient, create_table: CreateTable, drop: Any, everything: Callable[[], Any]
) -> None:
    uuid = uuid_of(create_table())
    drop("t")
    assert generic.post("/namespaces/ns/generic-tables", {"name": "t", "format": "lance"}).status == 200
    before = everything()
    assert undrop(api, uuid).refused(409, "AlreadyExistsException", "another generic table")
    assert everything() == before


def test_an_unknown_object_prevents_the_undrop_of_all(
    api: ApiClient, create_table: CreateTable, drop: Any, storage_root: Any, everything: Callable[[], Any]
) -> None:
    uuid = uuid_of(create_table())
    drop("t")
    other = create_warehouse(
        actor=INTERNAL,
        project=get_project(None),
        name="other",
        storage_profile={"type": "local", "path": str(storage_root / "other")},
        delete_profile={"type": "soft", "expiration-seconds": 60},
    )
    elsewhere = ApiClient(f"/catalog/v1/{other.pk}")
    assert elsewhere.post("/namespaces", {"namespace": ["ns"]}).status == 200
    far = uuid_of(elsewhere.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}).json())
    assert elsewhere.delete("/namespaces/ns/tables/t").status == 204
    namespace_id = str(Namespace.objects.first().pk)  # type: ignore[union-attr]
    before = everything()
    for kind, wire_type in MISSING.items():
        for missing in (NO_ONE, far, namespace_id, str(other.pk)):
            targets = [{"type": "table", "id": uuid}, {"type": kind, "id": missing}]
            refused = api.post("/deleted-tabulars/undrop", {"targets": targets})
            assert refused.refused(404, wire_type, missing)
        if kind != "table":
            assert undrop(api, uuid, kind=kind).refused(404, wire_type, uuid)
    for warehouse_id in (NO_ONE, "wh"):
        stranger = ApiClient(f"/management/v1/warehouse/{warehouse_id}")
        assert undrop(stranger, uuid).refused(404, "NoSuchWarehouseException")
    over = ApiClient(f"/management/v1/warehouse/{other.pk}")
    assert undrop(over, uuid).refused(404, "NoSuchTableException")
    assert everything() == before


TARGET = {"type": "table", "id": NO_ONE}


@pytest.mark.parametrize(
    "body",
    [
        None, [], "x", {}, {"targets": None}, {"targets": {}}, {"targets": "x"}, {"targets": [None]},
        {"targets": [[]]}, {"targets": [NO_ONE]}, {"targets": [{"id": NO_ONE}]}, {"targets": [{"type": "table"}]},
        {"targets": [TARGET | {"type": "Table"}]}, {"targets": [TARGET | {"type": "namespace"}]},
        {"targets": [TARGET | {"type": None}]}, {"targets": [TARGET | {"type": ["table"]}]},
        {"targets": [TARGET | {"id": "t"}]}, {"targets": [TARGET | {"id": 1}]}, {"targets": [TARGET | {"id": None}]},
        {"targets": [TARGET | {"id": NO_ONE.replace("-", "")}]}, {"targets": [TARGET | {"id": "x" * 10_000}]},
        {"targets": [TARGET | {"id": "\x00"}]}, {"targets": [TARGET] * (MAX_TARGETS + 1)},
    ],
)  # fmt: skip
def test_bodies_that_are_refused(
    api: ApiClient, create_table: CreateTable, drop: Any, everything: Callable[[], Any], body: Any
) -> None:
    create_table()
    drop("t")
    before = everything()
    assert api.post("/deleted-tabulars/undrop", body).refused(400, "BadRequestException")
    assert everything() == before


def test_expired_tables_are_not_restored(
    api: ApiClient, create_table: CreateTable, drop: Any, do_tasks: Callable[[], int], everything: Callable[[], Any]
) -> None:
    uuid = uuid_of(create_table())
    drop("t")
    assert do_tasks() == 1
    before = everything()
    assert undrop(api, uuid).refused(404, "NoSuchTableException", uuid)
    assert everything() == before


def test_an_expiration_that_runs_is_in_the_way(
    api: ApiClient, catalog: ApiClient, create_table: CreateTable, drop: Any, everything: Callable[[], Any]
) -> None:
    uuid, other = uuid_of(create_table()), uuid_of(create_table("other"))
    drop("t", "other")
    lease = lease_task(Task.objects.live().get(entity_id=Tabular.objects.get(uuid=uuid).pk).pk)
    assert lease is not None
    before = everything()
    assert undrop(api, other, uuid).refused(409, "TabularHasRunningExpiration")
    assert everything() == before
    expire_tabular(actor=INTERNAL, lease=lease)
    assert undrop(api, uuid).refused(404, "NoSuchTableException")
    assert undrop(api, other).status == 204


def test_an_expiration_whose_worker_is_dead_is_not(
    api: ApiClient, catalog: ApiClient, create_table: CreateTable, drop: Any, everything: Callable[[], Any]
) -> None:
    uuid = uuid_of(create_table())
    drop("t")
    lease = lease_task(Task.objects.live().get().pk)
    assert lease is not None
    Task.objects.live().update(leased_until=now() - timedelta(seconds=1))
    assert undrop(api, uuid).status == 204
    before = everything()
    with pytest.raises(LeaseLost):  # the worker was only slow
        expire_tabular(actor=INTERNAL, lease=lease)
    assert everything() == before
    assert catalog.get("/namespaces/ns/tables/t").status == 200


def test_a_namespace_with_soft_deleted_tables_cannot_be_dropped(
    api: ApiClient, catalog: ApiClient, create_table: CreateTable, drop: Any
) -> None:
    uuid = uuid_of(create_table())
    drop("t")
    assert catalog.delete("/namespaces/ns").refused(409, "NamespaceNotEmptyException")
    assert catalog.delete("/namespaces/ns?force=true").refused(409, "NamespaceNotEmptyException")
    assert undrop(api, uuid).status == 204
    drop("t")
    assert catalog.delete("/namespaces/ns?recursive=true&force=true").status == 204
    assert undrop(api, uuid).refused(404, "NoSuchTableException")


def test_whatever_the_warehouse_has_become(
    api: ApiClient, catalog: ApiClient, create_table: CreateTable, drop: Any
) -> None:
    uuid = uuid_of(create_table())
    drop("t")
    Warehouse.objects.update(status="inactive", delete_profile={"type": "hard"})
    assert undrop(api, uuid).status == 204
    Warehouse.objects.update(status="active")
    assert catalog.get("/namespaces/ns/tables/t").status == 200


def test_permissions_are_checked(
    api: ApiClient, create_table: CreateTable, drop: Any, everything: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [uuid_of(create_table(name)) for name in ("t", "u")]
    drop("t", "u")
    keys = sorted(str(pk) for pk in Tabular.objects.values_list("pk", flat=True))
    warehouse_id = api.base.rsplit("/", 1)[1]
    before = everything()
    forbid(monkeypatch)
    assert undrop(api, *ids).refused(403, "TableActionForbidden", f"may not undrop on table {ids[0]}")
    assert everything() == before
    asked = refuse(monkeypatch, *Can).asked_of
    assert undrop(api, *ids).status == 204
    assert asked == [(Can.USE, f"warehouse:{warehouse_id}"), *((Can.UNDROP, f"table:{key}") for key in keys)]


def test_hidden_objects_are_not_found(
    api: ApiClient, create_table: CreateTable, drop: Any, everything: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any position among other objects."""
    ids = [uuid_of(create_table(name)) for name in ("t", "u")]
    drop("t", "u")
    before = everything()
    hidden = str(Tabular.objects.get(uuid=ids[1]).pk)
    choose(monkeypatch, {hidden})
    for named in ([ids[1]], [ids[0], ids[1]], [ids[1], ids[0]], [ids[1], NO_ONE], [NO_ONE, ids[1]]):
        without = [OTHER if each == ids[1] else each for each in named]
        first = next(each for each in named if each != ids[0])
        response = undrop(api, *named)
        assert response.refused(404, "NoSuchTableException")
        missing = undrop(api, *without)
        assert reported(response, first) == reported(missing, OTHER if first == ids[1] else first)
    warehouse_id = api.base.rsplit("/", 1)[1]
    choose(monkeypatch, {warehouse_id})
    unseen, nothing = undrop(api, *ids), undrop(ApiClient(f"/management/v1/warehouse/{NO_ONE}"), *ids)
    assert unseen.refused(404, "NoSuchWarehouseException")
    assert reported(unseen, warehouse_id) == reported(nothing, NO_ONE)
    assert everything() == before


def test_as_many_as_are_allowed_at_once(
    api: ApiClient, warehouse: Warehouse, namespace: str, everything: Callable[[], Any]
) -> None:
    space, counts = Namespace.objects.get(), []
    for count in (600, MAX_TARGETS):
        rows = Tabular.objects.bulk_create(
            Tabular(
                warehouse=warehouse, namespace=space, kind="table", uuid=new_id(), name=f"t{number}",
                name_key=f"t{number}", location=f"{space.location}/{number}", deleted_at=now(),
            )
            for number in range(count)
        )  # fmt: skip
        Task.objects.bulk_create(
            Task(queue="soft_deletion", warehouse_id=warehouse.pk, entity_id=row.pk) for row in rows
        )
        with CaptureQueriesContext(connection) as seen:
            assert undrop(api, *(str(row.uuid) for row in rows)).status == 204
        counts.append(len(seen))
        assert not Task.objects.live().exists()
        assert Tabular.objects.filter(deleted_at=None).count() == count
        Tabular.objects.all().delete()
    assert counts[0] == counts[1] < 25
