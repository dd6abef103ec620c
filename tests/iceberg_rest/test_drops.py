"""Drops: soft deletion, expiration, and the purge that reserves the locations until the files are deleted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from catalog.models import LocationClaim, Namespace, Snapshot, Tabular, TabularMetadata
from catalog.selectors.tables.targets import find_target
from catalog.services.locations.purge import purge
from catalog.services.tables import drop
from catalog.services.tables.drop import expire_tabular
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from storage.models import Warehouse
from tasks.models import Task
from tasks.queue.leases import Lease, LeaseLost, lease_task
from tenancy.actor import INTERNAL
from tenancy.authz.securables import add_securable
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tests.catalog_fixtures import SCAN_REPORT, SCHEMA
from tests.harness.wsgi_client import ApiClient
from tests.workers.lease_fixtures import lease_due_task

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
Files = Callable[[], list[str]]
T = "/namespaces/ns/tables/t"
SOFT, PURGE = Task.Queue.SOFT_DELETION, Task.Queue.TABULAR_PURGE


def folder_of(created: dict[str, Any]) -> Path:
    return Path(created["metadata"]["location"].removeprefix("file://"))


def state() -> list[list[dict[str, Any]]]:
    """Return every row that a drop may change."""
    models = (Namespace, Tabular, TabularMetadata, Snapshot, LocationClaim, Task, Securable)
    return [list(model.objects.order_by("pk").values()) for model in models]


def leased(task: Task | None = None) -> Lease:
    lease = lease_task((task or Task.objects.live().get()).pk)
    assert lease is not None
    return lease


# --- soft deletion ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("query", "kind"), [("", "default"), ("?purgeRequested=true", "purge")])
def test_a_soft_drop_hides_the_table_and_keeps_everything(
    catalog: ApiClient, create_table: CreateTable, soft_delete: int, files: Files, query: str, kind: str
) -> None:
    create_table()
    written, before = files(), now()
    assert catalog.delete(T + query).status == 204
    row = Tabular.objects.get()
    assert row.deleted_at is not None
    assert before <= row.deleted_at <= now()
    task = Task.objects.live().get()
    assert (task.queue, task.entity_id, task.payload) == ("soft_deletion", row.pk, {"deletion_kind": kind})
    assert task.scheduled_for == row.deleted_at + timedelta(seconds=soft_delete)
    assert Securable.objects.filter(type="table", object_id=str(row.pk)).exists()
    assert TabularMetadata.objects.filter(tabular=row).exists()
    assert files() == written
    assert lease_due_task(list(Task.Queue.values)) is None, "not yet"


def test_a_soft_dropped_table_is_not_found(catalog: ApiClient, create_table: CreateTable, soft_delete: int) -> None:
    create_table()
    assert catalog.delete(T).status == 204
    before = state()
    here = {"namespace": ["ns"], "name": "t"}
    change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    assert catalog.get("/namespaces/ns/tables").json() == {"identifiers": []}
    assert catalog.head(T).status == 404
    for response in (
        catalog.get(T),
        catalog.post(T, change),
        catalog.post("/transactions/commit", {"table-changes": [{"identifier": here, **change}]}),
        catalog.delete(T),
        catalog.delete(f"{T}?force=true&purgeRequested=true"),
        catalog.post("/tables/rename", {"source": here, "destination": here | {"name": "u"}}),
        catalog.post("/namespaces/ns/tables/t/unregister"),
        catalog.post(f"{T}/metrics", SCAN_REPORT),
    ):
        assert response.refused(404, "NoSuchTableException")
    assert state() == before


def test_the_name_is_free_and_the_location_is_not(
    catalog: ApiClient, create_table: CreateTable, soft_delete: int, warehouse: Warehouse
) -> None:
    dropped = create_table(location=f"{warehouse.location}/deep/t")
    assert catalog.delete(T).status == 204
    before = state()
    for path in ("deep", "deep/t", "deep/t/inner"):
        body = {"name": "x", "schema": SCHEMA, "location": f"{warehouse.location}/{path}"}
        for more in ({}, {"stage-create": True}):
            assert catalog.post("/namespaces/ns/tables", body | more).refused(409, "LocationAlreadyTaken")
    body = {"name": "x", "metadata-location": dropped["metadata-location"]}
    assert catalog.post("/namespaces/ns/register", body).refused(409, "LocationAlreadyTaken")
    assert state() == before
    again = create_table()
    assert again["metadata"]["table-uuid"] != dropped["metadata"]["table-uuid"]
    assert catalog.get(T).json() == again
    assert catalog.delete(T).status == 204
    assert Tabular.objects.filter(name="t").count() == Task.objects.live().count() == 2


def test_a_namespace_with_restorable_tables_is_not_dropped(
    catalog: ApiClient, create_table: CreateTable, soft_delete: int
) -> None:
    create_table()
    assert catalog.delete(T).status == 204
    before = state()
    assert catalog.delete("/namespaces/ns").refused(409, "NamespaceNotEmptyException")
    assert catalog.delete("/namespaces/ns?force=true").refused(409, "NamespaceNotEmptyException")
    assert state() == before


def test_force_drops_for_good(catalog: ApiClient, create_table: CreateTable, soft_delete: int) -> None:
    create_table()
    Tabular.objects.update(protected=True)
    before = state()
    assert catalog.delete(T).refused(409, "ProtectedTabularDeletionWithoutForce")
    assert state() == before
    assert catalog.delete(f"{T}?force=true").status == 204
    assert not Tabular.objects.exists()
    assert not Task.objects.live().exists()


def test_unregister_is_for_good(catalog: ApiClient, create_table: CreateTable, soft_delete: int, files: Files) -> None:
    create_table()
    written = files()
    assert catalog.post(f"{T}/unregister").status == 200
    assert not Tabular.objects.exists()
    assert not Task.objects.live().exists()
    assert files() == written


def test_the_rules_count_as_they_are_when_it_is_done(
    catalog: ApiClient, create_table: CreateTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_table()
    find = find_target

    def change_after_the_look(**arguments: Any) -> Any:
        found = find(**arguments)
        Warehouse.objects.update(delete_profile={"type": "soft", "expiration-seconds": 60})
        return found

    monkeypatch.setattr(drop, "find_target", change_after_the_look)
    assert catalog.delete(T).status == 204
    assert Tabular.objects.get().deleted_at is not None


def test_a_soft_drop_is_done_once(catalog: ApiClient, create_table: CreateTable, soft_delete: int) -> None:
    create_table()
    key = str(new_id())
    assert catalog.delete(T, idempotency_key=key).status == 204
    create_table()
    before = state()
    assert catalog.delete(T, idempotency_key=key).status == 204
    assert state() == before


# --- expiration ---------------------------------------------------------------------------------------------------


def test_expired_tables_are_deleted_and_their_files_stay(
    catalog: ApiClient, create_table: CreateTable, soft_delete: int, files: Files, do_tasks: Callable[[], int]
) -> None:
    create_table()
    create_table("other")
    written = files()
    assert catalog.delete(T).status == 204
    assert do_tasks() == 1
    assert [row.name for row in Tabular.objects.all()] == ["other"]
    assert Securable.objects.filter(type="table").count() == 1
    assert files() == written


def test_expired_tables_are_purged_if_the_drop_requested_it(
    catalog: ApiClient, create_table: CreateTable, soft_delete: int, files: Files, do_tasks: Callable[[], int]
) -> None:
    create_table("other")
    left = files()
    folder = folder_of(create_table())
    assert catalog.delete(f"{T}?purgeRequested=true").status == 204
    row = Tabular.objects.get(name="t")
    expire_tabular(actor=INTERNAL, lease=leased())
    task = Task.objects.live().get()
    assert (task.queue, task.entity_id) == ("tabular_purge", row.pk)
    assert LocationClaim.objects.get().location == row.location
    assert LocationClaim.objects.get().task_id == task.pk
    assert folder.exists()
    assert do_tasks() == 1
    assert not folder.exists()
    assert not LocationClaim.objects.exists()
    assert files() == left


def test_restored_tables_do_not_expire(catalog: ApiClient, create_table: CreateTable, soft_delete: int) -> None:
    created = create_table()
    assert catalog.delete(f"{T}?purgeRequested=true").status == 204
    lease = leased()
    Tabular.objects.update(deleted_at=None)
    expire_tabular(actor=INTERNAL, lease=lease)
    assert not Task.objects.live().exists()
    assert catalog.get(T).json() == created


@pytest.mark.parametrize("payload", [{}, {"deletion_kind": "PURGE"}, {"deletion_kind": ["purge"]}, [], "purge"])
def test_an_odd_payload_purges_nothing(
    catalog: ApiClient, create_table: CreateTable, soft_delete: int, files: Files, payload: Any
) -> None:
    create_table()
    written = files()
    assert catalog.delete(f"{T}?purgeRequested=true").status == 204
    Task.objects.live().update(payload=payload)
    expire_tabular(actor=INTERNAL, lease=leased())
    assert not Tabular.objects.exists()
    assert not Task.objects.live().exists()
    assert files() == written


def test_an_expiration_of_another_warehouse_touches_nothing(
    catalog: ApiClient, create_table: CreateTable, soft_delete: int
) -> None:
    create_table()
    assert catalog.delete(T).status == 204
    Task.objects.live().update(warehouse_id=new_id())
    expire_tabular(actor=INTERNAL, lease=leased())
    assert not Task.objects.live().exists()
    assert Tabular.objects.get().deleted_at is not None


def test_an_expiration_with_a_lost_lease_changes_nothing(
    catalog: ApiClient, create_table: CreateTable, soft_delete: int
) -> None:
    create_table()
    assert catalog.delete(f"{T}?purgeRequested=true").status == 204
    late = leased()
    Task.objects.live().update(leased_until=now() - timedelta(seconds=1))
    leased()
    before = state()
    with pytest.raises(LeaseLost):
        expire_tabular(actor=INTERNAL, lease=late)
    assert state() == before


# --- purge --------------------------------------------------------------------------------------------------------


@pytest.fixture
def wandered(catalog: ApiClient, create_table: CreateTable, warehouse: Warehouse) -> list[Path]:
    """Return the folders of a table that was moved and writes its metadata elsewhere."""
    base = warehouse.location
    create_table(location=f"{base}/first", properties={"write.metadata.path": f"{base}/meta"})
    updates = [{"action": "set-location", "location": f"{base}/second"}]
    assert catalog.post(T, {"requirements": [], "updates": updates}).status == 200
    folders = [Path(f"{base}/{name}".removeprefix("file://")) for name in ("first", "second", "meta")]
    for folder in folders:
        (folder / "data").mkdir(parents=True, exist_ok=True)
        (folder / "data" / "x.parquet").write_text("x")
    return folders


def test_a_purge_reserves_and_deletes_every_location_of_the_table(
    catalog: ApiClient,
    create_table: CreateTable,
    wandered: list[Path],
    files: Files,
    do_tasks: Callable[[], int],
) -> None:
    neighbour = Path(f"{wandered[0]}2")
    create_table("neighbour", location=f"file://{neighbour}")
    assert catalog.delete(f"{T}?purgeRequested=true").status == 204
    task = Task.objects.live().get()
    held: list[tuple[Any, ...]] = list(LocationClaim.objects.values_list("tabular_id", "task_id", "location"))
    assert sorted(held) == sorted((None, task.pk, f"file://{folder}") for folder in wandered)
    assert task.payload["tabular_location"] == f"file://{wandered[1]}"
    assert sorted(task.payload["former_locations"]) == sorted(f"file://{wandered[each]}" for each in (0, 2))
    assert do_tasks() == 1
    assert not any(folder.exists() for folder in wandered)
    assert not LocationClaim.objects.exists()
    assert [file.startswith("wh/first2/") for file in files()] == [True]


def test_no_table_is_created_where_a_purge_is_queued(
    catalog: ApiClient, create_table: CreateTable, warehouse: Warehouse
) -> None:
    dropped = create_table(location=f"{warehouse.location}/deep/t")
    create_table("other")
    assert catalog.delete(f"{T}?purgeRequested=true").status == 204
    before = state()
    register = {"name": "x", "metadata-location": dropped["metadata-location"]}
    assert catalog.post("/namespaces/ns/register", register).refused(409, "LocationAlreadyTaken")
    create = {"name": "x", "schema": SCHEMA, "location": f"{warehouse.location}/deep/t/inner"}
    assert catalog.post("/namespaces/ns/tables", create).refused(409, "LocationAlreadyTaken")
    for path in ("deep", "deep/t", "deep/t/inner"):
        updates = [{"action": "set-location", "location": f"{warehouse.location}/{path}"}]
        response = catalog.post("/namespaces/ns/tables/other", {"requirements": [], "updates": updates})
        assert response.refused(409, "LocationAlreadyTaken")
    assert state() == before


def intruder(warehouse: Warehouse, location: str) -> Tabular:
    """A row created without the usual checks."""
    namespace = Namespace.objects.get()
    row = Tabular.objects.create(
        warehouse=warehouse, namespace=namespace, kind="view", uuid=new_id(), name="v", name_key="v",
        location=location, metadata_location="",
    )  # fmt: skip
    add_securable(Securable.Type.VIEW, row.pk, parent=ObjectRef(Securable.Type.NAMESPACE, namespace.pk))
    return row


@pytest.mark.parametrize("path", ["a", "a/t", "a/t/inner", "claim"])
@pytest.mark.parametrize("is_dropped", [False, True])
def test_files_at_a_living_table_are_never_deleted(
    catalog: ApiClient,
    create_table: CreateTable,
    warehouse: Warehouse,
    files: Files,
    caplog: pytest.LogCaptureFixture,
    path: str,
    is_dropped: bool,
) -> None:
    create_table(location=f"{warehouse.location}/a/t")
    written = files()
    assert catalog.delete(f"{T}?purgeRequested=true").status == 204
    row = intruder(warehouse, f"{warehouse.location}/{'elsewhere' if path == 'claim' else path}")
    if path == "claim":
        LocationClaim.objects.create(warehouse=warehouse, tabular=row, location=f"{warehouse.location}/a/t/inner")
    if is_dropped:
        Tabular.objects.update(deleted_at=now())
    with caplog.at_level(logging.ERROR, "icekeeper.tasks"):
        purge(leased(), lambda: None)
    assert files() == written
    assert not Task.objects.live().exists()
    assert "a table or view occupies the location" in caplog.text


@pytest.mark.parametrize("path", ["/etc", "{out}", "{base}", "{base}/../other", "s3://bucket/x", "{base}x/t", ""])
def test_a_claim_outside_of_the_warehouse_deletes_nothing(
    catalog: ApiClient, create_table: CreateTable, warehouse: Warehouse, storage_root: Path, files: Files, path: str
) -> None:
    for name in ("other/x", "whx/t/x"):
        (storage_root / name).parent.mkdir(parents=True)
        (storage_root / name).write_text("x")
    create_table()
    written = files()
    assert catalog.delete(f"{T}?purgeRequested=true").status == 204
    location = path.format(base=warehouse.location, out=f"file://{storage_root}/other")
    LocationClaim.objects.update(location=location)
    Task.objects.live().update(payload={"tabular_location": f"file://{storage_root}/other"})
    purge(leased(), lambda: None)
    assert files() == written
    assert not Task.objects.live().exists()
    assert not LocationClaim.objects.exists()


def test_a_link_instead_of_the_folder_is_not_followed(
    catalog: ApiClient, create_table: CreateTable, warehouse: Warehouse, storage_root: Path
) -> None:
    folder = folder_of(create_table())
    (folder / "metadata" / "up").symlink_to(storage_root)
    assert catalog.delete(f"{T}?purgeRequested=true").status == 204
    victim = storage_root / "wh" / "victim"
    folder.rename(victim)
    folder.symlink_to(victim)
    purge(leased(), lambda: None)
    assert folder.is_symlink()
    assert len(list((victim / "metadata").iterdir())) == 2
    assert not Task.objects.live().exists()


def test_a_purge_with_a_lost_lease_releases_nothing(catalog: ApiClient, create_table: CreateTable) -> None:
    create_table()
    assert catalog.delete(f"{T}?purgeRequested=true").status == 204
    late = leased()
    Task.objects.live().update(leased_until=now() - timedelta(seconds=1))
    leased()
    before = state()
    with pytest.raises(LeaseLost):
        purge(late, lambda: None)
    assert state() == before


@pytest.mark.parametrize("steps", range(1, 12))
def test_a_worker_with_an_expired_lease_deletes_no_files_of_a_new_table(
    catalog: ApiClient, create_table: CreateTable, warehouse: Warehouse, files: Files, steps: int
) -> None:
    """The worker pauses at any step; meanwhile another one finishes, and a new table gets the same location."""
    path = f"{warehouse.location}/ns/t"
    folder = folder_of(create_table(location=path))
    for name in ("data", "more"):
        (folder / name).mkdir()
        (folder / name / "x").write_text("x")
    assert catalog.delete(f"{T}?purgeRequested=true").status == 204
    lease, done = leased(), 0

    def checkpoint() -> None:
        nonlocal done
        done += 1
        if done == steps:
            Task.objects.live().update(leased_until=now() - timedelta(seconds=1))
            create_table(location=path)
            lease.extended_at -= 1000
        lease.extend()

    with pytest.raises(LeaseLost):
        purge(lease, checkpoint)
    assert done == steps
    assert not Task.objects.live().exists()
    assert catalog.get(T).status == 200
    assert len(files()) == 1


def test_a_purge_without_its_warehouse_ends(warehouse: Warehouse) -> None:
    Task.objects.create(
        queue=PURGE, warehouse_id=new_id(), entity_id=new_id(), payload={"tabular_location": "file:///"}
    )
    purge(leased(), lambda: None)
    assert not Task.objects.live().exists()


def test_a_warehouse_waits_for_its_purges(
    catalog: ApiClient, create_table: CreateTable, warehouse: Warehouse, do_tasks: Callable[[], int]
) -> None:
    management = ApiClient(f"/management/v1/warehouse/{warehouse.pk}")
    create_table()
    assert catalog.delete(f"{T}?purgeRequested=true").status == 204
    assert catalog.delete("/namespaces/ns").status == 204
    for force in ("", "?force=true"):
        assert management.delete(force).refused(409, "WarehouseHasUnfinishedTasks")
    do_tasks()
    assert management.delete().status == 204
