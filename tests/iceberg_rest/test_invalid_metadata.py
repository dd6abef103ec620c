"""Table metadata that clients could not open or use is rejected, and nothing of it is stored."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.models import LocationClaim, Tabular
from icekeeper.kernel.clock import now_ms
from storage.models import Warehouse
from storage.profiles.location import new_location_inside
from tests.catalog_fixtures import SCHEMA, snapshot
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import keep_secrets, use_settings
from tests.signing_fixtures import KEY, new_warehouse, s3_profile

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
Files = Callable[[], list[str]]
DAY_MS = 24 * 60 * 60 * 1000
VIEW = {
    "name": "v",
    "schema": SCHEMA,
    "view-version": {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "summary": {},
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
        "default-namespace": [],
    },
}


def test_types_are_stored_in_canonical_form(catalog: ApiClient, create_table: CreateTable, storage_root: Path) -> None:
    fields = [{"id": 0, "name": "price", "type": "DECIMAL( 9,2)", "required": False, "unit": "eur"}]
    created = create_table(schema={"type": "struct", "fields": fields})
    (only,) = created["metadata"]["schemas"][0]["fields"]
    assert only == {"id": 1, "name": "price", "type": "decimal(9, 2)", "required": False, "unit": "eur"}
    assert catalog.get("/namespaces/ns/tables/t").json() == created


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"summary": {"operation": "merge"}}, "summary.operation: must be one of append, replace, overwrite, delete"),
        ({"timestamp-ms": now_ms() + 2 * DAY_MS}, "more than a day ahead"),
        ({"timestamp-ms": 2**63 - 1}, "more than a day ahead"),
    ],
)
def test_snapshots_that_are_refused(
    catalog: ApiClient, create_table: CreateTable, files: Files, change: dict[str, Any], text: str
) -> None:
    created = create_table()
    before = files()
    document = snapshot(11, sequence_number=1, at=now_ms()) | change
    updates = [
        {"action": "add-snapshot", "snapshot": document},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 11},
    ]
    body = {"requirements": [], "updates": updates}
    assert catalog.post("/namespaces/ns/tables/t", body).refused(400, "BadRequestException", text)
    assert catalog.get("/namespaces/ns/tables/t").json() == created
    assert files() == before


@pytest.mark.parametrize("is_registered", [False, True])
def test_a_file_of_a_late_clock_is_not_registered(
    catalog: ApiClient, create_table: CreateTable, files: Files, storage_root: Path, *, is_registered: bool
) -> None:
    created = create_table()
    document = copy.deepcopy(created["metadata"])
    document["last-updated-ms"] = now_ms() + (0 if is_registered else 2 * DAY_MS)
    assert catalog.delete("/namespaces/ns/tables/t").status == 204
    path = storage_root / files()[0]
    path.write_text(json.dumps(document))
    body = {"name": "t", "metadata-location": created["metadata-location"]}
    response = catalog.post("/namespaces/ns/register", body)
    if is_registered:
        assert response.status == 200, response.body
    else:
        assert response.refused(400, "BadRequestException", "last-updated-ms: ")
        assert not Tabular.objects.exists()


def test_a_view_of_a_late_clock_is_not_created(catalog: ApiClient, namespace: str, files: Files) -> None:
    late = copy.deepcopy(VIEW)
    late["view-version"]["timestamp-ms"] = now_ms() + 2 * DAY_MS  # type: ignore[index]
    assert catalog.post("/namespaces/ns/views", late).refused(400, "BadRequestException", "more than a day ahead")
    assert not Tabular.objects.exists()
    assert files() == []


@pytest.mark.parametrize("name", ["a*b", "a?b", "a${b}", "*"])
@pytest.mark.parametrize("is_staged", [False, True])
def test_a_location_to_which_the_store_cannot_limit_credentials(
    bootstrapped: None, monkeypatch: pytest.MonkeyPatch, name: str, *, is_staged: bool
) -> None:
    keep_secrets(monkeypatch)
    use_settings(monkeypatch, skip_storage_validation=True)
    warehouse = new_warehouse(s3_profile(**{"sts-enabled": True}), KEY)
    catalog = ApiClient(f"/catalog/v1/{warehouse.pk}")
    assert catalog.post("/namespaces", {"namespace": ["ns"]}).status == 200
    body = {"name": "t", "schema": SCHEMA, "location": f"s3://my-bucket/wh/{name}/t", "stage-create": is_staged}
    assert catalog.post("/namespaces/ns/tables", body).refused(400, "InvalidLocation")
    view = VIEW | {"location": f"s3://my-bucket/wh/{name}/v"}
    assert catalog.post("/namespaces/ns/views", view).refused(400, "InvalidLocation")
    other = {"namespace": ["other"], "properties": {"location": f"s3://my-bucket/wh/{name}"}}
    assert catalog.post("/namespaces", other).refused(400, "InvalidLocation")
    assert not Tabular.objects.exists()
    assert not LocationClaim.objects.exists()
    assert Warehouse.objects.get().pk == warehouse.pk


@pytest.mark.parametrize(
    "profile",
    [
        s3_profile(**{"sts-enabled": False}),
        s3_profile(**{"sts-enabled": True, "endpoint": None, "flavor": "aws"}),
        s3_profile(**{"sts-enabled": True, "endpoint": "https://s3.eu-west-1.amazonaws.com/", "flavor": "aws"}),
    ],
)
def test_such_a_location_elsewhere(profile: dict[str, Any]) -> None:
    location = "s3://my-bucket/wh/a*b${c}"
    assert new_location_inside(location, base="s3://my-bucket/wh", storage_profile=profile) == location
