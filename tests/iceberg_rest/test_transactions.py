"""POST /transactions/commit: several tables, all or none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from django.db import IntegrityError

from catalog.models import LocationClaim, Tabular
from catalog.services.commit import pointer, revisions, service
from catalog.services.commit.revisions import write_revisions
from tests.catalog_fixtures import SCHEMA, finishing_updates, snapshot
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient, Response

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
Files = Callable[[], list[str]]


def named(name: str, *, namespace: str = "ns") -> dict[str, Any]:
    return {"namespace": [namespace], "name": name}


def setting(name: str, value: str, *requirements: dict[str, Any]) -> dict[str, Any]:
    update = {"action": "set-properties", "updates": {"p": value}}
    return {"identifier": named(name), "requirements": list(requirements), "updates": [update]}


def commit(catalog: ApiClient, *changes: Any) -> Response:
    return catalog.post("/transactions/commit", {"table-changes": list(changes)})


def properties(catalog: ApiClient, *names: str) -> list[str | None]:
    loaded = [catalog.get(f"/namespaces/ns/tables/{name}").json() for name in names]
    return [each["metadata"]["properties"].get("p") for each in loaded]


def test_all_tables_change_at_once(catalog: ApiClient, create_table: CreateTable) -> None:
    created = {name: create_table(name) for name in ("a", "b", "c")}
    at = created["a"]["metadata"]["last-updated-ms"]
    append = [
        {"action": "add-snapshot", "snapshot": snapshot(7, at=at)},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7},
    ]
    held = {"type": "assert-table-uuid", "uuid": created["b"]["metadata"]["table-uuid"]}
    response = commit(
        catalog,
        setting("b", "2", held),
        setting("a", "1"),
        {"identifier": named("c"), "requirements": [], "updates": append},
    )
    assert (response.status, response.body) == (204, b"")
    assert properties(catalog, "a", "b") == ["1", "2"]
    assert catalog.get("/namespaces/ns/tables/c").json()["metadata"]["current-snapshot-id"] == 7
    for name in created:
        log = catalog.get(f"/namespaces/ns/tables/{name}").json()["metadata"]["metadata-log"]
        assert [entry["metadata-file"] for entry in log] == [created[name]["metadata-location"]]


def test_one_refused_requirement_refuses_all(catalog: ApiClient, create_table: CreateTable, files: Files) -> None:
    create_table("a")
    create_table("b")
    before = files()
    wrong = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 5}
    response = commit(catalog, setting("a", "1"), setting("b", "2", wrong))
    assert response.refused(
        409, "CommitFailedException", "Requirement failed: branch or tag main is missing, expected 5"
    )
    assert properties(catalog, "a", "b") == [None, None]
    assert files() == before


@pytest.mark.parametrize(
    ("changes", "status", "wire_type"),
    [
        (None, 400, "BadRequestException"),
        ("x", 400, "BadRequestException"),
        ([1], 400, "BadRequestException"),
        ([{"requirements": [], "updates": []}], 400, "TableIdentifierRequiredForCommitTransaction"),
        ([{"identifier": "a", "requirements": [], "updates": []}], 400, "BadRequestException"),
        ([{"identifier": named("a"), "requirements": [], "updates": {}}], 400, "BadRequestException"),
        ([{"identifier": named("a"), "requirements": 0, "updates": []}], 400, "BadRequestException"),
        ([setting("a", "1"), setting("no", "2")], 404, "NoSuchTableException"),
        ([setting("a", "1"), setting("A", "2")], 400, "TableIdentifiersNotUnique"),
        ([setting("a", "1"), setting("b", "2", {"type": "assert-create"})], 409, "CommitFailedException"),
        ([setting("a", "1"), setting("new", "2", {"type": "assert-create"})], 404, "NoSuchTableException"),
        ([setting("a", "1"), {**setting("b", "2"), "updates": [{"action": "no"}]}], 400, "BadRequestException"),
        ([setting("a", "1"), setting("b", "2", {"type": "no"})], 400, "BadRequestException"),
    ],
)
def test_a_rejected_transaction_changes_nothing(
    changes: Any, status: int, wire_type: str, catalog: ApiClient, create_table: CreateTable, files: Files
) -> None:
    create_table("a")
    create_table("b")
    before = files()
    assert catalog.post("/transactions/commit", {"table-changes": changes}).refused(status, wire_type)
    assert properties(catalog, "a", "b") == [None, None]
    assert files() == before


@pytest.mark.parametrize("takes_part", ["alone", "first", "last"])
def test_a_transaction_needs_existing_tables(
    catalog: ApiClient,
    create_table: CreateTable,
    files: Files,
    everything: Callable[[], Fingerprint],
    takes_part: str,
) -> None:
    """The specification creates tables with their own route only: here a missing table is an error."""
    create_table("a")
    staged = catalog.post("/namespaces/ns/tables", {"name": "new", "schema": SCHEMA, "stage-create": True}).json()
    creation = {"requirements": [{"type": "assert-create"}], "updates": finishing_updates(staged["metadata"])}
    change, other = {"identifier": named("new"), **creation}, setting("a", "1")
    before, written = everything(), files()
    response = commit(catalog, *{"alone": [change], "first": [change, other], "last": [other, change]}[takes_part])
    assert response.refused(404, "NoSuchTableException", "Table does not exist: ns.new")
    assert (everything(), files()) == (before, written)
    assert catalog.post("/namespaces/ns/tables/new", creation).status == 200, "its own route creates it"
    assert commit(catalog, change, other).refused(409, "CommitFailedException", "table already exists")
    assert properties(catalog, "a") == [None]


def test_nothing_to_do_is_done(catalog: ApiClient, create_table: CreateTable, files: Files) -> None:
    created = create_table("a")
    before = files()
    assert commit(catalog).status == 204
    assert commit(catalog, {"identifier": named("a"), "requirements": [], "updates": []}).status == 204
    assert catalog.get("/namespaces/ns/tables/a").json() == created
    assert files() == before


def test_requirements_and_updates_are_optional(catalog: ApiClient, create_table: CreateTable) -> None:
    create_table("a")
    create_table("b")
    update = {"action": "set-properties", "updates": {"p": "1"}}
    changes = [
        {"identifier": named("a"), "requirements": None, "updates": [update]},
        {"identifier": named("b"), "updates": None},
    ]
    assert commit(catalog, *changes).status == 204
    assert commit(catalog, {"identifier": named("b")}).status == 204
    assert properties(catalog, "a", "b") == ["1", None]


def test_a_table_that_changed_meanwhile_is_checked_again(
    catalog: ApiClient, create_table: CreateTable, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another client commits to `b` after the transaction has read it: `a` must not change before `b` can."""
    create_table("a")
    create_table("b")
    write, times = write_revisions, []

    def interrupted(*args: Any, **options: Any) -> bool:
        if not times:
            times.append(1)
            monkeypatch.setattr(service, "write_revisions", write)
            other = {"action": "set-properties", "updates": {"other": "x"}}
            done = catalog.post("/namespaces/ns/tables/b", {"requirements": [], "updates": [other]})
            assert done.status == 200
        return write(*args, **options)

    monkeypatch.setattr(service, "write_revisions", interrupted)
    # The transaction has the in-process slot of `b`, which other processes do not see.
    monkeypatch.setattr("catalog.services.commit.queue._queues", {})
    monkeypatch.setattr(service, "reserve_commit_slots", lambda addresses: _no_slot())
    assert commit(catalog, setting("a", "1"), setting("b", "2")).status == 204
    assert properties(catalog, "a", "b") == ["1", "2"]
    b = catalog.get("/namespaces/ns/tables/b").json()["metadata"]
    assert b["properties"] == {"other": "x", "p": "2"}
    assert len(b["metadata-log"]) == 2
    assert len(catalog.get("/namespaces/ns/tables/a").json()["metadata"]["metadata-log"]) == 1
    assert len(files()) == 2 + 1 + 2, "the files of the first attempt were deleted"


