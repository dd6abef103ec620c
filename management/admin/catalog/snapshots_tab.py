"""The tab with the snapshots of a table as a graph of branches, and the comparison of two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.http import QueryDict

from catalog.iceberg.display.schema_comparison import compare_schemas
from catalog.iceberg.display.snapshot_comparison import compare_snapshots
from catalog.iceberg.display.snapshot_graph import (
    SnapshotEdge,
    SnapshotGraph,
    SnapshotRow,
    build_snapshot_graph,
    read_refs,
    read_snapshot_nodes,
)
from catalog.iceberg.totals import read_engine, read_number
from catalog.iceberg.types import TableMetadata
from catalog.selectors.browse import find_committers
from icekeeper.kernel.errors.types import NotFound
from management.admin.catalog.metadata_facts import find_schema, moment_of

ROWS_A_PAGE: Final = 50
ROW_HEIGHT: Final = 41
LANE_WIDTH: Final = 16
_COLOURED_LANES: Final = 3
"""Lanes further to the right are grey."""
_MAX_ID: Final = 2**63


@dataclass(frozen=True, slots=True)
class Stroke:
    """A part of an edge within one row."""

    lane: int
    path: str


def snapshots_context(metadata: TableMetadata, tabular_id: UUID, query: QueryDict) -> dict[str, Any]:
    """Return a page of the graph: of all branches, or of the one that `query` names.

    `from` is the row with which the page begins. Raises `NotFound` for an unknown branch or snapshot.
    """
    refs = read_refs(metadata)
    branch = query.get("branch") or None
    if branch is not None and branch not in refs:
        raise NotFound("No such branch")
    start = _read_number(query.get("from"), 0)
    if start < 0:
        raise NotFound("No such row")
    graph = build_snapshot_graph(read_snapshot_nodes(metadata), refs, branch=branch)
    window = graph.window(start, ROWS_A_PAGE)
    documents = {each.get("snapshot-id"): each for each in metadata.get("snapshots") or []}
    strokes = _strokes(window)
    committers = find_committers(tabular_id=tabular_id, snapshot_ids=[each.snapshot_id for each in window.rows])
    wanted = {} if branch is None else {"branch": branch}
    older = start + ROWS_A_PAGE
    return {
        "total": len(graph.rows),
        "rows": [
            _row(each, documents.get(each.snapshot_id) or {}, strokes.get(each.row, []))
            | {"committed_by": committers.get(each.snapshot_id)}
            for each in window.rows
        ],
        "graph_width": LANE_WIDTH * max(1, window.lane_count),
        "row_height": ROW_HEIGHT,
        "branches": [(name, f"?{urlencode({'branch': name})}", name == branch) for name in _branches(refs)],
        "branch": branch,
        "newest_url": f"?{urlencode(wanted)}" if start else None,
        "older_url": f"?{urlencode({**wanted, 'from': older})}" if older < len(graph.rows) else None,
        "compared": _compared(metadata, query.getlist("compare")),
    }


def _branches(refs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    names = [name for name, each in refs.items() if each.get("type") == "branch"]
    return sorted(names, key=lambda name: (name != "main", name))


def _read_number(text: str | None, default: int) -> int:
    if text is None:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19 and int(digits) < _MAX_ID):  # noqa: PLR2004
        raise NotFound("Not a number")
    return int(text)


def _row(row: SnapshotRow, document: dict[str, Any], strokes: Sequence[Stroke]) -> dict[str, Any]:
    summary = document.get("summary") or {}
    added, removed = read_number(summary, "added-data-files"), read_number(summary, "deleted-data-files")
    return {
        "id": row.snapshot_id,
        "at": moment_of(row.timestamp_ms),
        "operation": summary.get("operation", ""),
        "engine": read_engine(summary),
        "refs": row.refs,
        "added_rows": read_number(summary, "added-records"),
        "removed_rows": read_number(summary, "deleted-records"),
        "added_files": added,
        "removed_files": removed,
        "total_rows": read_number(summary, "total-records"),
        "strokes": strokes,
        "lane": _colour(row.lane),
        "x": _x(row.lane),
        "y": ROW_HEIGHT / 2,
    }


def _colour(lane: int) -> int:
    return min(lane, _COLOURED_LANES)


def _x(lane: int) -> float:
    return lane * LANE_WIDTH + LANE_WIDTH / 2


def _strokes(window: SnapshotGraph) -> dict[int, list[Stroke]]:
    """Return the parts of the edges by row; each row is a drawing of its own, so that rows of any page align."""
    found: dict[int, list[Stroke]] = {row.row: [] for row in window.rows}
    for edge in window.edges:
        for row, strokes in found.items():
            path = _path(edge, row)
            if path is not None:
                strokes.append(Stroke(_colour(edge.lane), path))
    return found


def _path(edge: SnapshotEdge, row: int) -> str | None:
    """Return the part of an edge in a row: from its child's middle, straight through, or into the parent's middle."""
    middle, x = ROW_HEIGHT / 2, _x(edge.lane)
    ends = edge.to_row
    if row < edge.from_row or (ends is not None and row > ends):
        return None
    if row == edge.from_row:
        return f"M{x} {middle} V{ROW_HEIGHT}"
    if ends is None or row < ends:
        return f"M{x} 0 V{ROW_HEIGHT}"
    target = _x(edge.to_lane)
    if target == x:
        return f"M{x} 0 V{middle}"
    return f"M{x} 0 C{x} {middle} {x} {middle} {target} {middle}"


def _compared(metadata: TableMetadata, given: Sequence[str]) -> dict[str, Any] | None:
    """Return the comparison of the two snapshots that the user marked, the older one first."""
    if len(given) != 2:  # noqa: PLR2004
        return None if not given else {"needs_two": True}
    times = {each.get("snapshot-id"): each.get("timestamp-ms", 0) for each in metadata.get("snapshots") or []}
    first, second = sorted((_read_number(each, 0) for each in given), key=lambda each: times.get(each, 0))
    found = compare_snapshots(metadata, first, second)
    if found is None:
        raise NotFound("No such snapshot")
    schemas = None
    if None not in {found.old_schema_id, found.new_schema_id} and found.old_schema_id != found.new_schema_id:
        schemas = compare_schemas(
            find_schema(metadata, found.old_schema_id), find_schema(metadata, found.new_schema_id)
        )
    return {"found": found, "old_at": moment_of(times[first]), "new_at": moment_of(times[second]), "schemas": schemas}
