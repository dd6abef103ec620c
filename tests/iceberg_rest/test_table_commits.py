"""Commits of tables: pointer and files, snapshots, rejected commits, new locations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from catalog.models import Snapshot, Tabular
from icekeeper.kernel import request_context
from storage.models import Warehouse
from tasks.models import Task
from tests.catalog_fixtures import SCHEMA, snapshot
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
Files = Callable[[], list[str]]


def test_a_commit_moves_the_pointer_and_writes_one_file(
    catalog: ApiClient, create_table: CreateTable, files: Files
) -> None:
    created = create_table()
    before = set(files())
    response = catalog.post(
        "/namespaces/ns/tables/t",
        {
            "identifier": {"namespace": ["ns"], "name": "t"},
            "requirements": [{"type": "assert-table-uuid", "uuid": created["metadata"]["table-uuid"]}],
            "updates": [{"action": "set-properties", "updates": {"k": "v"}}],
        },
    )
    assert response.status == 200, response.body
    committed = response.json()
    assert set(committed) == {"metadata-location", "metadata"}
    assert committed["metadata"]["properties"]["k"] == "v"
    assert committed["metadata"]["metadata-log"] == [
        {"metadata-file": created["metadata-location"], "timestamp-ms": created["metadata"]["last-updated-ms"]}
    ]
    assert "/metadata/00001-" in committed["metadata-location"]
    assert len(set(files()) - before) == 1
    loaded = catalog.get("/namespaces/ns/tables/t").json()
    assert loaded["metadata-location"] == committed["metadata-location"]
    assert loaded["metadata"] == committed["metadata"]


def test_no_net_change_writes_nothing(catalog: ApiClient, create_table: CreateTable, files: Files) -> None:
    created = create_table(properties={"k": "v"})
    before = files()
    for updates in ([], [{"action": "set-properties", "updates": {"k": "v"}}]):
        response = catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": updates})
        assert response.json()["metadata-location"] == created["metadata-location"]
    assert files() == before


def test_snapshots_are_projected(catalog: ApiClient, create_table: CreateTable) -> None:
    at = create_table()["metadata"]["last-updated-ms"]
    for number, parent in ((11, None), (12, 11)):
        response = catalog.post(
            "/namespaces/ns/tables/t",
            {
                "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}],
                "updates": [
                    {
                        "action": "add-snapshot",
                        "snapshot": snapshot(number, parent=parent, sequence_number=number, at=at),
                    },
                    {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number},
                ],
            },
        )
        assert response.status == 200, response.body
    assert list(Snapshot.objects.order_by("snapshot_id").values_list("snapshot_id", "parent_snapshot_id")) == [
        (11, None),
        (12, 11),
    ]
    response = catalog.post(
        "/namespaces/ns/tables/t",
        {"requirements": [], "updates": [{"action": "remove-snapshots", "snapshot-ids": [11]}]},
    )
    assert response.status == 200, response.body
    assert list(Snapshot.objects.values_list("snapshot_id", flat=True)) == [12]
    catalog.delete("/namespaces/ns/tables/t")
    assert not Snapshot.objects.exists()


@pytest.mark.parametrize(
    ("body", "status", "wire_type"),
    [
        ({"requirements": {}, "updates": []}, 400, "BadRequestException"),
        ({"requirements": [], "updates": {}}, 400, "BadRequestException"),
        ({"requirements": False}, 400, "BadRequestException"),
        ({"updates": 0}, 400, "BadRequestException"),
        ({"updates": ""}, 400, "BadRequestException"),
        ({"requirements": [], "updates": [{"action": "fly"}]}, 400, "BadRequestException"),
        ({"requirements": [{"type": "assert-luck"}], "updates": []}, 400, "BadRequestException"),
        ({"requirements": [1], "updates": []}, 400, "BadRequestException"),
        ({"requirements": [], "updates": [{"action": "add-snapshot"}]}, 400, "BadRequestException"),
        ({"requirements": [], "updates": [{"action": "set-location", "location": "s3://x/y"}]}, 400, "InvalidLocation"),
        (
            {
                "requirements": [],
                "updates": [{"action": "assign-uuid", "uuid": "0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44"}],
            },
            400,
            "BadRequestException",
        ),
        (
            {"requirements": [], "updates": [], "identifier": {"namespace": ["ns"], "name": "other"}},
            400,
            "TableIdentifierMismatch",
        ),
        (
            {"requirements": [{"type": "assert-current-schema-id", "current-schema-id": 7}], "updates": []},
            409,
            "CommitFailedException",
        ),
        ({"requirements": [{"type": "assert-create"}], "updates": []}, 409, "CommitFailedException"),
    ],
)
def test_refused_commits_change_nothing(
    catalog: ApiClient, create_table: CreateTable, files: Files, body: Any, status: int, wire_type: str
) -> None:
    created = create_table()
    before = files()
    assert catalog.post("/namespaces/ns/tables/t", body).refused(status, wire_type)
    assert files() == before
    assert catalog.get("/namespaces/ns/tables/t").json() == created


@pytest.mark.parametrize(
    "body", [{}, {"requirements": None, "updates": None}, {"requirements": []}, {"updates": []}, {"updates": None}]
)
def test_a_commit_without_updates_changes_nothing(
    catalog: ApiClient, create_table: CreateTable, files: Files, body: Any
) -> None:
    created = create_table()
    before = files()
    assert catalog.post("/namespaces/ns/tables/t", body).json()["metadata"] == created["metadata"]
    assert files() == before


@pytest.mark.parametrize("requirements", [{}, {"requirements": None}])
def test_a_commit_without_requirements_is_unconditional(
    catalog: ApiClient, create_table: CreateTable, requirements: Any
) -> None:
    """iceberg-go sends null."""
    create_table()
    body = {**requirements, "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    assert catalog.post("/namespaces/ns/tables/t", body).json()["metadata"]["properties"]["a"] == "b"


def test_a_table_moves_only_to_a_free_location_in_the_warehouse(
    catalog: ApiClient, warehouse: Warehouse, create_table: CreateTable
) -> None:
    create_table("a")
    other = create_table("b")["metadata"]["location"]

    def move(location: str) -> Any:
        updates = [{"action": "set-location", "location": location}]
        return catalog.post("/namespaces/ns/tables/a", {"requirements": [], "updates": updates})

    assert move(f"{other}/inner").refused(409, "LocationAlreadyTaken")
    moved = move(f"{warehouse.location}/elsewhere").json()
    assert moved["metadata"]["location"] == f"{warehouse.location}/elsewhere"
    assert moved["metadata-location"].startswith(f"{warehouse.location}/elsewhere/metadata/")
    assert Tabular.objects.get(name="a").location == f"{warehouse.location}/elsewhere"


def test_no_table_takes_a_location_where_a_moved_table_still_has_files(
    catalog: ApiClient, warehouse: Warehouse, create_table: CreateTable
) -> None:
    old = create_table("a", location=f"{warehouse.location}/old")["metadata"]["location"]
    there = [{"action": "set-location", "location": f"{warehouse.location}/new"}]
    back = [{"action": "set-location", "location": old}]
    assert catalog.post("/namespaces/ns/tables/a", {"requirements": [], "updates": there}).status == 200
    for location in (old, f"{old}/inner"):
        response = catalog.post("/namespaces/ns/tables", {"name": "b", "schema": SCHEMA, "location": location})
        assert response.refused(409, "LocationAlreadyTaken")
    for updates in (back, there, back):  # the table may return to its own former locations
        assert catalog.post("/namespaces/ns/tables/a", {"requirements": [], "updates": updates}).status == 200
    assert catalog.delete("/namespaces/ns/tables/a?purgeRequested=true").status == 204
    assert Task.objects.live().get().payload["former_locations"].count(f"{warehouse.location}/new") == 1
    assert create_table("b", location=old)


def test_locations_differ_by_case_and_are_bounded_in_bytes(
    catalog: ApiClient, warehouse: Warehouse, create_table: CreateTable
) -> None:
    create_table("a", location=f"{warehouse.location}/ABC/x")
    create_table("b", location=f"{warehouse.location}/abc")
    wide = f"{warehouse.location}/" + "/".join(["\u4e2d" * 80] * 20)
    response = catalog.post("/namespaces/ns/tables", {"name": "c", "schema": SCHEMA, "location": wide})
    assert response.refused(400, "InvalidLocation", "bytes")


def test_a_replaced_snapshot_is_projected_again(catalog: ApiClient, create_table: CreateTable) -> None:
    at = create_table()["metadata"]["last-updated-ms"]

    def commit(*updates: dict[str, Any]) -> Any:
        return catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": list(updates)})

    add = {"action": "add-snapshot", "snapshot": snapshot(1, at=at)}
    assert commit(add).status == 200
    other = {"action": "add-snapshot", "snapshot": snapshot(1, sequence_number=2, at=at + 1)}
    response = commit({"action": "remove-snapshots", "snapshot-ids": [1]}, other)
    assert response.status == 200, response.body
    assert list(Snapshot.objects.values_list("snapshot_id", "timestamp_ms")) == [(1, at + 1)]


def test_a_commit_that_runs_out_of_time_is_408_and_changes_nothing(
    catalog: ApiClient, create_table: CreateTable, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    from icekeeper.kernel.errors.types import RequestTimeout

    created = create_table()
    before = files()
    looks = iter(range(10_000))

    def remaining() -> None:
        if next(looks) == 2:
            raise RequestTimeout("out of time")

    monkeypatch.setattr(request_context, "remaining_seconds", remaining)
    updates = [{"action": "set-properties", "updates": {f"k{number}": "v"}} for number in range(5)]
    response = catalog.post("/namespaces/ns/tables/t", {"requirements": [], "updates": updates})
    monkeypatch.undo()
    assert response.refused(408, "RequestTimeoutException")
    assert files() == before
    assert Tabular.objects.get().metadata_location == created["metadata-location"]
