"""Lanes and edges of the snapshot graph: exact small graphs, invariants of random ones, pages, and its speed."""

from __future__ import annotations

import time
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from catalog.iceberg.display.snapshot_graph import (
    MAX_LANES,
    RefLabel,
    SnapshotEdge,
    SnapshotGraph,
    SnapshotNode,
    build_snapshot_graph,
    read_refs,
    read_snapshot_nodes,
)
from tests.unit.iceberg.document_fixtures import NOW, table

Refs = dict[str, dict[str, object]]


def node(snapshot_id: int, parent_id: int | None = None, timestamp_ms: int | None = None) -> SnapshotNode:
    return SnapshotNode(snapshot_id, parent_id, snapshot_id if timestamp_ms is None else timestamp_ms)


def branch(snapshot_id: int) -> dict[str, object]:
    return {"snapshot-id": snapshot_id, "type": "branch"}


def tag(snapshot_id: int) -> dict[str, object]:
    return {"snapshot-id": snapshot_id, "type": "tag"}


def lanes(graph: SnapshotGraph) -> list[tuple[int, int]]:
    return [(row.snapshot_id, row.lane) for row in graph.rows]


PICTURE = [
    node(1), node(2, 1), node(3, 2), node(4, 3), node(5, 4), node(6, 5), node(7, 5), node(8, 6), node(9, 7),
    node(10, 2), node(11, 8),
]  # fmt: skip
PICTURE_REFS: Refs = {"main": branch(11), "audit": branch(9), "z": tag(5), "a": tag(5), "experiment": branch(10)}


def test_branches_have_lanes_of_their_own_and_join_at_their_first_snapshot() -> None:
    graph = build_snapshot_graph(PICTURE, PICTURE_REFS)
    assert lanes(graph) == [
        (11, 0), (10, 1), (9, 2), (8, 0), (7, 2), (6, 0), (5, 0), (4, 0), (3, 0), (2, 0), (1, 0),
    ]  # fmt: skip
    assert graph.edges == (
        SnapshotEdge(0, 3, 0, 0),
        SnapshotEdge(1, 9, 1, 0),
        SnapshotEdge(2, 4, 2, 2),
        SnapshotEdge(3, 5, 0, 0),
        SnapshotEdge(4, 6, 2, 0),
        SnapshotEdge(5, 6, 0, 0),
        SnapshotEdge(6, 7, 0, 0),
        SnapshotEdge(7, 8, 0, 0),
        SnapshotEdge(8, 9, 0, 0),
        SnapshotEdge(9, 10, 0, 0),
    )
    assert graph.lane_count == 3
    assert graph.rows[0].refs == (RefLabel("main", "branch", is_main=True),)
    assert [label.name for label in graph.rows[6].refs] == ["a", "z"]
    assert all(row.is_on_branch and not row.is_parent_expired for row in graph.rows)


def test_refs_of_one_snapshot_are_ordered() -> None:
    refs: Refs = {"b": branch(1), "a": tag(1), "main": branch(1), "A": branch(1)}
    [row] = build_snapshot_graph([node(1)], refs).rows
    assert [(label.name, label.kind) for label in row.refs] == [
        ("main", "branch"), ("A", "branch"), ("b", "branch"), ("a", "tag"),
    ]  # fmt: skip


def test_main_keeps_lane_0_when_another_branch_is_newer() -> None:
    graph = build_snapshot_graph([node(1), node(2, 1), node(3, 2)], {"main": branch(1), "wip": branch(3)})
    assert lanes(graph) == [(3, 1), (2, 1), (1, 0)]
    assert graph.edges == (SnapshotEdge(0, 1, 1, 1), SnapshotEdge(1, 2, 1, 0))


def test_without_main_lane_0_is_used() -> None:
    assert lanes(build_snapshot_graph([node(1), node(2, 1)], {})) == [(2, 0), (1, 0)]


def test_expired_parents_and_snapshots_on_no_branch() -> None:
    graph = build_snapshot_graph([node(5, 4), node(7, 5), node(8, 3)], {"main": branch(7), "t": tag(8)})
    assert [(row.snapshot_id, row.is_parent_expired, row.is_on_branch) for row in graph.rows] == [
        (8, True, False), (7, False, True), (5, True, True),
    ]  # fmt: skip
    assert graph.edges == (SnapshotEdge(1, 2, 0, 0),)


