"""What a purge reports: files and bytes that the store has deleted, over all attempts, and skipped locations."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.models import LocationClaim
from catalog.services.locations.purge import purge
from icekeeper.kernel.clock import now
from icekeeper.kernel.ids import new_id
from storage.errors import StoreUnavailable
from storage.io.local import LocalStore
from storage.models import Warehouse
from tasks.models import Task
from tasks.queue import leases
from tasks.queue.leases import LeaseLost, lease_task
from tasks.workers.worker import Worker
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

FILES, SIZE = 20, 100


@pytest.fixture
def purged(catalog: ApiClient, create_table: Callable[..., Any]) -> Path:
    """The folder of a dropped table with `FILES` files of `SIZE` bytes, whose purge is due."""
    folder = Path(create_table()["metadata"]["location"].removeprefix("file://"))
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    for path in folder.rglob("*.json"):
        path.unlink()
    (folder / "data").mkdir()
    for number in range(FILES):
        (folder / f"data/{number}.parquet").write_bytes(b"x" * SIZE)
    return folder


@pytest.fixture
def worker() -> Worker:
    return Worker(poll_interval=60)


def fail_after(monkeypatch: pytest.MonkeyPatch, deletions: int) -> None:
    """Let the local store fail after some files."""
    unlink, left = os.unlink, [deletions]

    def limited(*arguments: Any, **options: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise PermissionError(13, "Permission denied")
        unlink(*arguments, **options)

    monkeypatch.setattr(os, "unlink", limited)


def reported(files: int, skipped: int = 0) -> dict[str, int]:
    return {"deleted-files": files, "deleted-bytes": files * SIZE, "skipped-locations": skipped}


def test_a_purge_reports_what_it_deleted(worker: Worker, purged: Path) -> None:
    assert worker.work()
    task = Task.objects.get()
    assert (task.status, task.progress, task.execution_details) == ("success", 1.0, reported(FILES))
    assert task.attempts.get().execution_details == reported(FILES)


def test_the_counts_add_up_over_attempts(worker: Worker, purged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        fail_after(patched, 7)
        assert worker.work()
    task = Task.objects.get()
    assert (task.status, task.progress, task.execution_details) == ("scheduled", 0.0, reported(7))
    Task.objects.update(scheduled_for=now())
    assert worker.work()
    assert Task.objects.get().execution_details == reported(FILES)
    of_attempts = Task.objects.get().attempts.order_by("attempt")
    assert [each.execution_details for each in of_attempts] == [reported(7), reported(FILES)]


def test_a_released_purge_keeps_its_counts(purged: Path, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that were deleted before the worker stopped."""
    steps: list[int] = []
    should_pause = worker._should_pause

    def stop_later() -> bool:
        steps.append(1)
        return len(steps) > 10 or should_pause()

    monkeypatch.setattr(worker, "_should_pause", stop_later)
    assert worker.work()
    task = Task.objects.get()
    left = len(list(purged.rglob("*.parquet")))
    assert 0 < left < FILES
    assert (task.status, task.execution_details) == ("scheduled", reported(FILES - left))
    assert Worker(poll_interval=60).work()
    assert Task.objects.get().execution_details == reported(FILES)


def test_heartbeats_store_the_counts(purged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "HEARTBEAT_SECONDS", 0.0)
    lease = lease_task(Task.objects.get().pk)
    assert lease is not None
    stored: list[int] = []

    def checkpoint() -> None:
        lease.extend()
        stored.append((Task.objects.get().execution_details or {}).get("deleted-files", 0))

    purge(lease, checkpoint)
    assert stored == sorted(stored)
    assert stored[-1] == FILES


def test_a_lost_lease_deletes_and_counts_nothing_more(purged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "HEARTBEAT_SECONDS", 0.0)
    lease = lease_task(Task.objects.get().pk)
    assert lease is not None
    steps: list[int] = []

    def checkpoint() -> None:
        steps.append(1)
        if len(steps) == 8:
            Task.objects.update(attempt=2)
        lease.extend()

    with pytest.raises(LeaseLost):
        purge(lease, checkpoint)
    left = len(list(purged.rglob("*.parquet")))
    assert 0 < left < FILES
    stored = Task.objects.get().execution_details
    assert stored is not None
    assert stored["deleted-files"] <= FILES - left


