"""Commits prepared on an older version: their requirements are checked against the newest version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.catalog_fixtures import snapshot
from tests.harness.wsgi_client import ApiClient, Response

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CreateTable = Callable[..., dict[str, Any]]
T = "/namespaces/ns/tables/t"


def commit(catalog: ApiClient, requirements: list[Any], *updates: dict[str, Any]) -> Response:
    return catalog.post(T, {"requirements": requirements, "updates": list(updates)})


def head_is(ref: str, snapshot_id: int | None) -> dict[str, Any]:
    return {"type": "assert-ref-snapshot-id", "ref": ref, "snapshot-id": snapshot_id}


def append(ref: str, number: int, *, parent: int | None, sequence: int, at: int) -> list[dict[str, Any]]:
    added = snapshot(number, parent=parent, sequence_number=sequence, at=at)
    return [
        {"action": "add-snapshot", "snapshot": added},
        {"action": "set-snapshot-ref", "ref-name": ref, "type": "branch", "snapshot-id": number},
    ]


@pytest.fixture
def at(catalog: ApiClient, create_table: CreateTable) -> int:
    """Return the location of a table whose branches `main` and `b` begin with snapshot 1."""
    moment: int = create_table()["metadata"]["last-updated-ms"]
    branch = {"action": "set-snapshot-ref", "ref-name": "b", "type": "branch", "snapshot-id": 1}
    first = append("main", 1, parent=None, sequence=1, at=moment)
    assert commit(catalog, [head_is("main", None)], *first, branch).status == 200
    return moment


def test_two_branches(catalog: ApiClient, at: int) -> None:
    """Both writers read sequence number 1 and chose 2; the later commit gets the next number."""
    assert commit(catalog, [head_is("main", 1)], *append("main", 2, parent=1, sequence=2, at=at)).status == 200
    late = commit(catalog, [head_is("b", 1)], *append("b", 3, parent=1, sequence=2, at=at))
    assert late.status == 200, late.body
    metadata = late.json()["metadata"]
    numbers = {each["snapshot-id"]: each["sequence-number"] for each in metadata["snapshots"]}
    assert numbers == {1: 1, 2: 2, 3: 3}
    assert metadata["last-sequence-number"] == 3
    assert {name: ref["snapshot-id"] for name, ref in metadata["refs"].items()} == {"main": 2, "b": 3}
    assert metadata["current-snapshot-id"] == 2


def test_a_chain_of_snapshots_on_a_branch(catalog: ApiClient, at: int) -> None:
    """An overwrite of PyIceberg is a delete and an append in one commit."""
    assert commit(catalog, [head_is("main", 1)], *append("main", 2, parent=1, sequence=2, at=at)).status == 200
    chain = [*append("b", 3, parent=1, sequence=2, at=at), *append("b", 4, parent=3, sequence=3, at=at)]
    late = commit(catalog, [head_is("b", 1)], *chain)
    assert late.status == 200, late.body
    numbers = {each["snapshot-id"]: each["sequence-number"] for each in late.json()["metadata"]["snapshots"]}
    assert numbers == {1: 1, 2: 2, 3: 3, 4: 4}


def test_a_new_branch(catalog: ApiClient, at: int) -> None:
    assert commit(catalog, [head_is("main", 1)], *append("main", 2, parent=1, sequence=2, at=at)).status == 200
    assert commit(catalog, [head_is("new", None)], *append("new", 3, parent=1, sequence=2, at=at)).status == 200


@pytest.mark.parametrize(
    "requirements",
    [
        [],
        [head_is("b", 1)],
        [{"type": "assert-current-schema-id", "current-schema-id": 0}],
    ],
)
def test_a_late_snapshot_that_could_undo_another_is_refused(
    requirements: list[Any], catalog: ApiClient, at: int
) -> None:
    assert commit(catalog, [head_is("main", 1)], *append("main", 2, parent=1, sequence=2, at=at)).status == 200
    before = catalog.get(T).json()
    late = commit(catalog, requirements, *append("main", 3, parent=1, sequence=2, at=at))
    assert late.refused(409, "CommitFailedException", "older than last sequence number 2")
    assert catalog.get(T).json() == before


def test_a_late_snapshot_must_begin_where_it_asserts(catalog: ApiClient, at: int) -> None:
    assert commit(catalog, [head_is("main", 1)], *append("main", 2, parent=1, sequence=2, at=at)).status == 200
    late = commit(catalog, [head_is("main", 2)], *append("main", 3, parent=1, sequence=2, at=at))
    assert late.refused(409, "CommitFailedException", "older than last sequence number 2")
    also = append("b", 3, parent=1, sequence=2, at=at)
    main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 3}
    assert commit(catalog, [head_is("b", 1)], *also, main).refused(409, "CommitFailedException")


def test_a_number_below_its_parents_is_refused(catalog: ApiClient, at: int) -> None:
    assert commit(catalog, [head_is("main", 1)], *append("main", 2, parent=1, sequence=2, at=at)).status == 200
    assert commit(catalog, [head_is("main", 2)], *append("main", 3, parent=2, sequence=2, at=at)).refused(
        409, "CommitFailedException", "older than last sequence number 2"
    )


def test_properties_schema_and_append_do_not_conflict(catalog: ApiClient, at: int) -> None:
    base = catalog.get(T).json()["metadata"]
    assert commit(catalog, [], {"action": "set-properties", "updates": {"a": "b"}}).status == 200
    schema = base["schemas"][0]
    wider = {**schema, "fields": [*schema["fields"], {"id": 3, "name": "more", "type": "int", "required": False}]}
    asserted = [
        {"type": "assert-current-schema-id", "current-schema-id": 0},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2},
    ]
    add = [{"action": "add-schema", "schema": wider}, {"action": "set-current-schema", "schema-id": -1}]
    assert commit(catalog, asserted, *add).status == 200
    assert commit(catalog, [head_is("main", 1)], *append("main", 2, parent=1, sequence=2, at=at)).status == 200
    assert commit(catalog, asserted, *add).refused(409, "CommitFailedException", "current schema changed")
    metadata = catalog.get(T).json()["metadata"]
    assert (metadata["current-schema-id"], metadata["current-snapshot-id"]) == (1, 2)
    assert metadata["properties"] == {"a": "b"}


def test_row_ids_of_version_3_are_never_given_twice(catalog: ApiClient, create_table: CreateTable) -> None:
    at = create_table(properties={"format-version": "3"})["metadata"]["last-updated-ms"]

    def rows(updates: list[dict[str, Any]], first: int) -> list[dict[str, Any]]:
        updates[0]["snapshot"] |= {"first-row-id": first, "added-rows": 10}
        return updates

    branch = {"action": "set-snapshot-ref", "ref-name": "b", "type": "branch", "snapshot-id": 1}
    begun = rows(append("main", 1, parent=None, sequence=1, at=at), 0)
    assert commit(catalog, [head_is("main", None)], *begun, branch).status == 200
    second = rows(append("main", 2, parent=1, sequence=2, at=at), 10)
    assert commit(catalog, [head_is("main", 1)], *second).status == 200
    late = rows(append("b", 3, parent=1, sequence=2, at=at), 10)
    assert commit(catalog, [head_is("b", 1)], *late).refused(409, "CommitFailedException", "first-row-id is behind")
