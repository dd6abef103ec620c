"""Tables at a location that the client chose: it must be empty, and a queued purge there runs first."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from catalog.models import LocationClaim, Tabular
from catalog.services.locations import purge
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from icekeeper.wsgi import application
from storage.errors import StoreUnavailable
from storage.io.local import LocalStore
from storage.models import Warehouse
from tasks.models import Task
from tasks.queue.leases import lease_task
from tests.catalog_fixtures import SCHEMA, finishing_updates
from tests.harness.wsgi_client import ApiClient, Response

pytestmark = pytest.mark.django_db

CreateTable = Callable[..., dict[str, Any]]
Files = Callable[[], list[str]]


@pytest.fixture
def target(warehouse: Warehouse) -> str:
    return f"{warehouse.location}/ns/table"


@pytest.fixture
def create(catalog: ApiClient, target: str) -> Callable[..., Response]:
    """Create the table `t` at `location`."""

    def ask(**more: Any) -> Response:
        return catalog.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA, "location": target, **more})

    return ask


@pytest.fixture
def purging(catalog: ApiClient, create_table: CreateTable, target: str) -> Path:
    """Queue the purge of a dropped table at `location` and return its folder."""
    create_table(location=target)
    folder = Path(target.removeprefix("file://"))
    (folder / "data").mkdir()
    (folder / "data" / "x.parquet").write_text("x")
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    return folder


def test_a_warehouse_may_allow_files_at_a_location(
    create: Callable[..., Response], namespace: str, target: str, warehouse: Warehouse
) -> None:
    file = Path(target.removeprefix("file://")) / "data.parquet"
    file.parent.mkdir(parents=True)
    file.write_text("x")
    assert create().refused(400, "InvalidLocation", "Unexpected files")
    warehouse.storage_profile |= {"allow-non-empty-locations": True}
    warehouse.save()
    assert create().status == 200
    assert file.read_text() == "x"


@pytest.mark.parametrize("stage", [False, True])
@pytest.mark.parametrize("left", ["x", "data/a=1/x.parquet", "link"])
def test_unknown_files_are_an_obstacle(
    create: Callable[..., Response], namespace: str, target: str, files: Files, left: str, stage: bool
) -> None:
    path = Path(target.removeprefix("file://")) / left
    path.parent.mkdir(parents=True)
    if left == "link":
        path.symlink_to("/nowhere")
    else:
        path.write_text("x")
    written = files()
    response = create(**{"stage-create": stage})
    assert response.refused(400, "InvalidLocation", f"Unexpected files in location {target}")
    assert not Tabular.objects.exists()
    assert files() == written


def test_empty_folders_and_neighbours_are_no_obstacle(
    create: Callable[..., Response], namespace: str, target: str
) -> None:
    Path(target.removeprefix("file://") + "/data/a=1").mkdir(parents=True)
    sibling = Path(target.removeprefix("file://") + "2")
    sibling.mkdir()
    (sibling / "x").write_text("x")
    assert create(**{"stage-create": True}).status == 200
    assert create().status == 200


def test_a_drop_without_purge_leaves_files_that_register_takes(
    catalog: ApiClient, create: Callable[..., Response], create_table: CreateTable, target: str
) -> None:
    created = create_table(location=target)
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    assert create().refused(400, "InvalidLocation", "Unexpected files")
    body = {"name": "t", "metadata-location": created["metadata-location"]}
    assert catalog.post("/namespaces/ns/register", body).json()["metadata"] == created["metadata"]


def test_a_staged_create_is_finished_on_the_files_of_its_client(
    catalog: ApiClient, create: Callable[..., Response], namespace: str, target: str
) -> None:
    metadata = create(**{"stage-create": True}).json()["metadata"]
    path = Path(target.removeprefix("file://")) / "data" / "x.parquet"
    path.parent.mkdir(parents=True)
    path.write_text("x")
    body = {"requirements": [{"type": "assert-create"}], "updates": finishing_updates(metadata)}
    assert catalog.post("/namespaces/ns/tables/t", body).status == 200
    assert path.read_text() == "x"


@pytest.mark.parametrize("stage", [False, True])
def test_a_queued_purge_is_done_at_once(
    create: Callable[..., Response], purging: Path, target: str, do_tasks: Callable[[], int], stage: bool
) -> None:
    created = create(**{"stage-create": stage})
    assert created.status == 200, created.body
    assert not (purging / "data").exists()
    assert not Task.objects.live().exists()
    assert [claim.staged_by for claim in LocationClaim.objects.all()] == (["anonymous"] if stage else [])
    assert do_tasks() == 0
    if not stage:
        assert [path.name for path in purging.rglob("*.json")] == [Path(created.json()["metadata-location"]).name]


def test_dropped_and_recreated_many_times(catalog: ApiClient, create: Callable[..., Response], namespace: str) -> None:
    for _ in range(5):
        assert create().status == 200
        assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204


def test_purges_below_the_location_are_done_too(
    catalog: ApiClient, create: Callable[..., Response], create_table: CreateTable, target: str, files: Files
) -> None:
    for name in ("a", "b"):
        create_table(name, location=f"{target}/inner/{name}")
        assert catalog.delete(f"/namespaces/ns/tables/{name}?purgeRequested=true").status == 204
    create_table("c", location=f"{target}2")
    assert catalog.delete("/namespaces/ns/tables/c?purgeRequested=true").status == 204
    assert create().status == 200
    assert Task.objects.live().count() == 1, "the purge of the neighbour"
    assert len(files()) == 2


def test_a_purge_around_the_location_is_not_waited_for(
    catalog: ApiClient, create: Callable[..., Response], purging: Path, target: str
) -> None:
    written = sorted(purging.rglob("*"))
    assert create(location=f"{target}/inner").refused(409, "LocationAlreadyTaken")
    assert Task.objects.live().get().status == "scheduled"
    assert sorted(purging.rglob("*")) == written


def nothing_happened(purging: Path, written: list[Path], **task: Any) -> bool:
    assert sorted(purging.rglob("*")) == written
    assert not Tabular.objects.exists()
    assert LocationClaim.objects.count() == 1
    found = Task.objects.live().get()
    assert {name: getattr(found, name) for name in task} == task
    return True


def test_a_purge_that_a_worker_is_at_is_not_done_twice(
    create: Callable[..., Response], purging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge, "MAX_WAIT_SECONDS", 0.2)
    written = sorted(purging.rglob("*"))
    assert lease_task(Task.objects.live().get().pk) is not None
    response = create()
    assert response.refused(503, "SlowDownException", "still being deleted")
    assert int(response.headers["Retry-After"]) > 0
    assert nothing_happened(purging, written, status="running", attempt=1)
    Task.objects.live().update(leased_until=now() - timedelta(seconds=1))  # the worker's lease expired
    assert create().status == 200
    assert not Task.objects.live().exists()


def test_a_worker_that_is_about_to_finish_is_waited_for(
    create: Callable[..., Response], purging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = lease_task(Task.objects.live().get().pk)
    assert lease is not None
    naps = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            purge.purge(lease, lambda: None)

    monkeypatch.setattr(time, "sleep", nap)
    assert create().status == 200
    assert len(naps) == 3


def test_the_worker_continues_a_purge_that_takes_too_long(
    create: Callable[..., Response], purging: Path, monkeypatch: pytest.MonkeyPatch, do_tasks: Callable[[], int]
) -> None:
    monkeypatch.setattr(purge, "RESERVED_SECONDS", 10_000.0)
    written = sorted(purging.rglob("*"))
    response = create()
    assert response.refused(503, "SlowDownException", "still being deleted")
    assert int(response.headers["Retry-After"]) > 0
    assert nothing_happened(purging, written, status="scheduled", attempt=1, message="")
    assert do_tasks() == 1
    assert not purging.exists()


def test_a_failing_store_is_reported(
    create: Callable[..., Response], purging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise StoreUnavailable("The local store failed: Input/output error")

    monkeypatch.setattr(LocalStore, "delete_below", fail)
    written = sorted(purging.rglob("*"))
    assert create().refused(503, "StorageUnavailableException", "Input/output error")
    message = "The local store failed: Input/output error"
    assert nothing_happened(purging, written, status="scheduled", attempt=1, message=message)


def test_an_unexpected_end_gives_the_purge_back(
    create: Callable[..., Response], purging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(LocalStore, "delete_below", fail)
    written = sorted(purging.rglob("*"))
    assert create().status == 500
    assert nothing_happened(purging, written, status="scheduled", attempt=1)


@pytest.mark.parametrize("way", ["move", "metadata folder", "new metadata folder", "view", "staged"])
def test_nothing_is_written_during_a_purge_of_the_location(
    way: str,
    catalog: ApiClient,
    create_table: CreateTable,
    purging: Path,
    target: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The purge would delete the new files, too, and release the location right after."""
    create_table("u")
    put: list[str] = []
    monkeypatch.setattr(LocalStore, "put_new", lambda _, location, __: put.append(location))
    folder = {"write.metadata.path": f"{target}/md"}
    version = {"version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {}, "default-namespace": ["ns"]}
    version["representations"] = [{"type": "sql", "sql": "select 1", "dialect": "spark"}]
    metadata = catalog.get("/namespaces/ns/tables/u").json()["metadata"]
    staged = finishing_updates(metadata, **{"table-uuid": str(new_id()), "location": target})
    path, body = {
        "move": (
            "tables/u",
            {"requirements": [], "updates": [{"action": "set-location", "location": f"{target}/in"}]},
        ),
        "metadata folder": (
            "tables/u", {"requirements": [], "updates": [{"action": "set-properties", "updates": folder}]},
        ),
        "new metadata folder": ("tables", {"name": "v", "schema": SCHEMA, "properties": folder}),
        "view": ("views", {"name": "v", "schema": SCHEMA, "view-version": version, "location": target}),
        "staged": ("tables/v", {"requirements": [{"type": "assert-create"}], "updates": staged}),
    }[way]  # fmt: skip
    response = catalog.post(f"/namespaces/ns/{path}", body)
    assert response.refused(409, "LocationAlreadyTaken")
    assert put == []


def test_a_purge_that_outlasts_the_request_is_requeued(
    create: Callable[..., Response], purging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One slow step may take longer than the whole request had."""
    monkeypatch.setattr(purge, "RESERVED_SECONDS", 0.0)

    def slow(_: Any, __: str, checkpoint: Callable[[], object], *___: Any) -> None:
        time.sleep(1.2)
        checkpoint()

    monkeypatch.setattr(LocalStore, "delete_below", slow)
    monkeypatch.setattr(application, "_time_limit", 1.0)
    assert create().refused(503, "SlowDownException", "still being deleted")
    assert Task.objects.live().get().status == "scheduled"