def test_skipped_locations_are_counted_once(
    worker: Worker, purged: Path, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task.objects.get()
    outside = f"file://{purged.parents[2]}/elsewhere"
    LocationClaim.objects.create(warehouse_id=warehouse.pk, task_id=task.pk, location=outside)
    with monkeypatch.context() as patched:
        fail_after(patched, 0)
        assert worker.work()
    assert Task.objects.get().execution_details == reported(0, skipped=1)
    assert "Permission denied" in Task.objects.get().message
    Task.objects.update(scheduled_for=now())
    assert worker.work()
    assert Task.objects.get().execution_details == reported(FILES, skipped=1)


def test_a_location_of_a_living_table_is_skipped(
    worker: Worker, purged: Path, catalog: ApiClient, create_table: Callable[..., Any], warehouse: Warehouse
) -> None:
    living = create_table("living")["metadata"]["location"]
    LocationClaim.objects.create(warehouse_id=warehouse.pk, task_id=Task.objects.get().pk, location=living)
    assert worker.work()
    assert Task.objects.get().execution_details == reported(FILES, skipped=1)
    assert any(Path(living.removeprefix("file://")).rglob("*.json"))


def test_a_store_that_is_away_reports_nothing(worker: Worker, purged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise StoreUnavailable("The local store failed")

    monkeypatch.setattr(LocalStore, "delete_below", fail)
    assert worker.work()
    assert Task.objects.get().execution_details == reported(0)


def test_files_outside_of_the_location_remain_and_are_counted(
    worker: Worker, catalog: ApiClient, create_table: Callable[..., Any], warehouse: Warehouse
) -> None:
    """A registered table whose metadata file, older metadata files, manifest list and statistics are elsewhere."""
    created = create_table()
    base = Path(warehouse.location.removeprefix("file://"))
    location, elsewhere = base / "own", base / "elsewhere"
    names = ("v1.metadata.json", "snap.avro", "stats.puffin", "own.avro")
    own, others = location / "data" / "1.parquet", [elsewhere / name for name in names]
    for path in (own, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    metadata = created["metadata"] | {"table-uuid": str(new_id()), "location": f"file://{location}"}
    metadata["metadata-log"] = [{"timestamp-ms": 1, "metadata-file": f"file://{others[0]}"}]
    metadata["statistics"] = [
        {
            "snapshot-id": 1, "statistics-path": path, "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
        }
        for path in (f"file://{others[2]}", f"file://{location}/stats.puffin", "s3://another-bucket/stats.puffin")
    ]  # fmt: skip
    last = elsewhere / "00002-b.metadata.json"
    last.write_text(json.dumps(metadata))
    body = {"name": "registered", "metadata-location": f"file://{last}"}
    registered = catalog.post("/namespaces/ns/register", body)
    assert registered.status == 200, registered.body
    assert catalog.delete("/namespaces/ns/tables/registered?purgeRequested=true").status == 204
    assert worker.work()
    task = Task.objects.get()
    # The registered metadata file is a location of its own, which is no folder.
    assert task.execution_details == {
        "deleted-files": 1, "deleted-bytes": 1, "skipped-locations": 1, "files-outside": 4,
    }  # fmt: skip
    assert all(path.exists() for path in (*others, last))
    assert not own.exists()


@pytest.mark.parametrize(
    "metadata",
    [
        b"", b"[]", b"{", b"\xff", b'{"snapshots": 5, "statistics": [1, null, {"statistics-path": 7}]}',
        b'{"metadata-log": {"metadata-file": "x"}, "snapshots": [{"manifest-list": "../..%00"}]}', b"[" * 100_000,
    ],
    ids=lambda content: content[:20],
)  # fmt: skip
def test_a_metadata_file_that_a_client_has_overwritten_stops_no_purge(
    worker: Worker, catalog: ApiClient, create_table: Callable[..., Any], metadata: bytes
) -> None:
    last = Path(create_table()["metadata-location"].removeprefix("file://"))
    assert catalog.delete("/namespaces/ns/tables/t?purgeRequested=true").status == 204
    last.write_bytes(metadata)
    assert worker.work()
    assert Task.objects.get().status == "success"
    assert not last.parent.parent.exists()
