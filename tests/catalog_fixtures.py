"""Fixtures of tests that talk to the catalog in this process: a warehouse on local files, a client at its address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from storage.models import Warehouse
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project
from tenancy.services.bootstrap import bootstrap
from tests.fingerprint import Fingerprint, take_fingerprint
from tests.wsgi_client import Answer, ApiClient

SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 0, "name": "id", "type": "long", "required": True},
        {"id": 1, "name": "name", "type": "string", "required": False},
    ],
}


@pytest.fixture
def storage_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for local warehouses of this test."""
    root = tmp_path.resolve() / "warehouses"
    root.mkdir()
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"local_storage_root": root}))
    return root


@pytest.fixture
def bootstrapped(db: None) -> None:
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)


@pytest.fixture
def warehouse(bootstrapped: None, storage_root: Path) -> Warehouse:
    return create_warehouse(
        actor=INTERNAL,
        project=get_project(None),
        name="wh",
        storage_profile={"type": "local", "path": str(storage_root / "wh")},
    )


@pytest.fixture
def catalog(warehouse: Warehouse) -> ApiClient:
    """A client whose targets are below `/catalog/v1/{prefix}`."""
    return ApiClient(f"/catalog/v1/{warehouse.pk}")


@pytest.fixture
def files(storage_root: Path) -> Callable[[], list[str]]:
    """Every file of every local warehouse, by its path below the root."""
    return lambda: sorted(str(path.relative_to(storage_root)) for path in storage_root.rglob("*") if path.is_file())


@pytest.fixture
def everything(storage_root: Path) -> Callable[[], Fingerprint]:
    """All rows and files as one value: equal before and after what must not change anything."""
    return lambda: take_fingerprint(storage_root)


@pytest.fixture
def namespace(catalog: ApiClient) -> str:
    assert catalog.post("/namespaces", {"namespace": ["ns"]}).status == 200
    return "ns"


@pytest.fixture
def make_table(catalog: ApiClient, namespace: str) -> Callable[..., dict[str, Any]]:
    """Create a table in `ns` and return its LoadTableResult."""

    def make(name: str = "t", **more: Any) -> dict[str, Any]:
        answer: Answer = catalog.post(f"/namespaces/{namespace}/tables", {"name": name, "schema": SCHEMA, **more})
        assert answer.status == 200, answer.body
        result: dict[str, Any] = answer.json()
        return result

    return make


def snapshot(snapshot_id: int, *, parent: int | None = None, sequence_number: int = 1, at: int) -> dict[str, Any]:
    """A snapshot as a client commits it."""
    made: dict[str, Any] = {
        "snapshot-id": snapshot_id,
        "timestamp-ms": at,
        "sequence-number": sequence_number,
        "manifest-list": f"file:///tmp/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    return made if parent is None else made | {"parent-snapshot-id": parent}
