"""Requirements: when they hold, and the error texts that clients parse."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from catalog.iceberg.requirements import check_requirements, checked_members, guarded_snapshots, requires_create
from icekeeper.kernel.errors.types import BadRequest, CommitFailed
from tests.unit.iceberg.document_fixtures import UUID, table

OTHER = "00000000-0000-4000-8000-000000000000"
BASE = table(
    snapshots=2,
    refs={
        "main": {"snapshot-id": 2, "type": "branch"},
        "b": {"snapshot-id": 1, "type": "branch"},
        "t": {"snapshot-id": 1, "type": "tag"},
    },
)


def ref(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "assert-ref-snapshot-id", "ref": name, **more}


HOLDING = [
    {"type": "assert-table-uuid", "uuid": UUID.upper()},
    ref("main", **{"snapshot-id": 2}),
    ref("t", **{"snapshot-id": 1}),
    ref("absent", **{"snapshot-id": None}),
    ref("absent"),
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 3},
    {"type": "assert-current-schema-id", "current-schema-id": 0},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
    {"type": "assert-default-spec-id", "default-spec-id": 0},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
]


def test_all_that_hold() -> None:
    check_requirements(BASE, HOLDING)
    check_requirements(BASE, [])
    check_requirements(None, [])
    check_requirements(None, [{"type": "assert-create"}])


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        ({"type": "assert-create"}, "table already exists"),
        ({"type": "assert-table-uuid", "uuid": OTHER}, f"UUID does not match: expected {UUID} != {OTHER}"),
        (ref("main", **{"snapshot-id": 1}), "branch main has changed: expected id 1 != 2"),
        (ref("t", **{"snapshot-id": 2}), "tag t has changed: expected id 2 != 1"),
        (ref("main", **{"snapshot-id": None}), "branch main was created concurrently"),
        (ref("main"), "branch main was created concurrently"),
        (ref("t"), "tag t was created concurrently"),
        (ref("x", **{"snapshot-id": 4}), "branch or tag x is missing, expected 4"),
        (
            {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2},
            "last assigned field id changed: expected id 2 != 3",
        ),
        ({"type": "assert-current-schema-id", "current-schema-id": 1}, "current schema changed: expected id 1 != 0"),
        (
            {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1000},
            "last assigned partition id changed: expected id 1000 != 999",
        ),
        (
            {"type": "assert-default-spec-id", "default-spec-id": 1},
            "default partition spec changed: expected id 1 != 0",
        ),
        (
            {"type": "assert-default-sort-order-id", "default-sort-order-id": 1},
            "default sort order changed: expected id 1 != 0",
        ),
    ],
)
def test_a_requirement_that_does_not_hold(requirement: Any, message: str) -> None:
    with pytest.raises(CommitFailed) as error:
        check_requirements(BASE, [requirement])
    assert error.value.message == f"Requirement failed: {message}"
    assert (error.value.status, error.value.wire_type) == (409, "CommitFailedException")


@pytest.mark.parametrize("requirement", HOLDING)
def test_against_no_table(requirement: dict[str, Any]) -> None:
    if requirement["type"].startswith("assert-last-assigned") or (
        requirement["type"] == "assert-ref-snapshot-id" and requirement.get("snapshot-id") is None
    ):
        check_requirements(None, [requirement])
        return
    text = "branch or tag" if requirement["type"] == "assert-ref-snapshot-id" else "table does not exist"
    with pytest.raises(CommitFailed, match=f"^Requirement failed: {text}"):
        check_requirements(None, [requirement])


def test_a_table_without_uuid_matches_none() -> None:
    base = table(1)
    del base["table-uuid"]
    with pytest.raises(CommitFailed, match="UUID does not match"):
        check_requirements(base, [{"type": "assert-table-uuid", "uuid": UUID}])


def test_assert_create_stands_alone() -> None:
    assert requires_create([{"type": "assert-create"}])
    assert not requires_create([])
    assert not requires_create(HOLDING)
    for base in (None, BASE):
        with pytest.raises(BadRequest, match="Invalid create requirements: assert-table-uuid"):
            check_requirements(base, [{"type": "assert-create"}, HOLDING[0]])


@pytest.mark.parametrize(
    ("requirements", "message"),
    [
        (None, "requirements: expected an array, got null"),
        ({}, "requirements: expected an array"),
        ([None], r"requirements\[0\]: expected an object, got null"),
        ([{}], r"requirements\[0\].type: required field is missing"),
        ([{"type": 1}], r"requirements\[0\].type: expected a string, got the number 1"),
        ([HOLDING[0], {"type": "assert-view-uuid"}], r"requirements\[1\]: unknown requirement type: assert-view-uuid"),
        ([{"type": "assert-table-uuid"}], r"requirements\[0\] \(assert-table-uuid\): uuid: required field is missing"),
        ([ref("main", **{"snapshot-id": True})], "snapshot-id: expected a 64-bit integer, got true"),
        ([{"type": "assert-default-spec-id", "default-spec-id": 2**31}], "expected a 32-bit integer"),
        ([{"type": "assert-default-spec-id", "default-spec-id": "0"}], "expected a 32-bit integer"),
        ([{"type": "assert-create"}, {"type": "assert-magic"}], "unknown requirement type: assert-magic"),
    ],
)
def test_malformed_ones(requirements: Any, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        check_requirements(BASE, requirements)


def test_a_malformed_one_is_never_a_conflict() -> None:
    with pytest.raises(BadRequest):
        check_requirements(BASE, [{"type": "assert-current-schema-id", "current-schema-id": 9}, {"type": "nope"}])


def test_the_checked_members_give_the_same_result_as_the_whole() -> None:
    base = table() | {"refs": {"main": {"snapshot-id": 1, "type": "branch"}}}
    known = checked_members(base)
    assert len(known) < len(base)
    assert known["refs"] is not base["refs"], "later changes do not affect it"
    for held, broken in (
        ({"type": "assert-table-uuid", "uuid": UUID}, {"type": "assert-table-uuid", "uuid": str(uuid4())}),
        (head_is("main", 1), head_is("main", 2)),
        (head_is("b", None), head_is("b", 1)),
        *(
            [{"type": f"assert-{field}", field: value} for value in (base[member], 99)]
            for field, member in (
                ("last-assigned-field-id", "last-column-id"),
                ("current-schema-id", "current-schema-id"),
                ("last-assigned-partition-id", "last-partition-id"),
                ("default-spec-id", "default-spec-id"),
                ("default-sort-order-id", "default-sort-order-id"),
            )
        ),
    ):
        check_requirements(known, [held])
        errors = []
        for metadata in (base, known):
            with pytest.raises(CommitFailed) as error:
                check_requirements(metadata, [broken])
            errors.append(error.value.message)
        assert len(set(errors)) == 1


def head_is(ref: str, snapshot_id: int | None) -> dict[str, Any]:
    return {"type": "assert-ref-snapshot-id", "ref": ref, "snapshot-id": snapshot_id}


def chain(*links: tuple[int, int | None]) -> list[dict[str, Any]]:
    return [
        {"action": "add-snapshot", "snapshot": {"snapshot-id": added, "parent-snapshot-id": parent}}
        for added, parent in links
    ]


def put(ref: str, snapshot_id: int) -> dict[str, Any]:
    return {"action": "set-snapshot-ref", "ref-name": ref, "snapshot-id": snapshot_id}


def test_snapshots_are_guarded_by_the_heads_that_are_asserted() -> None:
    links = chain((2, 1), (3, 2), (4, 3), (9, 8))
    assert guarded_snapshots([head_is("main", 1)], [*links, put("main", 4)]) == {2, 3, 4}
    assert guarded_snapshots([head_is("main", 1)], [*links, put("main", 3), put("other", 2)]) == {2, 3}
    assert guarded_snapshots([head_is("main", 7)], [*links, put("main", 4)]) == set()
    both = [head_is("main", 1), head_is("b", 8)]
    assert guarded_snapshots(both, [*links, put("main", 4), put("b", 9)]) == {2, 3, 4, 9}
    assert guarded_snapshots([head_is("new", None)], [*links, put("new", 3)]) == {2, 3}
    assert guarded_snapshots([head_is("main", 1)], [*links, put("main", 1)]) == set()


def test_snapshots_that_are_their_own_ancestors_guard_nothing() -> None:
    for circle in (chain((1, 1)), chain((1, 2), (2, 1)), chain((3, 1), (1, 2), (2, 1)), chain((1, 2), (2, 1), (3, 1))):
        for head in (1, 3):
            for asserted in (None, 1, 2, 3):
                assert guarded_snapshots([head_is("main", asserted)], [*circle, put("main", head)]) == set()


def test_each_link_of_a_chain_is_followed_once() -> None:
    """With a branch at each snapshot: following the chain from every head separately would not end."""
    number = 100_000
    updates = [*chain(*((each, each - 1) for each in range(1, number))), *(put(f"b{n}", n) for n in range(1, number))]
    asserted = [head_is("b0", None), *(head_is(f"b{each}", None) for each in range(1, number))]
    assert len(guarded_snapshots([head_is("absent", None)], updates)) == 0
    assert len(guarded_snapshots(asserted, updates)) == number - 1
