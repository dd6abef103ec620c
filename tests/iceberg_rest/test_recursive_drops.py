"""Recursive drops of namespaces: all contents or nothing, and no other namespaces."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from catalog.models import IdempotencyRecord, LocationClaim, Namespace, Snapshot, Tabular, TabularMetadata
from catalog.services.namespaces import drop
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tasks.models import Task
from tasks.queue.leases import lease_task
from tenancy.authz.securables import add_securable
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tests.catalog_fixtures import SCHEMA
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

Files = Callable[[], list[str]]
MODELS = (Namespace, Tabular, TabularMetadata, Snapshot, LocationClaim, Task, Securable, IdempotencyRecord)


def state() -> list[list[dict[str, Any]]]:
    return [list(model.objects.order_by("pk").values()) for model in MODELS]


def other_kind(warehouse: Warehouse, namespace: Namespace, kind: str) -> Tabular:
    row = Tabular.objects.create(
        warehouse=warehouse, namespace=namespace, kind=kind, uuid=new_id(), name=kind, name_key=kind,
        location=f"{warehouse.location}/{kind}", metadata_location="",
    )  # fmt: skip
    add_securable(Securable.Type(kind), row.pk, parent=ObjectRef(Securable.Type.NAMESPACE, namespace.pk))
    return row


NAMES = ("a", "a%1Fb", "a%1Fb%1Fc", "a%1Fd", "ab", "z")
TREE, OTHERS = NAMES[:4], NAMES[4:]


@pytest.fixture
def tree(catalog: ApiClient, warehouse: Warehouse, storage_root: Any) -> ApiClient:
    """Create namespaces with a table each, one also with a view and a generic table, with files."""
    for path in NAMES:
        assert catalog.post("/namespaces", {"namespace": path.split("%1F")}).status == 200
        assert catalog.post(f"/namespaces/{path}/tables", {"name": "t", "schema": SCHEMA}).status == 200
    inner = Namespace.objects.get(path="a\x1fb")
    for kind in ("view", "generic-table"):
        other_kind(warehouse, inner, kind)
        (storage_root / "wh" / kind).mkdir()
        (storage_root / "wh" / kind / "x").write_text("x")
    return catalog


def others_are_untouched(catalog: ApiClient) -> bool:
    assert [tuple(levels) for levels in catalog.get("/namespaces").json()["namespaces"]] == [("ab",), ("z",)]
    for path in OTHERS:
        assert catalog.get(f"/namespaces/{path}/tables/t").status == 200
    assert Tabular.objects.count() == Namespace.objects.count() == 2
    assert Securable.objects.filter(type__in=["table", "view", "generic-table", "namespace"]).count() == 4
    return True


def test_everything_is_dropped_and_the_files_stay(tree: ApiClient, files: Files) -> None:
    written = files()
    assert tree.delete("/namespaces/A?recursive=true").status == 204
    assert others_are_untouched(tree)
    assert not Task.objects.live().exists()
    assert files() == written


def test_everything_is_purged_with_its_files(tree: ApiClient, files: Files, do_tasks: Callable[[], int]) -> None:
    kept = {row.location for row in Tabular.objects.filter(namespace__path__in=OTHERS)}
    dropped = {str(row.pk): row.location for row in Tabular.objects.exclude(namespace__path__in=OTHERS)}
    assert tree.delete("/namespaces/a?recursive=true&purge=true").status == 204
    assert others_are_untouched(tree)
    tasks = Task.objects.live()
    assert {str(task.entity_id): task.payload["tabular_location"] for task in tasks} == dropped
    held = LocationClaim.objects.values_list("task_id", "location")
    assert sorted(held) == sorted((task.pk, dropped[str(task.entity_id)]) for task in tasks)
    assert do_tasks() == len(dropped) == 6
    assert {f"file://{file}".rsplit("/metadata/", 1)[0].rsplit("/", 1)[-1] for file in files()} == {
        location.rsplit("/", 1)[-1] for location in kept
    }


def test_a_leaf_is_dropped_alone(tree: ApiClient) -> None:
    assert tree.delete("/namespaces/a%1Fb%1Fc?recursive=true&force=true").status == 204
    assert Namespace.objects.count() == 5
    assert Tabular.objects.count() == 7
    assert tree.get("/namespaces/a%1Fb/tables/t").status == 200


def test_purge_without_recursive_drops_empty_namespaces_only(tree: ApiClient) -> None:
    before = state()
    assert tree.delete("/namespaces/a?purge=true&force=true").refused(409, "NamespaceNotEmptyException")
    assert tree.delete("/namespaces/none?recursive=true").refused(404, "NoSuchNamespaceException")
    assert tree.delete("/namespaces/a%1Fnone?recursive=true").refused(404, "NoSuchNamespaceException")
    for flag in ("recursive", "purge", "force"):
        assert tree.delete(f"/namespaces/z?{flag}=perhaps").refused(400, "BadRequestException", flag)
    nowhere = ApiClient(f"/catalog/v1/{new_id()}")
    assert nowhere.delete("/namespaces/a?recursive=true").refused(404, "NoSuchWarehouseException")
    assert state() == before


def test_an_inactive_warehouse_is_not_found(tree: ApiClient) -> None:
    Warehouse.objects.update(status="inactive")
    before = state()
    assert tree.delete("/namespaces/a?recursive=true").refused(404, "NoSuchWarehouseException")
    assert state() == before


def test_a_soft_delete_warehouse_requires_force(
    tree: ApiClient, soft_delete: int, files: Files, do_tasks: Callable[[], int]
) -> None:
    assert tree.delete("/namespaces/a/tables/t?purgeRequested=true").status == 204
    assert tree.delete("/namespaces/a%1Fd/tables/t").status == 204
    assert tree.delete("/namespaces/z/tables/t").status == 204
    before = state()
    refused = tree.delete("/namespaces/a?recursive=true&purge=true")
    assert refused.refused(400, "NamespaceDeleteNotAllowed")
    assert state() == before
    written = files()
    assert tree.delete("/namespaces/a?recursive=true&force=true").status == 204
    expiration = Task.objects.live().get()
    assert expiration.queue == "soft_deletion"
    assert Tabular.objects.get(pk=expiration.entity_id).namespace.path == "z"
    assert Tabular.objects.count() == 2
    assert files() == written


def test_soft_deleted_tables_are_purged_too(tree: ApiClient, soft_delete: int, do_tasks: Callable[[], int]) -> None:
    assert tree.delete("/namespaces/a/tables/t").status == 204
    dropped = Tabular.objects.get(deleted_at__isnull=False)
    assert tree.delete("/namespaces/a?recursive=true&force=true&purge=true").status == 204
    assert others_are_untouched(tree)
    assert set(Task.objects.live().values_list("queue", flat=True)) == {"tabular_purge"}
    assert Task.objects.live().filter(entity_id=dropped.pk, payload__tabular_location=dropped.location).exists()
    assert do_tasks() == 6


PROTECTED: dict[str, Callable[[], QuerySet[Any]]] = {
    "NamespaceProtected": lambda: Namespace.objects.filter(path="a"),
    "ChildNamespaceProtected": lambda: Namespace.objects.filter(path="a\x1fb\x1fc"),
    "ChildTabularProtected": lambda: Tabular.objects.filter(kind="generic-table"),
}


@pytest.mark.parametrize("wire_type", PROTECTED)
def test_a_protected_object_prevents_the_drop(tree: ApiClient, wire_type: str) -> None:
    assert PROTECTED[wire_type]().update(protected=True) == 1
    before = state()
    assert tree.delete("/namespaces/a?recursive=true&purge=true").refused(409, wire_type)
    assert state() == before
    assert tree.delete("/namespaces/a?recursive=true&purge=true&force=true").status == 204
    assert others_are_untouched(tree)


def test_an_expiration_that_runs_is_in_the_way(tree: ApiClient, soft_delete: int) -> None:
    assert tree.delete("/namespaces/a%1Fb/tables/t").status == 204
    lease = lease_task(Task.objects.live().get().pk)
    assert lease is not None
    before = state()
    refused = tree.delete("/namespaces/a?recursive=true&force=true")
    assert refused.refused(409, "NamespaceHasRunningTabularExpirations")
    assert state() == before
    Task.objects.live().update(leased_until=now() - timedelta(seconds=1))  # the worker's lease expired
    assert tree.delete("/namespaces/a?recursive=true&force=true").status == 204
    assert others_are_untouched(tree)
    assert not Task.objects.live().exists()


def test_it_is_done_once(tree: ApiClient) -> None:
    key = str(new_id())
    target = "/namespaces/a?recursive=true&purge=true"
    assert tree.delete(target, idempotency_key=key).status == 204
    assert tree.post("/namespaces", {"namespace": ["a"]}).status == 200
    before = state()
    assert tree.delete(target, idempotency_key=key).status == 204
    assert state() == before
    assert tree.delete("/namespaces/z?recursive=true", idempotency_key=key).refused(400, "IdempotencyKeyReused")
    assert state() == before


def test_a_plain_drop_respects_protection_unless_forced(catalog: ApiClient, namespace: str) -> None:
    Namespace.objects.update(protected=True)
    assert catalog.delete("/namespaces/ns").refused(409, "NamespaceProtected")
    assert Namespace.objects.exists()
    assert catalog.delete("/namespaces/ns?force=true").status == 204
    assert not Namespace.objects.exists()


def test_tabulars_are_locked_by_id_over_all_namespaces(tree: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions lock in the same order, so the two cannot deadlock."""
    monkeypatch.setattr(drop, "BATCH_SIZE", 1)
    homes = list(Namespace.objects.order_by("-id"))
    with transaction.atomic():
        locked = [tabular.pk for tabular in drop._lock_tabulars(homes)]
    assert locked == sorted(Tabular.objects.values_list("pk", flat=True))
    assert len(locked) > len(NAMES)


