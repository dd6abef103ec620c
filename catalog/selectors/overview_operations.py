"""Operations on the overview of the console: the state of task queues, and the latest changes."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connections

from catalog.models import Tabular
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_datetime, as_uuid, fetch_all
from icekeeper.kernel.ids import parse_id

MAX_COUNTED_TASKS: Final = 10_000
"""Tasks of all warehouses together that are counted."""
OVERDUE_AFTER: Final = timedelta(minutes=5)
"""A task that waits for longer is overdue: no worker takes it, or too few do."""
EXPIRES_SOON: Final = timedelta(hours=24)
MAX_CHANGES: Final = 8


class QueueHealth(NamedTuple):
    """Numbers of the tasks of a queue that have not ended well; `oldest` is when the oldest overdue one was due."""

    queue: str
    waiting: int
    running: int
    failed: int
    retrying: int
    overdue: int
    oldest: datetime | None
    expiring_soon: int
    """Dropped objects that can be restored for less than a day."""


@dataclass(frozen=True, slots=True)
class LatestChange:
    """A change of an object in a warehouse. `kind` and `uuid` name an object that has a page, else both are empty."""

    type: str
    names: tuple[str, ...]
    at: datetime
    actor: str
    """Empty if the caller may not know it."""
    warehouse_id: UUID
    kind: str
    uuid: UUID | None


# The inner rows are found by the index `task_by_status`, whatever the number of ended tasks.
_QUEUES: Final = """
SELECT queue,
       count(*) FILTER (WHERE status = 'scheduled'),
       count(*) FILTER (WHERE status IN ('running', 'stopping')),
       count(*) FILTER (WHERE status = 'failed'),
       count(*) FILTER (WHERE status = 'scheduled' AND message <> ''),
       count(*) FILTER (WHERE status = 'scheduled' AND scheduled_for < %s),
       min(CASE WHEN status = 'scheduled' AND scheduled_for < %s THEN scheduled_for END),
       count(*) FILTER (WHERE status = 'scheduled' AND queue = 'soft_deletion' AND scheduled_for < %s)
  FROM (SELECT queue, status, message, scheduled_for
          FROM tasks_task
         WHERE warehouse_id = ANY(%s) AND status IN ('running', 'stopping', 'failed', 'scheduled')
         LIMIT %s) t
 GROUP BY queue
 ORDER BY queue
"""


def list_queue_health(warehouse_ids: Sequence[UUID]) -> list[QueueHealth]:
    """Return the queues with tasks that are live or have failed, in those warehouses. One statement.

    Requires the permission for all tasks of each. At most `MAX_COUNTED_TASKS` are counted.
    """
    if not warehouse_ids:
        return []
    at = now()
    overdue = at - OVERDUE_AFTER
    params = [overdue, overdue, at + EXPIRES_SOON, list(warehouse_ids), MAX_COUNTED_TASKS]
    rows = fetch_all(settings.READ_DATABASE, _QUEUES, params)
    return [_queue_health(*row) for row in rows]


def _queue_health(*row: Any) -> QueueHealth:
    found = QueueHealth(*row)
    return found if found.oldest is None else found._replace(oldest=as_datetime(found.oldest))


_ENDS: Final = ("drop", "expire")
"""Prefixes of types of events that remove an object."""


class _ChangeRow(NamedTuple):
    type: str
    object_key: str
    public_id: str
    names: str
    at: Any
    actor: str
    warehouse_id: Any


# The newest events of each warehouse are read by the index `outbox_event_by_warehouse`.
_LATEST_CHANGES: Final = {
    "postgresql": f"""
SELECT {", ".join(f"e.{name}" for name in _ChangeRow._fields)}
  FROM unnest(%s::uuid[]) AS w(value)
 CROSS JOIN LATERAL (SELECT * FROM tenancy_outboxevent WHERE warehouse_id = w.value ORDER BY position DESC LIMIT %s) e
 ORDER BY e.position DESC LIMIT %s
""",  # noqa: S608 - constants
    "sqlite": f"""
SELECT {", ".join(f"e.{name}" for name in _ChangeRow._fields)}
  FROM unnest(%s::uuid[]) AS w(value)
 CROSS JOIN tenancy_outboxevent e ON e.position IN (
       SELECT position FROM tenancy_outboxevent WHERE warehouse_id = w.value ORDER BY position DESC LIMIT %s)
 ORDER BY e.position DESC LIMIT %s
""",  # noqa: S608 - constants
}


def list_latest_changes(warehouse_ids: Sequence[UUID], with_actor: Collection[UUID]) -> list[LatestChange]:
    """Return the latest changes of objects in those warehouses, newest first. One statement.

    Requires the permission to list everything in each, and to read the audit trail of those in `with_actor`: the actor
    is returned only for these.
    """
    if not warehouse_ids:
        return []
    statement = _LATEST_CHANGES[connections[settings.READ_DATABASE].vendor]
    rows = fetch_all(settings.READ_DATABASE, statement, [list(warehouse_ids), MAX_CHANGES, MAX_CHANGES])
    found, newest = [_ChangeRow(*row) for row in rows], dict[str, str]()
    for row in found:
        newest.setdefault(row.object_key, row.type)
    return [_change(row, with_actor, exists=not newest[row.object_key].startswith(_ENDS)) for row in found]


def _change(row: _ChangeRow, with_actor: Collection[UUID], *, exists: bool) -> LatestChange:
    kind, warehouse_id = row.object_key.partition(":")[0], as_uuid(row.warehouse_id)
    uuid = parse_id(row.public_id) if exists and kind in {*Tabular.Kind.values, "namespace"} else None
    return LatestChange(
        row.type, tuple(json.loads(row.names)), as_datetime(row.at), row.actor if warehouse_id in with_actor else "",
        warehouse_id, kind if uuid else "", uuid,
    )  # fmt: skip
