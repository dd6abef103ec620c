"""The graph of a table's snapshots and branches, as rows and lanes of a drawing.

A snapshot has at most one parent, so branches separate and never merge. Rows are ordered newest first, children always
above their parents. A branch runs down its lane until the row of the snapshot where it started.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from catalog.iceberg.display.stored_parts import list_objects
from catalog.iceberg.types import MAIN_BRANCH, TableMetadata

MAX_LANES: Final = 12
"""All branches that are further to the right share the last lane."""


class SnapshotNode(NamedTuple):
    """A snapshot as the graph needs it; `timestamp_ms` is the time of the commit, in milliseconds since the epoch."""

    snapshot_id: int
    parent_id: int | None
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class RefLabel:
    """A branch or tag that refers to a snapshot."""

    name: str
    kind: Literal["branch", "tag"]
    is_main: bool


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """A row of the graph. `row` counts from 0 at the newest snapshot of the whole table, `lane` from 0 at the left.

    `is_parent_expired` is set if the parent no longer exists. `is_on_branch` is set for the head of a branch and its
    ancestors. `refs` has `main` first, then branches, then tags, by name.
    """

    row: int
    snapshot_id: int
    parent_id: int | None
    timestamp_ms: int
    lane: int
    is_parent_expired: bool
    is_on_branch: bool
    refs: tuple[RefLabel, ...]


@dataclass(frozen=True, slots=True)
class SnapshotEdge:
    """A line from a snapshot down to its parent: straight down in `lane` from `from_row`, then to `to_lane` between
    the last two rows.

    Rows are those of `SnapshotRow.row`; the part outside of the drawn rows is not clipped. `to_row` is None for a
    parent that is older than all known snapshots: the line leaves the drawing at the bottom.
    """

    from_row: int
    to_row: int | None
    lane: int
    to_lane: int


@dataclass(frozen=True, slots=True)
class SnapshotGraph:
    """All rows of a table's graph; `window` cuts out a page.

    `lane_count` is the number of lanes that rows or edges use, at most `MAX_LANES`. Edges are ordered by `from_row`.
    """

    rows: tuple[SnapshotRow, ...]
    edges: tuple[SnapshotEdge, ...]
    lane_count: int

    def window(self, start: int, count: int) -> SnapshotGraph:
        """Return `count` rows from row `start` on, and the edges that cross or touch them, without duplicates."""
        rows = self.rows[start : start + count]
        if not rows:
            return SnapshotGraph((), (), 0)
        end = start + len(rows)
        edges: dict[tuple[int, int | None, int, int], SnapshotEdge] = {}
        for edge in self.edges:
            if edge.from_row >= end or (edge.to_row is not None and edge.to_row < start):
                continue
            from_row = max(edge.from_row, start - 1)
            # In the last lane there may be many edges: those that look the same in this window are one.
            if edge.to_row is None or edge.to_row > end:
                edges.setdefault((from_row, None, edge.lane, edge.lane), edge)
            else:
                edges.setdefault((from_row, edge.to_row, edge.lane, edge.to_lane), edge)
        lanes = [row.lane for row in rows] + [edge.lane for edge in edges.values()]
        return SnapshotGraph(rows, tuple(edges.values()), max(lanes, default=-1) + 1)


def read_snapshot_nodes(metadata: TableMetadata) -> list[SnapshotNode]:
    """Return the snapshots of a metadata document, in stored order."""
    nodes = []
    for snapshot in list_objects(metadata, "snapshots"):
        snapshot_id = snapshot.get("snapshot-id")
        if isinstance(snapshot_id, int):
            nodes.append(SnapshotNode(snapshot_id, snapshot.get("parent-snapshot-id"), snapshot.get("timestamp-ms", 0)))
    return nodes


def read_refs(metadata: TableMetadata) -> dict[str, dict[str, Any]]:
    """Return the `refs` of a metadata document; if there are none, `main` is its `current-snapshot-id`."""
    refs = metadata.get("refs")
    if isinstance(refs, dict) and refs:
        return {name: ref for name, ref in refs.items() if isinstance(ref, dict)}
    current_id = metadata.get("current-snapshot-id")
    return {MAIN_BRANCH: {"snapshot-id": current_id, "type": "branch"}} if isinstance(current_id, int) else {}


def iterate_ancestors(parents: Mapping[int, int | None], snapshot_id: int | None) -> Iterator[int]:
    """Yield a snapshot and its ancestors, nearest first, as far as `parents` knows them; each once, also in a cycle."""
    seen: set[int] = set()
    while snapshot_id is not None and snapshot_id in parents and snapshot_id not in seen:
        yield snapshot_id
        seen.add(snapshot_id)
        snapshot_id = parents[snapshot_id]


def build_snapshot_graph(
    snapshots: Iterable[SnapshotNode],
    refs: Mapping[str, Mapping[str, Any]],
    *,
    older_ids: Collection[int] = (),
    branch: str | None = None,
) -> SnapshotGraph:
    """Return the graph of snapshots in O(n log n).

    `refs` is the member of that name of table metadata. The ancestors of `main` have lane 0, which no other snapshot
    has while `main` exists. Pass all snapshots of the table, so that lanes are the same on each page; if it is only the
    newest ones, pass the ids of the others as `older_ids`, so that edges to them continue downwards. Without that, a
    missing parent counts as expired. `branch` restricts the graph to the snapshots of that branch or tag.
    """
    nodes = {node.snapshot_id: node for node in snapshots}
    parents = {node.snapshot_id: node.parent_id for node in nodes.values()}
    if branch is not None:
        selected = set(iterate_ancestors(parents, _get_target(refs.get(branch))))
        nodes = {snapshot_id: node for snapshot_id, node in nodes.items() if snapshot_id in selected}
    ordered = _sort_newest_first(nodes)
    row_of = {node.snapshot_id: row for row, node in enumerate(ordered)}
    main_ids = set(iterate_ancestors(parents, _get_target(refs.get(MAIN_BRANCH))))
    known_older = frozenset(older_ids)
    lanes = _Lanes(has_main=bool(main_ids))
    lane_of: list[int] = []
    parent_rows: list[int | None] = []
    continues: list[bool] = []
    for row, node in enumerate(ordered):
        lane = lanes.take(node.snapshot_id, is_main=node.snapshot_id in main_ids)
        parent_row = row_of.get(node.parent_id, -1) if node.parent_id is not None else -1
        is_below = parent_row > row  # false in a cycle, too
        is_older = node.parent_id is not None and node.parent_id not in row_of and node.parent_id in known_older
        if node.parent_id is not None and (is_below or is_older):
            lanes.wait(lane, node.parent_id)
        else:
            lanes.release(lane)
        lane_of.append(lane)
        parent_rows.append(parent_row if is_below else None)
        continues.append(is_older)
    ref_labels = _group_refs(refs)
    on_branch = _find_on_branch(parents, refs)
    rows, edges = [], []
    for row, node in enumerate(ordered):
        lane, to_row = _clip(lane_of[row]), parent_rows[row]
        if to_row is not None:
            edges.append(SnapshotEdge(row, to_row, lane, _clip(lane_of[to_row])))
        elif continues[row]:
            edges.append(SnapshotEdge(row, None, lane, lane))
        is_expired = node.parent_id is not None and node.parent_id not in parents and not continues[row]
        rows.append(
            SnapshotRow(
                row=row,
                snapshot_id=node.snapshot_id,
                parent_id=node.parent_id,
                timestamp_ms=node.timestamp_ms,
                lane=lane,
                is_parent_expired=is_expired,
                is_on_branch=node.snapshot_id in on_branch,
                refs=ref_labels.get(node.snapshot_id, ()),
            )
        )
    return SnapshotGraph(tuple(rows), tuple(edges), max((row.lane for row in rows), default=-1) + 1)


class _Lanes:
    """The lanes of a drawing while it is built from the top to the bottom."""

    def __init__(self, *, has_main: bool) -> None:
        self._has_main = has_main
        self._free: list[int] = []
        self._count = 1 if has_main else 0
        self._waiting: dict[int, list[int]] = defaultdict(list)

    def take(self, snapshot_id: int, *, is_main: bool) -> int:
        """Return the lane of the next row: the leftmost one that waits for it, else a new one. The others end here."""
        waiting = self._waiting.pop(snapshot_id, [])
        lane = 0 if is_main else min(waiting, default=-1)
        for other in waiting:
            if other != lane:
                self.release(other)
        if lane >= 0:
            return lane
        if self._free:
            return heapq.heappop(self._free)
        self._count += 1
        return self._count - 1

    def wait(self, lane: int, parent_id: int) -> None:
        """Reserve the lane until the row of the parent."""
        self._waiting[parent_id].append(lane)

    def release(self, lane: int) -> None:
        if lane > 0 or not self._has_main:
            heapq.heappush(self._free, lane)


def _clip(lane: int) -> int:
    return min(lane, MAX_LANES - 1)


def _sort_newest_first(nodes: Mapping[int, SnapshotNode]) -> list[SnapshotNode]:
    """The newest first, but no parent before its children, whatever the clocks of the writers said.

    A cycle of parents, which no valid table has, is opened at its newest snapshot.
    """
    child_counts: dict[int, int] = defaultdict(int)
    for node in nodes.values():
        if node.parent_id is not None and node.parent_id in nodes and node.parent_id != node.snapshot_id:
            child_counts[node.parent_id] += 1
    newest_first = sorted(nodes.values(), key=_age)
    ready = [(*_age(node), node) for node in newest_first if not child_counts[node.snapshot_id]]
    heapq.heapify(ready)
    ordered: list[SnapshotNode] = []
    done: set[int] = set()
    remaining = iter(newest_first)
    while len(ordered) < len(nodes):
        node = heapq.heappop(ready)[2] if ready else next(remaining)
        if node.snapshot_id in done:
            continue
        done.add(node.snapshot_id)
        ordered.append(node)
        parent = None if node.parent_id is None else nodes.get(node.parent_id)
        if parent is not None and parent is not node:
            child_counts[parent.snapshot_id] -= 1
            if not child_counts[parent.snapshot_id]:
                heapq.heappush(ready, (*_age(parent), parent))
    return ordered


def _age(node: SnapshotNode) -> tuple[int, int]:
    return -node.timestamp_ms, node.snapshot_id


def _get_target(ref: Mapping[str, Any] | None) -> int | None:
    snapshot_id = None if ref is None else ref.get("snapshot-id")
    return snapshot_id if isinstance(snapshot_id, int) else None


def _is_branch(ref: Mapping[str, Any]) -> bool:
    return str(ref.get("type", "branch")).lower() == "branch"


def _group_refs(refs: Mapping[str, Mapping[str, Any]]) -> dict[int, tuple[RefLabel, ...]]:
    grouped: dict[int, list[RefLabel]] = defaultdict(list)
    for name, ref in refs.items():
        target = _get_target(ref)
        if target is not None:
            grouped[target].append(RefLabel(name, "branch" if _is_branch(ref) else "tag", name == MAIN_BRANCH))
    return {
        target: tuple(sorted(labels, key=lambda label: (not label.is_main, label.kind, label.name)))
        for target, labels in grouped.items()
    }


def _find_on_branch(parents: Mapping[int, int | None], refs: Mapping[str, Mapping[str, Any]]) -> set[int]:
    found: set[int] = set()
    for ref in refs.values():
        if _is_branch(ref):
            for snapshot_id in iterate_ancestors(parents, _get_target(ref)):
                if snapshot_id in found:
                    break
                found.add(snapshot_id)
    return found
