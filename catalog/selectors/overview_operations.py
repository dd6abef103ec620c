"""Operations on the overview of the console: the state of task queues, and the latest changes."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Min, Q

from catalog.models import Tabular
from icekeeper.kernel.clock import now
from tasks.models import Task
from tenancy.models import OutboxEvent

MAX_COUNTED_TASKS: Final = 10_000
"""Tasks of all warehouses together that are counted."""
OVERDUE_AFTER: Final = timedelta(minutes=5)
"""A task that waits for longer is overdue: no worker takes it, or too few do."""
EXPIRES_SOON: Final = timedelta(hours=24)
_EXPIRATION: Final = Task.Queue.SOFT_DELETION
MAX_SEARCHED_EVENTS: Final = 500
"""Newest events among which the latest changes are searched."""
MAX_CHANGES: Final = 8


@dataclass(frozen=True, slots=True)
class QueueHealth:
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


def list_queue_health(warehouse_ids: Sequence[UUID]) -> list[QueueHealth]:
    """Return the queues with tasks that are live or have failed, in those warehouses. One statement.

    Requires the permission for all tasks of each. At most `MAX_COUNTED_TASKS` are counted.
    """
    if not warehouse_ids:
        return []
    at = now()
    counted = Task.objects.using(settings.READ_DATABASE).filter(
        warehouse_id__in=warehouse_ids, status__in=(*Task.LEASED, Task.Status.SCHEDULED, Task.Status.FAILED)
    )
    is_scheduled = Q(status=Task.Status.SCHEDULED)
    is_overdue = is_scheduled & Q(scheduled_for__lt=at - OVERDUE_AFTER)
    rows = (
        Task.objects.using(settings.READ_DATABASE)
        .filter(pk__in=counted.values("pk")[:MAX_COUNTED_TASKS])
        .values("queue")
        .annotate(
            waiting=Count("pk", filter=is_scheduled),
            running=Count("pk", filter=Q(status__in=Task.LEASED)),
            failed=Count("pk", filter=Q(status=Task.Status.FAILED)),
            retrying=Count("pk", filter=is_scheduled & ~Q(message="")),
            overdue=Count("pk", filter=is_overdue),
            expiring_soon=Count("pk", filter=is_scheduled & Q(scheduled_for__lt=at + EXPIRES_SOON, queue=_EXPIRATION)),
            oldest=Min("scheduled_for", filter=is_overdue),
        )
        .order_by("queue")
    )
    return [QueueHealth(**row) for row in rows]


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
