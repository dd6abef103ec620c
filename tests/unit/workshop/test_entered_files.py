"""How many files a reader must open to follow a request: those of which it enters a function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from icekeeper.kernel.clock import now_ms
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz import port
from tenancy.models.securable import ObjectRef
from tests.authz.tree_fixtures import T, give
from tests.catalog_fixtures import SCHEMA, snapshot
from tests.harness.wsgi_client import Response
from tests.management.warehouse_request_fixtures import use_settings
from tests.token_fixtures import TokenClient

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("catalog", "events", "icekeeper", "management", "storage", "tasks", "tenancy")
MAX_FILES = {"load": 40, "commit": 56, "create warehouse": 54, "grant": 50}
"""Three of a write are the change spine: `tenancy/changes/`. One of a commit is its approval, which ends there without
rules: `catalog/services/approval/approve.py`."""
MAX_OWN_FILES = {"load": 10, "commit": 27}
"""Of these, files that the other requests do not all enter as well."""


@pytest.fixture
def builtin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    use_settings(monkeypatch, authz_backend="builtin")
    port.authorizer.cache_clear()
    yield
    port.authorizer.cache_clear()


@pytest.fixture
def requests(
    alice: TokenClient, builtin: None, warehouse: Warehouse, storage_root: Path
) -> dict[str, Callable[[], Response]]:
    """Requests of a user with an access token of this server and grants, on local files."""
    client = TokenClient(alice.token, base="")
    give("project_admin", ObjectRef(T.PROJECT, warehouse.project_id), Actor(user_id="local~alice"))
    catalog, management = f"/catalog/v1/{warehouse.pk}/namespaces", "/management/v1/warehouse"
    assert client.post(catalog, {"namespace": ["ns"]}).status == 200
    created = client.post(f"{catalog}/ns/tables", {"name": "t", "schema": SCHEMA})
    assert created.status == 200
    numbers, privileges = count(1), iter(["describe", "select", "modify"])

    def append() -> Response:
        number = next(numbers)
        added = snapshot(number, parent=number - 1 or None, sequence_number=number, at=now_ms())
        body = {
            "requirements": [
                {"type": "assert-table-uuid", "uuid": created.json()["metadata"]["table-uuid"]},
                {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": number - 1 or None},
            ],
            "updates": [
                {"action": "add-snapshot", "snapshot": added},
                {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number},
            ],
        }
        return client.post(f"{catalog}/ns/tables/t", body)

    def create_warehouse() -> Response:
        name = f"w{next(numbers)}"
        profile = {"type": "local", "path": str(storage_root / name)}
        return client.post(management, {"warehouse-name": name, "storage-profile": profile})

    def grant() -> Response:
        written = {"privilege": next(privileges), "principal": {"user": "local~alice"}}
        return client.post(f"{management}/{warehouse.pk}/grants", {"writes": [written]})

    return {
        "load": lambda: client.get(f"{catalog}/ns/tables/t"),
        "commit": append,
        "create warehouse": create_warehouse,
        "grant": grant,
    }


def test_a_request_enters_few_files(requests: dict[str, Callable[[], Response]]) -> None:
    entered: dict[str, set[str]] = {}
    for name, send in requests.items():
        assert send().status < 300  # fills caches
        entered[name] = files_entered_by(send) & files_entered_by(send)  # a cache may expire before one of them
    common = set.intersection(*entered.values())
    assert len(common) > 20
    too_many = {name: sorted(files) for name, files in entered.items() if len(files) > MAX_FILES[name]}
    assert not too_many
    own = {name: sorted(entered[name] - common) for name in MAX_OWN_FILES}
    assert not {name: files for name, files in own.items() if len(files) > MAX_OWN_FILES[name]}


def files_entered_by(send: Callable[[], Response]) -> set[str]:
    """Return the files, relative to the project, in which at least one function is called in this thread.

    Lambdas, comprehensions and generator expressions are not counted.
    """
    found: set[str] = set()

    def record(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and not frame.f_code.co_name.startswith("<"):
            found.add(frame.f_code.co_filename)

    former = sys.getprofile()
    sys.setprofile(record)
    try:
        response = send()
    finally:
        sys.setprofile(former)
    assert response.status < 300, response.body
    inside = {Path(name).relative_to(ROOT) for name in found if Path(name).is_relative_to(ROOT)}
    return {str(path) for path in inside if path.parts[0] in PACKAGES}
