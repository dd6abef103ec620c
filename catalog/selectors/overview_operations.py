"""Operations on the overview of the console: the state of task queues, and the latest changes."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings

from catalog.models import Tabular
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_datetime, fetch_all
from tenancy.models import OutboxEvent

MAX_COUNTED_TASKS: Final = 10_000
"""Tasks of all warehouses together that are counted."""
OVERDUE_AFTER: Final = timedelta(minutes=5)
"""A task that waits for longer is overdue: no worker takes it, or too few do."""
EXPIRES_SOON: Final = timedelta(hours=24)
MAX_SEARCHED_EVENTS: Final = 500
"""Newest events among which the latest changes are searched."""
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


def list_latest_changes(warehouse_ids: Sequence[UUID], with_actor: Collection[UUID]) -> list[LatestChange]:
    """Return the latest changes of objects in those warehouses, newest first, among the newest events. One statement.

    Requires the permission to list everything in each, and to read the audit trail of those of `with_actor`: of the
    others it is not said who changed them.
    """
    if not warehouse_ids:
        return []
    newest = OutboxEvent.objects.using(settings.READ_DATABASE).order_by("-id").values("pk")[:MAX_SEARCHED_EVENTS]
    rows = OutboxEvent.objects.using(settings.READ_DATABASE).filter(pk__in=newest, warehouse_id__in=warehouse_ids)
    shown = rows.order_by("-id").defer("data")[:MAX_CHANGES]
    return [_change(row, row.actor if row.warehouse_id in with_actor else "") for row in shown]


def _change(row: OutboxEvent, actor: str) -> LatestChange:
    kind = row.object_key.partition(":")[0]
    is_object = kind in {*Tabular.Kind.values, "namespace"}
    try:
        uuid = UUID(row.public_id) if is_object else None
    except ValueError:
        uuid = None
    assert row.warehouse_id is not None  # noqa: S101 - by the filter
    return LatestChange(
        row.type, tuple(json.loads(row.names)), row.at, actor, row.warehouse_id, kind if uuid else "", uuid
    )
