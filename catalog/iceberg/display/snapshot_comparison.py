"""Two snapshots of a table compared: their total metrics, and how they are related."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from catalog.iceberg.display.snapshot_graph import SnapshotNode, iterate_ancestors, read_snapshot_nodes
from catalog.iceberg.display.stored_parts import list_objects
from catalog.iceberg.totals import read_number
from catalog.iceberg.types import TableMetadata

Unit = Literal["count", "bytes"]
Relation = Literal["same", "ancestor", "descendant", "diverged", "unrelated", "unknown"]

METRICS: Final[tuple[tuple[str, str, Unit], ...]] = (
    ("total-records", "Rows", "count"),
    ("total-files-size", "Size", "bytes"),
    ("total-data-files", "Data files", "count"),
    ("total-delete-files", "Delete files", "count"),
    ("total-position-deletes", "Position deletes", "count"),
    ("total-equality-deletes", "Equality deletes", "count"),
)
"""Key in the summary (table spec, "Optional snapshot summary fields"), label, unit."""


@dataclass(frozen=True, slots=True)
class MetricChange:
    """A metric of two snapshots; None where the summary lacks it, `difference` is new minus old."""

    key: str
    label: str
    unit: Unit
    old: int | None
    new: int | None
    difference: int | None


@dataclass(frozen=True, slots=True)
class SnapshotRelation:
    """How an old and a new snapshot are related.

    `ancestor`: the old one is an ancestor of the new one; `descendant`: the reverse; `diverged`: both descend from
    `common_ancestor_id`; `unrelated`: they have different first snapshots; `unknown`: expired snapshots hide it.
    `old_commits` and `new_commits` count the commits since the common ancestor on either side, None if there is none.
    """

    relation: Relation
    common_ancestor_id: int | None
    old_commits: int | None
    new_commits: int | None

    @property
    def commits_between(self) -> int | None:
        """Commits from one snapshot to the other if one is an ancestor of the other, else None."""
        if self.relation not in {"same", "ancestor", "descendant"}:
            return None
        return (self.old_commits or 0) + (self.new_commits or 0)


@dataclass(frozen=True, slots=True)
class SnapshotComparison:
    """Two snapshots compared. Schema ids are None where the writer did not record them."""

    old_id: int
    new_id: int
    old_schema_id: int | None
    new_schema_id: int | None
    metrics: tuple[MetricChange, ...]
    relation: SnapshotRelation


def compare_snapshots(metadata: TableMetadata, old_id: int, new_id: int) -> SnapshotComparison | None:
    """Compare two snapshots of a metadata document; None if it lacks one of them."""
    documents = {snapshot.get("snapshot-id"): snapshot for snapshot in list_objects(metadata, "snapshots")}
    old, new = documents.get(old_id), documents.get(new_id)
    if old is None or new is None:
        return None
    return SnapshotComparison(
        old_id=old_id,
        new_id=new_id,
        old_schema_id=old.get("schema-id"),
        new_schema_id=new.get("schema-id"),
        metrics=compare_summaries(old.get("summary"), new.get("summary")),
        relation=relate_snapshots(read_snapshot_nodes(metadata), old_id, new_id),
    )


def compare_summaries(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> tuple[MetricChange, ...]:
    """Return one change for each of `METRICS`, in that order, from the summaries of two snapshots."""
    changes = []
    for key, label, unit in METRICS:
        before, after = read_number(old or {}, key), read_number(new or {}, key)
        difference = None if before is None or after is None else after - before
        changes.append(MetricChange(key, label, unit, before, after, difference))
    return tuple(changes)


def relate_snapshots(snapshots: Iterable[SnapshotNode], old_id: int, new_id: int) -> SnapshotRelation:
    """Return how two snapshots are related, in linear time; pass all snapshots of the table."""
    parents = {node.snapshot_id: node.parent_id for node in snapshots}
    old_line = list(iterate_ancestors(parents, old_id))
    new_distances = {snapshot_id: distance for distance, snapshot_id in enumerate(iterate_ancestors(parents, new_id))}
    for old_distance, snapshot_id in enumerate(old_line):
        new_distance = new_distances.get(snapshot_id)
        if new_distance is not None:
            relation = _name_relation(old_distance, new_distance)
            return SnapshotRelation(relation, snapshot_id, old_distance, new_distance)
    new_line = list(new_distances)
    is_complete = all(line and parents[line[-1]] is None for line in (old_line, new_line))
    return SnapshotRelation("unrelated" if is_complete else "unknown", None, None, None)


def _name_relation(old_distance: int, new_distance: int) -> Relation:
    if old_distance and new_distance:
        return "diverged"
    if old_distance:
        return "descendant"
    return "ancestor" if new_distance else "same"
