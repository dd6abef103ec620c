"""Moving the pointer of a table: a compare-and-set with everything that hangs on it, all or nothing.

On PostgreSQL it is one statement whose parts all depend on the compare-and-set, so one round trip and no lock held
between statements; on SQLite the same steps run one by one in an immediate transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from catalog.models import Snapshot, Tabular, TabularMetadata
from icekeeper.kernel.json_text import write_json
from icekeeper.kernel.sql import fetch_one

_MOVE = """
WITH moved AS (
  UPDATE catalog_tabular SET metadata_location = %s, location = %s, updated_at = %s
   WHERE id = %s AND metadata_location = %s
  RETURNING id
), stored AS (
  UPDATE catalog_tabularmetadata SET document = %s WHERE tabular_id IN (SELECT id FROM moved)
)
SELECT count(*) FROM moved
"""

_MOVE_WITH_SNAPSHOTS = """
WITH moved AS (
  UPDATE catalog_tabular SET metadata_location = %s, location = %s, updated_at = %s
   WHERE id = %s AND metadata_location = %s
  RETURNING id
), stored AS (
  UPDATE catalog_tabularmetadata SET document = %s WHERE tabular_id IN (SELECT id FROM moved)
), removed AS (
  DELETE FROM catalog_snapshot WHERE tabular_id IN (SELECT id FROM moved) AND snapshot_id = ANY(%s)
), added AS (
  INSERT INTO catalog_snapshot
         (tabular_id, snapshot_id, parent_snapshot_id, sequence_number, schema_id, timestamp_ms, summary)
  SELECT moved.id, s.snapshot_id, s.parent_snapshot_id, s.sequence_number, s.schema_id, s.timestamp_ms, s.summary
    FROM moved, jsonb_to_recordset(%s::jsonb) AS s(snapshot_id bigint, parent_snapshot_id bigint,
         sequence_number bigint, schema_id bigint, timestamp_ms bigint, summary jsonb)
  ON CONFLICT (tabular_id, snapshot_id) DO UPDATE SET
         parent_snapshot_id = excluded.parent_snapshot_id, sequence_number = excluded.sequence_number,
         schema_id = excluded.schema_id, timestamp_ms = excluded.timestamp_ms, summary = excluded.summary
)
SELECT count(*) FROM moved
"""


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a pointer. `document` is None when it is too large to stand in the database."""

    tabular_id: UUID
    seen: str
    metadata_location: str
    location: str
    document: bytes | None
    added_snapshots: Sequence[dict[str, Any]]
    removed_snapshot_ids: Sequence[int]
    at: datetime


def move_pointer(move: Move) -> bool:
    """Whether the pointer still was at `seen` and now is at `metadata_location`; False changes nothing."""
    if connection.vendor == "postgresql":
        return _move_in_one_statement(move)
    return _move_step_by_step(move)


def snapshot_row(snapshot: dict[str, Any]) -> dict[str, Any]:
    """The projection of a snapshot of the metadata. U+0000 is legal in JSON but not in a jsonb column."""
    summary = {key.replace("\0", "\ufffd"): _printable(value) for key, value in (snapshot.get("summary") or {}).items()}
    return {
        "snapshot_id": snapshot["snapshot-id"],
        "parent_snapshot_id": snapshot.get("parent-snapshot-id"),
        "sequence_number": snapshot.get("sequence-number"),
        "schema_id": snapshot.get("schema-id"),
        "timestamp_ms": snapshot["timestamp-ms"],
        "summary": summary,
    }


def _printable(value: Any) -> Any:
    return value.replace("\0", "\ufffd") if isinstance(value, str) else str(value)


def _move_in_one_statement(move: Move) -> bool:
    params: list[Any] = [move.metadata_location, move.location, move.at, move.tabular_id, move.seen, move.document]
    statement = _MOVE
    if move.added_snapshots or move.removed_snapshot_ids:
        statement = _MOVE_WITH_SNAPSHOTS
        rows = [snapshot_row(snapshot) for snapshot in move.added_snapshots]
        # All parts of the statement see the rows as they were: one that is replaced is updated, not deleted first.
        replaced = {row["snapshot_id"] for row in rows}
        removed = [snapshot_id for snapshot_id in move.removed_snapshot_ids if snapshot_id not in replaced]
        params += [removed, write_json(rows).decode()]
    row = fetch_one("default", statement, params)
    return row is not None and row[0] == 1


def _move_step_by_step(move: Move) -> bool:
    with transaction.atomic():
        moved = Tabular.objects.filter(pk=move.tabular_id, metadata_location=move.seen).update(
            metadata_location=move.metadata_location, location=move.location, updated_at=move.at
        )
        if not moved:
            return False
        TabularMetadata.objects.filter(pk=move.tabular_id).update(document=move.document)
        if move.removed_snapshot_ids:
            ids = list(move.removed_snapshot_ids)
            for first in range(0, len(ids), 500):  # SQLite takes a bounded number of parameters
                Snapshot.objects.filter(tabular_id=move.tabular_id, snapshot_id__in=ids[first : first + 500]).delete()
        Snapshot.objects.bulk_create(
            [Snapshot(tabular_id=move.tabular_id, **snapshot_row(s)) for s in move.added_snapshots], batch_size=500
        )
    return True
