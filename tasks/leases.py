"""Leases on tasks: a lease expires, so that another worker can continue the task of a dead one.

The clock of the database decides when a lease expires, so clocks of machines need not agree. Every update compares
`attempt`: a slow worker whose task was leased by another one changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models.functions import Now

from icekeeper.kernel.db.sql import Row, as_uuid, fetch_one
from icekeeper.kernel.json.strict import read_stored_json
from icekeeper.kernel.retry import backoff_seconds
from tasks.models import Task

LEASE_SECONDS = 120
HEARTBEAT_SECONDS = 20.0
"""Interval in which a worker extends its lease."""

MARGIN_SECONDS = 30.0
"""A worker that could not extend its lease stops this long before it expires."""

MIN_BACKOFF_SECONDS = 5.0
MAX_BACKOFF_SECONDS = 3600.0
MAX_ERROR_LENGTH = 2000

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that also advances while the machine is suspended, if available."""

_TAKE = """
UPDATE tasks_task SET status = 'running', attempt = attempt + 1, leased_until = {lease_end}
 WHERE id = {task} AND (status = 'scheduled' OR leased_until < {now})
RETURNING id, queue, warehouse_id, entity_id, payload, attempt
"""

_DUE = """(
   SELECT id FROM tasks_task
    WHERE queue IN ({{queues}}) AND scheduled_for <= {now} AND (status = 'scheduled' OR leased_until < {now})
    ORDER BY scheduled_for, id LIMIT 1 {skip_locked})"""

_DIALECTS = {
    "postgresql": {
        "now": "statement_timestamp()",
        "lease_end": f"statement_timestamp() + interval '{LEASE_SECONDS} seconds'",
        "skip_locked": "FOR UPDATE SKIP LOCKED",
    },
    "sqlite": {
        # Milliseconds are rounded up: rows of the same millisecond are due.
        "now": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '+0.001 seconds')",
        "lease_end": f"strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '+{LEASE_SECONDS} seconds')",
        "skip_locked": "",
    },
}
_TAKE_THIS = {vendor: _TAKE.format(task="%s", **words) for vendor, words in _DIALECTS.items()}
_TAKE_DUE = {vendor: _TAKE.format(task=_DUE.format(**words), **words) for vendor, words in _DIALECTS.items()}


class LeaseLost(Exception):
    """Another worker has the task, or it was cancelled: this attempt must not change anything."""


@dataclass(slots=True)
class Lease:
    """A lease, with the task as it was when it was leased."""

    task_id: UUID
    queue: str
    warehouse_id: UUID
    entity_id: UUID
    payload: dict[str, Any]
    attempt: int
    extended_at: float

    def extend(self) -> None:
        """Extend the lease if the heartbeat is due; to be called before each step of long work.

        Raises `LeaseLost` if another worker has the task, or may have it because the lease was not extended in time.
        """
        before = _clock()
        if before - self.extended_at < HEARTBEAT_SECONDS:
            return
        if before - self.extended_at > LEASE_SECONDS - MARGIN_SECONDS:
            raise LeaseLost(f"the lease on task {self.task_id} was not extended in time")
        if not self._own().update(leased_until=Now() + timedelta(seconds=LEASE_SECONDS)):
            raise LeaseLost(f"task {self.task_id} was taken over or cancelled")
        self.extended_at = before

    def finish(self) -> None:
        """Delete the task, as the last step of the transaction. Raises `LeaseLost`, which must roll it back."""
        deleted, _ = self._own().delete()
        if not deleted:
            raise LeaseLost(f"task {self.task_id} was taken over or cancelled")

    def release(self) -> None:
        """Release the lease, so that another worker can take the task at once."""
        self._own().update(status=Task.Status.SCHEDULED, leased_until=None)

    def fail(self, error: str) -> float:
        """Schedule the next attempt with exponential backoff and jitter; return the seconds until then."""
        backoff = backoff_seconds(self.attempt, first=MIN_BACKOFF_SECONDS, limit=MAX_BACKOFF_SECONDS)
        self._own().update(
            status=Task.Status.SCHEDULED,
            leased_until=None,
            scheduled_for=Now() + timedelta(seconds=backoff),
            last_error=error[:MAX_ERROR_LENGTH].replace("\0", "\ufffd"),
        )
        return backoff

    def _own(self) -> Any:
        return Task.objects.filter(pk=self.task_id, attempt=self.attempt, status=Task.Status.RUNNING)


def lease_due_task(queues: Sequence[str]) -> Lease | None:
    """Lease the task that has been due for longest in `queues`; None if no task is due."""
    statement = _TAKE_DUE[connection.vendor].format(queues=", ".join(["%s"] * len(queues)))
    return _lease(_clock(), fetch_one("default", statement, list(queues)))


def lease_task(task_id: UUID) -> Lease | None:
    """Lease a task, due or not; None if another worker has it, or it is finished."""
    return _lease(_clock(), fetch_one("default", _TAKE_THIS[connection.vendor], [task_id]))


def has_running_tasks(queue: Task.Queue, warehouse_id: UUID, entity_ids: Sequence[UUID]) -> bool:
    """Return whether one of the entities has a leased task in `queue`."""
    return Task.objects.of_entities(queue, warehouse_id, entity_ids).running().exists()


def cancel_tasks(queue: Task.Queue, warehouse_id: UUID, entity_ids: Sequence[UUID]) -> None:
    """Delete the tasks of these entities in `queue`; a worker that has leased one cannot finish it."""
    Task.objects.of_entities(queue, warehouse_id, entity_ids).delete()


def has_tasks(warehouse_id: UUID) -> bool:
    return Task.objects.in_warehouse(warehouse_id).filter(queue__in=Task.Queue.values).exists()


def _lease(leased_after: float, row: Row | None) -> Lease | None:
    if row is None:
        return None
    task_id, queue, warehouse_id, entity_id, payload, attempt = row
    if connection.vendor == "sqlite":  # which keeps JSON as text
        payload = read_stored_json(payload.encode())
    content = payload if isinstance(payload, dict) else {}
    return Lease(as_uuid(task_id), queue, as_uuid(warehouse_id), as_uuid(entity_id), content, attempt, leased_after)


def _clock() -> float:
    return time.clock_gettime(_CLOCK)