class _no_slot:  # noqa: N801 - stands in for a function
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def test_a_database_error_deletes_all_written_files(
    catalog: ApiClient, create_table: CreateTable, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_table("a")
    create_table("b")
    before, move = files(), pointer.move_pointer
    calls: list[int] = []

    def failing(*args: Any) -> bool:
        calls.append(1)
        if len(calls) == 2:
            raise IntegrityError("planted")
        return move(*args)

    with monkeypatch.context() as broken:
        broken.setattr(revisions, "move_pointer", failing)
        assert commit(catalog, setting("a", "1"), setting("b", "2")).status == 500
    assert properties(catalog, "a", "b") == [None, None]
    assert files() == before


def test_a_transaction_may_move_tables(catalog: ApiClient, create_table: CreateTable, warehouse: Any) -> None:
    created = {name: create_table(name)["metadata"] for name in ("a", "b")}
    moves = [
        {
            "identifier": named(name),
            "requirements": [],
            "updates": [{"action": "set-location", "location": f"{warehouse.location}/moved/{name}"}],
        }
        for name in created
    ]
    assert commit(catalog, *moves).status == 204
    assert set(LocationClaim.objects.values_list("location", flat=True)) == {
        each["location"] for each in created.values()
    }
    inside = {**moves[0], "updates": [{"action": "set-location", "location": f"{warehouse.location}/moved/b/x"}]}
    assert commit(catalog, setting("b", "1"), inside).refused(409, "LocationAlreadyTaken")
    assert properties(catalog, "b") == [None]
    assert {row.location for row in Tabular.objects.all()} == {f"{warehouse.location}/moved/{name}" for name in created}


@pytest.mark.parametrize(("a", "b"), [("y", "y"), ("y", "y/sub"), ("y/sub", "y")])
def test_tables_of_a_transaction_keep_out_of_each_others_way(
    a: str, b: str, catalog: ApiClient, create_table: CreateTable, warehouse: Any, files: Files
) -> None:
    for name in ("a", "b"):
        create_table(name)
    before, rows = files(), list(Tabular.objects.order_by("id").values())
    moves = [
        {
            "identifier": named(name),
            "requirements": [],
            "updates": [{"action": "set-location", "location": f"{warehouse.location}/{location}"}],
        }
        for name, location in (("a", a), ("b", b))
    ]
    assert commit(catalog, *moves).refused(409, "LocationAlreadyTaken")
    assert (files(), list(Tabular.objects.order_by("id").values())) == (before, rows)


def test_a_table_with_requirements_only_is_locked_at_the_commit(
    catalog: ApiClient, create_table: CreateTable, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process changes it after its requirements were checked."""
    for name in ("a", "b"):
        create_table(name)
    held = {"type": "assert-current-schema-id", "current-schema-id": 0}
    only_asserted = {"identifier": named("b"), "requirements": [held], "updates": []}
    write = write_revisions

    def overtaken(*args: Any, **options: Any) -> bool:
        monkeypatch.setattr(service, "write_revisions", write)
        row = Tabular.objects.get(name="b")
        document = catalog.get("/namespaces/ns/tables/b").json()["metadata"]
        schema = {**document["schemas"][0], "schema-id": 1}
        schema["fields"] = [*schema["fields"], {"id": 3, "name": "more", "type": "int", "required": False}]
        update = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(service, "reserve_commit_slots", lambda _: nullcontext())
            assert catalog.post("/namespaces/ns/tables/b", {"requirements": [], "updates": update}).status == 200
        assert Tabular.objects.get(name="b").metadata_location != row.metadata_location
        return write(*args, **options)

    monkeypatch.setattr(service, "write_revisions", overtaken)
    before = len(files())
    assert commit(catalog, setting("a", "1"), only_asserted).refused(409, "CommitFailedException", "current schema")
    assert properties(catalog, "a") == [None]
    assert len(files()) == before + 1, "only the file of the other commit"
    still_there = {"type": "assert-current-schema-id", "current-schema-id": 1}
    assert commit(catalog, setting("a", "1"), only_asserted | {"requirements": [still_there]}).status == 204
    assert properties(catalog, "a") == ["1"]


def test_nothing_is_done_in_the_warehouse_of_the_path_only(catalog: ApiClient) -> None:
    assert commit(catalog).status == 204
    elsewhere = ApiClient("/catalog/v1/0198c0de-0000-7000-8000-000000000000")
    response = commit(elsewhere)
    assert (response.status, response.json()["error"]["type"]) == (404, "NoSuchWarehouseException")