def test_older_snapshots_that_were_not_passed() -> None:
    graph = build_snapshot_graph([node(5, 4), node(6, 4), node(7, 1)], {"main": branch(6)}, older_ids=[4])
    assert [row.is_parent_expired for row in graph.rows] == [True, False, False]
    assert graph.edges == (SnapshotEdge(1, None, 0, 0), SnapshotEdge(2, None, 1, 1))


def test_children_are_above_their_parents_whatever_the_clocks() -> None:
    graph = build_snapshot_graph([node(1, None, 900), node(2, 1, 100), node(3, 2, 500)], {"main": branch(3)})
    assert [row.snapshot_id for row in graph.rows] == [3, 2, 1]


def test_a_cycle_ends_the_line() -> None:
    graph = build_snapshot_graph([node(1, 2), node(2, 1), node(3, 3)], {"main": branch(1)})
    assert sorted(row.snapshot_id for row in graph.rows) == [1, 2, 3]
    check_graph(graph)


def test_the_graph_of_one_branch() -> None:
    graph = build_snapshot_graph(PICTURE, PICTURE_REFS, branch="audit")
    assert lanes(graph) == [(9, 1), (7, 1), (5, 0), (4, 0), (3, 0), (2, 0), (1, 0)]
    assert build_snapshot_graph(PICTURE, PICTURE_REFS, branch="no such branch").rows == ()


def test_a_window_has_the_edges_that_cross_it() -> None:
    window = build_snapshot_graph(PICTURE, PICTURE_REFS).window(7, 2)
    assert [row.row for row in window.rows] == [7, 8]
    assert window.edges == (
        SnapshotEdge(1, 9, 1, 0),
        SnapshotEdge(6, 7, 0, 0),
        SnapshotEdge(7, 8, 0, 0),
        SnapshotEdge(8, 9, 0, 0),
    )
    assert window.lane_count == 2
    assert build_snapshot_graph(PICTURE, PICTURE_REFS).window(11, 5) == SnapshotGraph((), (), 0)


def test_a_page_of_a_table_with_thousands_of_branches_is_small() -> None:
    nodes = [node(1), *(node(number, 1) for number in range(2, 10_001))]
    graph = build_snapshot_graph(nodes, {"main": branch(10_000)})
    assert graph.lane_count == MAX_LANES
    for start in (0, 5_000, 9_990):
        assert len(graph.window(start, 50).edges) <= 50 + MAX_LANES + 1


def test_metadata_documents() -> None:
    metadata = table(snapshots=2)
    assert read_snapshot_nodes(metadata) == [node(1, None, NOW + 1_000), node(2, 1, NOW + 2_000)]
    assert read_refs(metadata) == {"main": branch(2)}
    assert read_refs({"current-snapshot-id": 7}) == {"main": branch(7)}
    assert read_refs({}) == {}
    assert read_snapshot_nodes({}) == []
    assert read_snapshot_nodes(table(1, snapshots=1)) == [node(1, None, NOW + 1_000)]


def test_ten_thousand_snapshots() -> None:
    chain = [node(number, number - 1 or None) for number in range(1, 10_001)]
    branches = [node(100_000 + number, number - number % 7 or None, number) for number in range(1, 5_000)]
    started = time.perf_counter()
    graph = build_snapshot_graph(chain + branches, {"main": branch(10_000)})
    assert time.perf_counter() - started < 2
    assert len(graph.rows) == 14_999
    assert all(row.lane == 0 for row in graph.rows if row.snapshot_id <= 10_000)


