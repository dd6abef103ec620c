"""Fixtures for tests of the catalog in this process: a warehouse on local files, and a client for its address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from icekeeper.kernel.clock import now
from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tasks.models import Task
from tasks.workers.worker import Worker
from tenancy.actor import INTERNAL
from tenancy.audit.collector import collector
from tenancy.selectors.projects import get_project
from tenancy.services.server import bootstrap
from tests.harness.fingerprint import Fingerprint, take_fingerprint
from tests.harness.prepared import Key, Prepared, Recorded, clear_process_caches
from tests.harness.run_environment import RunEnvironment
from tests.harness.wsgi_client import ApiClient, Response

SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 0, "name": "id", "type": "long", "required": True},
        {"id": 1, "name": "name", "type": "string", "required": False},
    ],
}
SCAN_REPORT: dict[str, Any] = {
    "report-type": "scan-report",
    "table-name": "demo.ns.t",
    "snapshot-id": 7_123_456_789_012_345_678,
    "filter": {"type": "gt", "term": "id", "value": "(1-digit-int)"},
    "schema-id": 0,
    "projected-field-ids": [1, 2],
    "projected-field-names": ["id", "name"],
    "metrics": {
        "total-planning-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 26_442_351_160},
        "result-data-files": {"unit": "count", "value": 4},
        "result-delete-files": {"unit": "count", "value": 1},
        "scanned-data-manifests": {"unit": "count", "value": 2},
        "skipped-data-manifests": {"unit": "count", "value": 3},
        "total-file-size-in-bytes": {"unit": "bytes", "value": 4096},
    },
    "metadata": {"engine-name": "spark", "engine-version": "4.1.4"},
}
COMMIT_REPORT: dict[str, Any] = {
    "report-type": "commit-report",
    "table-name": "demo.ns.t",
    "snapshot-id": 7_123_456_789_012_345_679,
    "sequence-number": 2,
    "operation": "append",
    "metrics": {
        "total-duration": {"count": 1, "time-unit": "milliseconds", "total-duration": 12},
        "attempts": {"unit": "count", "value": 2},
        "added-data-files": {"unit": "count", "value": 5},
        "added-records": {"unit": "count", "value": 500},
        "added-files-size-bytes": {"unit": "bytes", "value": 5000},
    },
}
"""Reports in the form of Iceberg's Java library, with some of its metrics."""


def finishing_updates(staged: dict[str, Any], **changed: Any) -> list[dict[str, Any]]:
    """Return the updates that a client sends to complete a staged table with the metadata `staged`.

    `changed` are members of that metadata with other values.
    """
    table = staged | changed
    return [
        {"action": "assign-uuid", "uuid": table["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": table["format-version"]},
        {"action": "add-schema", "schema": table["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": table["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": table["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": table["location"]},
    ]


@pytest.fixture(autouse=True)
def process_caches_are_empty() -> None:
    """Empty the caches, whose rows belong to the database of another test."""
    clear_process_caches()


@pytest.fixture(autouse=True)
def nothing_waits_for_the_audit_trail() -> None:
    """Drop pending audit records of another test, and their repetition counts."""
    collector.clear()


@pytest.fixture(scope="session")
def recorded_fixtures() -> dict[Key, Recorded]:
    """Records of `bootstrapped`, `warehouse` and other fixtures of this run."""
    return {}


@pytest.fixture
def prepared(run_environment: RunEnvironment, recorded_fixtures: dict[Key, Recorded]) -> Prepared:
    return Prepared(run_environment.home.resolve() / "warehouses", recorded_fixtures)


@pytest.fixture
def storage_root(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for local warehouses, empty."""
    prepared.empty_storage()
    chosen = settings.ICEKEEPER.model_copy(update={"local_storage_root": prepared.root})
    monkeypatch.setattr(settings, "ICEKEEPER", chosen)
    return prepared.root


@pytest.fixture
def bootstrapped(db: None, prepared: Prepared) -> None:
    prepared.create_or_copy("bootstrapped", lambda: bootstrap(actor=INTERNAL, accept_terms_of_use=True))


@pytest.fixture
def warehouse(bootstrapped: None, storage_root: Path, prepared: Prepared) -> Warehouse:
    def create() -> None:
        profile = {"type": "local", "path": str(storage_root / "wh")}
        create_warehouse(actor=INTERNAL, project=get_project(None), name="wh", storage_profile=profile)

    prepared.create_or_copy("warehouse", create)
    return Warehouse.objects.get(name="wh")


@pytest.fixture
def soft_delete(warehouse: Warehouse) -> int:
    """Enable soft deletion in the warehouse; the value is the retention in seconds."""
    Warehouse.objects.update(delete_profile={"type": "soft", "expiration-seconds": 3600})
    return 3600


@pytest.fixture
def do_tasks() -> Callable[[], int]:
    """Run every queued task, due or not; return their number."""

    def do() -> int:
        worker = Worker(poll_interval=60)
        done = 0
        while Task.objects.live().exists():
            assert done < 1000
            Task.objects.live().update(scheduled_for=now())
            done += worker.work()
        return done

    return do


@pytest.fixture
def catalog(warehouse: Warehouse) -> ApiClient:
    """A client whose targets are below `/catalog/v1/{prefix}`."""
    return ApiClient(f"/catalog/v1/{warehouse.pk}")


@pytest.fixture
def files(storage_root: Path) -> Callable[[], list[str]]:
    """All files of all local warehouses, by path below the root."""
    return lambda: sorted(str(path.relative_to(storage_root)) for path in storage_root.rglob("*") if path.is_file())


@pytest.fixture
def everything(storage_root: Path) -> Callable[[], Fingerprint]:
    """All rows and files as one value, to compare before and after a call that must change nothing."""
    return lambda: take_fingerprint(storage_root)


@pytest.fixture
def namespace(catalog: ApiClient) -> str:
    assert catalog.post("/namespaces", {"namespace": ["ns"]}).status == 200
    return "ns"


@pytest.fixture
def create_table(catalog: ApiClient, namespace: str) -> Callable[..., dict[str, Any]]:
    """Create a table in `ns` and return its LoadTableResult."""

    def create(name: str = "t", **more: Any) -> dict[str, Any]:
        response: Response = catalog.post(f"/namespaces/{namespace}/tables", {"name": name, "schema": SCHEMA, **more})
        assert response.status == 200, response.body
        result: dict[str, Any] = response.json()
        return result

    return create


def chosen(properties: dict[str, str]) -> dict[str, str]:
    """Return a namespace's properties without those that the server adds."""
    added = {"location", "namespace_id"}
    assert added <= properties.keys()
    return {key: value for key, value in properties.items() if key not in added}


def snapshot(snapshot_id: int, *, parent: int | None = None, sequence_number: int = 1, at: int) -> dict[str, Any]:
    """Return a snapshot as a client commits it."""
    created: dict[str, Any] = {
        "snapshot-id": snapshot_id,
        "timestamp-ms": at,
        "sequence-number": sequence_number,
        "manifest-list": f"file:///tmp/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    return created if parent is None else created | {"parent-snapshot-id": parent}
