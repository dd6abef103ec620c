"""The rows that a change writes: events of the outbox, numbered for each object, and audit records.

On PostgreSQL all of them are written by one statement; its parts can also be added to another statement
(`change_ctes`), so that a commit writes them in the statement that moves its pointer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from django.db import connection

from icekeeper.kernel.db.sql import fetch_one
from icekeeper.kernel.json.strict import write_json
from tenancy.models import AuditRecord, OutboxEvent

_EVENT_COLUMNS: Final = {
    "id": "uuid", "object_key": "text", "type": "text", "at": "timestamptz", "public_id": "text", "names": "text",
    "project_id": "text", "warehouse_id": "uuid", "actor": "text", "assumed_role": "uuid", "request_id": "text",
    "event_count": "int", "event_index": "int", "data": "text",
}  # fmt: skip
"""Columns of an event but its sequence, with their types."""

_AUDIT_COLUMNS: Final = {
    "id": "uuid", "at": "timestamptz", "last_at": "timestamptz", "count": "bigint", "event": "text", "action": "text",
    "outcome": "text", "reason": "text", "privilege_source": "text", "actor": "text", "assumed_role": "uuid",
    "access_token_id": "uuid", "object_type": "text", "object_id": "text", "project_id": "text", "request_id": "uuid",
    "address": "text", "forwarded_for": "text", "user_agent": "text", "details": "text", "previous_hash": "text",
    "hash": "text",
}  # fmt: skip
"""Columns of an unsealed audit record, with their types."""

_CTES: Final = """events AS (
  SELECT * FROM json_to_recordset(%s::json) AS e({event_types}, remaining int){guard}
), numbered AS (
  INSERT INTO tenancy_objectsequence AS s (object_key, number)
  SELECT object_key, count(*) FROM events GROUP BY object_key ORDER BY object_key
      ON CONFLICT (object_key) DO UPDATE SET number = s.number + excluded.number
  RETURNING s.object_key, s.number
), published AS (
  INSERT INTO tenancy_outboxevent ({event_columns}, sequence)
  SELECT {event_values}, n.number - e.remaining
    FROM events AS e JOIN numbered AS n ON n.object_key = e.object_key
)"""

_AUDIT_CTE: Final = """, audited AS (
  INSERT INTO tenancy_auditrecord ({audit_columns})
  SELECT {audit_columns} FROM json_to_recordset(%s::json) AS a({audit_types}){guard}
)"""

_NEXT_NUMBER: Final = """
INSERT INTO tenancy_objectsequence (object_key, number) VALUES (%s, %s)
    ON CONFLICT (object_key) DO UPDATE SET number = tenancy_objectsequence.number + excluded.number
RETURNING number
"""


@cache
def change_ctes(*, is_audited: bool, guard: str = "") -> str:
    """Return CTEs that write events and, with `is_audited`, audit records; their parameters are `change_params`.

    `guard` is an earlier CTE of at most one row: without a row nothing is written.
    """
    text = _CTES + (_AUDIT_CTE if is_audited else "")
    return text.format(
        event_columns=", ".join(_EVENT_COLUMNS),
        event_values=", ".join(f"e.{column}" for column in _EVENT_COLUMNS),
        event_types=_with_types(_EVENT_COLUMNS),
        audit_columns=", ".join(_AUDIT_COLUMNS),
        audit_types=_with_types(_AUDIT_COLUMNS),
        guard=f" WHERE EXISTS (SELECT 1 FROM {guard})" if guard else "",  # noqa: S608 - a constant name
    )


def change_params(events: Sequence[OutboxEvent], audit_records: Sequence[AuditRecord]) -> list[str]:
    """Return the parameters of `change_ctes`."""
    event_rows = [
        {column: getattr(event, column) for column in _EVENT_COLUMNS} | {"remaining": remaining}
        for event, remaining in zip(events, _remaining(events), strict=True)
    ]
    params = [write_json(event_rows).decode()]
    if audit_records:
        rows = [{column: getattr(record, column) for column in _AUDIT_COLUMNS} for record in audit_records]
        params.append(write_json(rows).decode())
    return params


def write_change_rows(events: Sequence[OutboxEvent], audit_records: Sequence[AuditRecord]) -> None:
    """Write the rows in the caller's transaction, as its last locks. On PostgreSQL one statement."""
    if connection.vendor == "postgresql":
        statement = f"WITH {change_ctes(is_audited=bool(audit_records))} SELECT 1"
        fetch_one("default", statement, change_params(events, audit_records))
        return
    counts = Counter(event.object_key for event in events)
    numbers = {key: _advance(key, counts[key]) for key in sorted(counts)}
    for event, remaining in zip(events, _remaining(events), strict=True):
        event.sequence = numbers[event.object_key] - remaining
    OutboxEvent.objects.bulk_create(events, batch_size=100)
    AuditRecord.objects.bulk_create(audit_records, batch_size=100)


def _advance(object_key: str, count: int) -> int:
    row = fetch_one("default", _NEXT_NUMBER, [object_key, count])
    return 0 if row is None else int(row[0])


def _remaining(events: Sequence[OutboxEvent]) -> Iterator[int]:
    """Yield for each event how many later ones are of the same object."""
    left = Counter(event.object_key for event in events)
    for event in events:
        left[event.object_key] -= 1
        yield left[event.object_key]


def _with_types(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())