def check_graph(graph: SnapshotGraph) -> None:
    """Every edge connects a child with its parent, one snapshot a row, and no two lines in one lane overlap."""
    assert [row.row for row in graph.rows] == list(range(len(graph.rows)))
    row_of = {row.snapshot_id: row for row in graph.rows}
    assert len(row_of) == len(graph.rows)
    edge_from = {edge.from_row: edge for edge in graph.edges}
    assert len(edge_from) == len(graph.edges)
    by_lane: dict[int, list[tuple[int, int]]] = {}
    for row in graph.rows:
        edge = edge_from.get(row.row)
        parent = None if row.parent_id is None else row_of.get(row.parent_id)
        if edge is None:
            assert parent is None or parent.row <= row.row or row.is_parent_expired
            continue
        assert edge.lane == row.lane
        if edge.to_row is None:
            assert parent is None
        else:
            assert parent is not None
            assert (edge.to_row, edge.to_lane) == (parent.row, parent.lane)
            assert edge.to_row > edge.from_row
        end = len(graph.rows) + 1 if edge.to_row is None else edge.to_row
        by_lane.setdefault(edge.lane, []).append((edge.from_row, end))
    nodes_by_lane: dict[int, list[int]] = {}
    for row in graph.rows:
        nodes_by_lane.setdefault(row.lane, []).append(row.row)
    for lane, intervals in by_lane.items():
        if lane == MAX_LANES - 1:
            continue
        for (_, end), (start, _) in pairwise(sorted(intervals)):
            assert end <= start
        for start, end in intervals:
            assert not any(start < row < end for row in nodes_by_lane[lane])


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[SnapshotNode], Refs, set[int]]:
    """Snapshots in any order, with clocks that are wrong, expired and older parents, refs also to missing snapshots."""
    count = draw(st.integers(0, 40))
    nodes = []
    for snapshot_id in range(1, count + 1):
        parent_id = draw(st.one_of(st.none(), st.integers(max(-9, snapshot_id - 8), snapshot_id - 1)))
        nodes.append(SnapshotNode(snapshot_id, parent_id, 10 * snapshot_id + draw(st.integers(-30, 30))))
    targets = st.integers(1, count + 2)
    refs = draw(st.dictionaries(st.sampled_from(["main", "a", "b", "c"]), st.builds(branch, targets)))
    refs |= draw(st.dictionaries(st.sampled_from(["t", "u"]), st.builds(tag, targets)))
    return draw(st.permutations(nodes)), refs, draw(st.sets(st.integers(-9, 0)))


@given(histories())
def test_random_histories(history: tuple[list[SnapshotNode], Refs, set[int]]) -> None:
    nodes, refs, older_ids = history
    graph = build_snapshot_graph(nodes, refs, older_ids=older_ids)
    check_graph(graph)
    assert {row.snapshot_id for row in graph.rows} == {each.snapshot_id for each in nodes}
    parents = {each.snapshot_id: each.parent_id for each in nodes}
    main: set[int] = set()
    head = refs.get("main", {}).get("snapshot-id")
    while head in parents:
        main.add(head)
        head = parents[head]
    for row in graph.rows:
        assert (row.lane == 0) is (row.snapshot_id in main) or not main
    expected = {each.snapshot_id for each in nodes if each.parent_id in parents or each.parent_id in older_ids}
    assert {graph.rows[edge.from_row].snapshot_id for edge in graph.edges} == expected
    assert {row.snapshot_id for row in graph.rows if row.is_parent_expired} == {
        each.snapshot_id for each in nodes if each.parent_id is not None and each.snapshot_id not in expected
    }


@given(histories(), st.integers(0, 40), st.integers(1, 15))
def test_windows_of_random_histories(
    history: tuple[list[SnapshotNode], Refs, set[int]], start: int, count: int
) -> None:
    nodes, refs, older_ids = history
    graph = build_snapshot_graph(nodes, refs, older_ids=older_ids)
    window = graph.window(start, count)
    assert window.rows == graph.rows[start : start + count]
    end = start + len(window.rows)
    touching = {
        edge
        for edge in graph.edges
        if window.rows and edge.from_row < end and (edge.to_row is None or edge.to_row >= start)
    }
    assert set(window.edges) <= touching
    assert all(edge.lane == MAX_LANES - 1 for edge in touching - set(window.edges))


@given(st.lists(st.tuples(st.integers(1, 12), st.one_of(st.none(), st.integers(0, 13)), st.integers(0, 5))))
def test_any_parents_at_all(triples: list[tuple[int, int | None, int]]) -> None:
    """Cycles and repeated ids, which no engine writes."""
    graph = build_snapshot_graph([SnapshotNode(*triple) for triple in triples], {"main": branch(3), "a": branch(5)})
    check_graph(graph)
    assert {row.snapshot_id for row in graph.rows} == {triple[0] for triple in triples}