def test_statements_are_bounded(catalog: ApiClient, warehouse: Warehouse, namespace: str) -> None:
    counts = []
    for number, tables in enumerate((100, 2_000)):
        assert catalog.post("/namespaces", {"namespace": ["ns", f"n{number}"]}).status == 200
        inner = Namespace.objects.get(path=f"ns\x1fn{number}")
        rows = Tabular.objects.bulk_create(
            [
                Tabular(
                    warehouse=warehouse, namespace=inner, kind="table", uuid=new_id(), name=f"t{each}",
                    name_key=f"t{each}", location=f"{warehouse.location}/{number}/{each}", metadata_location="",
                )
                for each in range(tables)
            ]
        )  # fmt: skip
        TabularMetadata.objects.bulk_create([TabularMetadata(tabular=row, document=b"{}") for row in rows])
        above = Securable.objects.get(type="namespace", object_id=str(inner.pk))
        Securable.objects.bulk_create(
            [
                Securable(
                    id=f"table:{row.pk}", type="table", object_id=str(row.pk), parent=above,
                    path=f"{above.path}table:{row.pk}/",
                )
                for row in rows
            ]
        )  # fmt: skip
        with CaptureQueriesContext(connection) as seen:
            assert catalog.delete(f"/namespaces/ns%1Fn{number}?recursive=true&purge=true").status == 204
        counts.append(len(seen))
        assert Task.objects.live().count() == LocationClaim.objects.count() == tables
        Task.objects.all().delete()
        LocationClaim.objects.all().delete()
    assert not Tabular.objects.exists()
    assert Securable.objects.filter(type="table").count() == 0
    assert counts[0] < 40
    assert counts[1] < 160, "fewer than one per table"
