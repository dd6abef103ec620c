"""Metrics of two snapshots, and how they are related."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.iceberg.display.snapshot_comparison import (
    SnapshotRelation,
    compare_snapshots,
    compare_summaries,
    relate_snapshots,
)
from catalog.iceberg.display.snapshot_graph import SnapshotNode
from catalog.iceberg.totals import read_number
from tests.unit.iceberg.document_fixtures import snapshot, table


def nodes(**parents: int | None) -> list[SnapshotNode]:
    return [SnapshotNode(int(name[1:]), parent, 0) for name, parent in parents.items()]


LINE = nodes(n1=None, n2=1, n3=2, n4=3, n5=2, n6=5, n8=7, n9=None)


@pytest.mark.parametrize(
    ("old_id", "new_id", "expected"),
    [
        (2, 2, SnapshotRelation("same", 2, 0, 0)),
        (1, 4, SnapshotRelation("ancestor", 1, 0, 3)),
        (4, 1, SnapshotRelation("descendant", 1, 3, 0)),
        (4, 5, SnapshotRelation("diverged", 2, 2, 1)),
        (4, 9, SnapshotRelation("unrelated", None, None, None)),
        (4, 8, SnapshotRelation("unknown", None, None, None)),
        (4, 77, SnapshotRelation("unknown", None, None, None)),
    ],
)
def test_relations(old_id: int, new_id: int, expected: SnapshotRelation) -> None:
    assert relate_snapshots(LINE, old_id, new_id) == expected


def test_commits_between() -> None:
    assert relate_snapshots(LINE, 1, 4).commits_between == relate_snapshots(LINE, 4, 1).commits_between == 3
    assert relate_snapshots(LINE, 2, 2).commits_between == 0
    assert relate_snapshots(LINE, 4, 5).commits_between is None
    assert relate_snapshots(LINE, 4, 8).commits_between is None


def test_metrics_with_differences() -> None:
    old = {"operation": "append", "total-records": "100", "total-data-files": "3", "total-files-size": "2048"}
    new = {"total-records": "90", "total-data-files": "3", "total-delete-files": "1", "total-position-deletes": "10"}
    assert [(each.key, each.unit, each.old, each.new, each.difference) for each in compare_summaries(old, new)] == [
        ("total-records", "count", 100, 90, -10),
        ("total-files-size", "bytes", 2048, None, None),
        ("total-data-files", "count", 3, 3, 0),
        ("total-delete-files", "count", None, 1, None),
        ("total-position-deletes", "count", None, 10, None),
        ("total-equality-deletes", "count", None, None, None),
    ]
    assert all(each.old is None and each.new is None for each in compare_summaries(None, {}))


@pytest.mark.parametrize(
    "text", ["", "-1", "1.5", "1e9", " 1", "1\n", "\u0661", "9" * 19, "1" * 5000, "0x10", "NaN", None, 7]
)
def test_no_number(text: Any) -> None:
    assert read_number({"total-records": text}, "total-records") is None


def test_the_highest_number() -> None:
    assert read_number({"total-records": str(2**63 - 1)}, "total-records") == 2**63 - 1


def test_snapshots_of_a_document() -> None:
    first = snapshot(1, summary={"operation": "append", "total-records": "1"})
    second = snapshot(2, parent=1, summary={"operation": "append", "total-records": "5"})
    metadata = table(snapshots=2) | {"snapshots": [first, second]}
    comparison = compare_snapshots(metadata, 1, 2)
    assert comparison is not None
    assert (comparison.old_schema_id, comparison.new_schema_id) == (0, 0)
    assert comparison.metrics[0].difference == 4
    assert comparison.relation == SnapshotRelation("ancestor", 1, 0, 1)
    assert compare_snapshots(metadata, 1, 3) is None
    assert compare_snapshots({}, 1, 2) is None
    bare = {"snapshots": [{"snapshot-id": 1}, {"snapshot-id": 2}]}
    comparison = compare_snapshots(bare, 1, 2)
    assert comparison is not None
    assert comparison.relation.relation == "unrelated"


@given(
    st.dictionaries(st.integers(1, 9), st.one_of(st.none(), st.integers(0, 9))), st.integers(1, 9), st.integers(1, 9)
)
def test_relations_are_symmetric(parents: dict[int, int | None], old_id: int, new_id: int) -> None:
    """Also in cycles, which no valid table has."""
    known = [SnapshotNode(snapshot_id, parent_id, 0) for snapshot_id, parent_id in parents.items()]
    there, back = relate_snapshots(known, old_id, new_id), relate_snapshots(known, new_id, old_id)
    reverse = {"ancestor": "descendant", "descendant": "ancestor"}
    if there.old_commits is None:
        assert there == back
    elif not _has_cycle(parents):
        assert back.relation == reverse.get(there.relation, there.relation)
        assert (there.old_commits, there.new_commits) == (back.new_commits, back.old_commits)
        assert there.common_ancestor_id == back.common_ancestor_id


def _has_cycle(parents: dict[int, int | None]) -> bool:
    for current in parents.values():
        steps = 0
        while current is not None and current in parents and steps <= len(parents):
            current, steps = parents[current], steps + 1  # noqa: PLW2901
        if steps > len(parents):
            return True
    return False
