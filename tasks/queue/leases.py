"""Claims of tasks and leases on them: a lease expires, so that another worker can continue the task of a dead one.

The clock of the database decides when a lease expires, so clocks of machines need not agree. Every update compares
`attempt`: a slow worker whose task was leased by another one changes nothing.

Workers claim fairly: tasks of lower priority numbers first, then the warehouses in turn, then the task that has been
due for longest. So a warehouse with many tasks does not delay the single one of another.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils.module_loading import import_string

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import DATABASE_NOW, Row, as_datetime, as_uuid, database_time_in, fetch_all, fetch_one
from icekeeper.kernel.json.strict import read_stored_json
from icekeeper.kernel.retry import backoff_seconds
from tasks.models import NO_ID, Task, TaskAttempt
from tasks.queue.config import QUEUES, queue_limits
from tasks.queue.wake import wake_workers

LEASE_SECONDS: Final = 120
HEARTBEAT_SECONDS: Final = 20.0
"""Interval in which a worker extends its lease; a sixth of a shorter lease."""

MARGIN_SHARE: Final = 0.25
"""A worker that could not extend its lease stops when this share of it is left."""

MIN_BACKOFF_SECONDS: Final = 5.0
MAX_BACKOFF_SECONDS: Final = 3600.0
MAX_MESSAGE_LENGTH: Final = 2000
STOP_PAUSE_SECONDS: Final = 60.0
"""Time in which an operator can cancel a task that was stopped, before its next attempt."""

PAYLOAD_VERSION: Final = 1
"""Tasks whose payload has a later version are left to newer workers."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that also advances while the machine is suspended, if available."""

_LEASED_COLUMNS = """id, queue, project_id, warehouse_id, entity_type, entity_id, entity_uuid, entity_name, payload,
          execution_details, attempt, parent_id, created_by, heartbeat_at, leased_until"""

_START: Final = (
    """
UPDATE tasks_task
   SET status = 'running', attempt = attempt + 1, picked_up_at = {now}, heartbeat_at = {now}, updated_at = {now},
       progress = 0, leased_until = {lease_end},
       scheduled_for = CASE WHEN scheduled_for > {now} THEN {now} ELSE scheduled_for END
 WHERE id IN ({tasks}) AND status = 'scheduled'
RETURNING """
    + _LEASED_COLUMNS
)

_LIMIT_OF_QUEUE: Final = """coalesce((SELECT c.max_seconds_since_last_heartbeat FROM tasks_taskqueueconfig AS c
    WHERE c.queue = tasks_task.queue AND c.project_id = tasks_task.project_id
      AND c.warehouse_id = tasks_task.warehouse_id), {default})"""

# The first part reads one index entry for each priority and warehouse of a queue (a loose index scan).
_DUE_ON_POSTGRESQL: Final = f"""
SELECT due.id FROM unnest(%s::text[], %s::int[]) AS wanted(queue, slots), LATERAL (
  WITH RECURSIVE parts AS (
    (SELECT priority, warehouse_id FROM tasks_task
      WHERE queue = wanted.queue AND status = 'scheduled' ORDER BY priority, warehouse_id LIMIT 1)
    UNION ALL
    SELECT n.priority, n.warehouse_id FROM parts, LATERAL (
      SELECT t.priority, t.warehouse_id FROM tasks_task AS t
       WHERE t.queue = wanted.queue AND t.status = 'scheduled'
         AND (t.priority, t.warehouse_id) > (parts.priority, parts.warehouse_id)
       ORDER BY t.priority, t.warehouse_id LIMIT 1) AS n
  )
  SELECT each.id FROM (SELECT * FROM parts ORDER BY priority, warehouse_id <= %s, warehouse_id) AS part, LATERAL (
    SELECT t.id FROM tasks_task AS t
     WHERE t.queue = wanted.queue AND t.priority = part.priority AND t.warehouse_id = part.warehouse_id
       AND t.status = 'scheduled' AND t.scheduled_for <= statement_timestamp()
       AND t.payload_version <= {PAYLOAD_VERSION}
     ORDER BY t.scheduled_for, t.id
     LIMIT greatest(1, wanted.slots / (SELECT count(*) FROM parts))
       FOR UPDATE SKIP LOCKED) AS each
  LIMIT wanted.slots) AS due"""  # noqa: S608 - constants

_DUE_ON_SQLITE: Final = f"""
SELECT id FROM (
  SELECT t.id, wanted.value AS slots, row_number() OVER (
      PARTITION BY t.queue ORDER BY t.priority, t.number, t.warehouse_id <= %s, t.warehouse_id) AS position
    FROM (SELECT id, queue, priority, warehouse_id,
                 row_number() OVER (PARTITION BY queue, priority, warehouse_id ORDER BY scheduled_for, id) AS number
            FROM tasks_task
           WHERE status = 'scheduled' AND scheduled_for <= {{now}} AND payload_version <= {PAYLOAD_VERSION}
             AND queue IN (SELECT key FROM json_each(%s))) AS t
    JOIN json_each(%s) AS wanted ON wanted.key = t.queue)
 WHERE position <= slots"""  # noqa: S608 - constants

_WORDS: Final = {
    vendor: {"now": moment, "lease_end": database_time_in(_LIMIT_OF_QUEUE.format(default=LEASE_SECONDS), vendor)}
    for vendor, moment in DATABASE_NOW.items()
}
# A subquery with a limit could be evaluated for each row, and then claim more than that.
_DUE: Final = {
    "postgresql": f"WITH due AS MATERIALIZED ({_DUE_ON_POSTGRESQL})",
    "sqlite": f"WITH due AS MATERIALIZED ({_DUE_ON_SQLITE.format(**_WORDS['sqlite'])})",
}
_CLAIM: Final = {
    vendor: _DUE[vendor] + _START.format(tasks="SELECT id FROM due", **words) for vendor, words in _WORDS.items()
}
_LEASE_ONE: Final = {
    vendor: _START.format(
        tasks=f"SELECT id FROM tasks_task WHERE id = %s AND payload_version <= {PAYLOAD_VERSION}",  # noqa: S608
        **words,
    )
    for vendor, words in _WORDS.items()
}

_STATE: Final = """
SELECT coalesce((SELECT is_read_only FROM tenancy_server), {false}),
       (SELECT min((SELECT t.scheduled_for FROM tasks_task AS t WHERE t.queue = q.value AND t.status = 'scheduled'
                     ORDER BY t.scheduled_for LIMIT 1)) FROM {queues}),
       (SELECT min((SELECT t.scheduled_for FROM tasks_task AS t WHERE t.queue = q.value AND t.status = 'scheduled'
                       AND t.scheduled_for > {now} ORDER BY t.scheduled_for LIMIT 1)) FROM {queues}),
       (SELECT min(leased_until) FROM tasks_task WHERE status IN ('running', 'stopping')),
       {now}
"""
_STATES: Final = {
    "postgresql": _STATE.format(
        false="false", queues="unnest(%s::text[]) AS q(value)", now=_WORDS["postgresql"]["now"]
    ),
    "sqlite": _STATE.format(false="0", queues="json_each(%s) AS q", now=_WORDS["sqlite"]["now"]),
}


_DUE_QUEUES: Final = """
SELECT q.value FROM {queues}
 WHERE EXISTS (SELECT 1 FROM tasks_task AS t
                WHERE t.queue = q.value AND t.status = 'scheduled' AND t.scheduled_for <= {now})
"""
_DUE_QUEUES_BY_VENDOR: Final = {
    "postgresql": _DUE_QUEUES.format(queues="unnest(%s::text[]) AS q(value)", now=_WORDS["postgresql"]["now"]),
    "sqlite": _DUE_QUEUES.format(queues="json_each(%s) AS q", now=_WORDS["sqlite"]["now"]),
}


class LeaseLost(Exception):
    """Another worker has the task, or it was cancelled: this attempt must not change anything."""


class StopRequested(Exception):
    """An operator stops the attempt; the task is scheduled again."""


@dataclass(slots=True)
class Lease:
    """A lease, with the task as it was when it was leased.

    The work reports what it has done in `progress` (0 to 1) and `execution_details`; they are stored with the next
    heartbeat and at the end.
    """

    task_id: UUID
    queue: str
    project_id: str
    warehouse_id: UUID
    entity_type: str
    entity_id: UUID
    entity_uuid: UUID | None
    entity_name: list[str]
    payload: dict[str, Any]
    execution_details: dict[str, Any]
    attempt: int
    parent_id: UUID | None
    created_by: str
    extended_at: float
    seconds: float
    progress: float = field(default=0.0)

    def extend(self) -> None:
        """Extend the lease if the heartbeat is due; to be called before each step of long work.

        Raises `LeaseLost` if another worker has the task, or may have it because the lease was not extended in time,
        and `StopRequested` if the attempt is to be stopped.
        """
        before = _clock()
        if before - self.extended_at < min(HEARTBEAT_SECONDS, self.seconds / 6):
            return
        if before - self.extended_at > self.seconds * (1 - MARGIN_SHARE):
            raise LeaseLost(f"the lease on task {self.task_id} was not extended in time")
        end = Now() + timedelta(seconds=self.seconds)
        own = self._own()
        if not own.update(leased_until=end, heartbeat_at=Now(), updated_at=Now(), **self._report()):
            raise LeaseLost(f"task {self.task_id} was taken over or cancelled")
        self.extended_at = before
        if own.filter(status=Task.Status.STOPPING).exists():
            raise StopRequested(f"task {self.task_id} is to be stopped")

    def finish(self) -> None:
        """End the task, as the last step of the transaction. Raises `LeaseLost`, which must roll it back."""
        self.progress = 1.0
        ended = {"status": Task.Status.SUCCESS, "finished_at": Now(), "message": ""}
        if not self._own().update(**ended, leased_until=None, updated_at=Now(), **self._report()):
            raise LeaseLost(f"task {self.task_id} was taken over or cancelled")
        task = Task.objects.get(pk=self.task_id)
        record_attempts([task], Task.Status.SUCCESS)
        if QUEUES[self.queue].reports_success:
            _record_end(task)

    def release(self) -> None:
        """Release the lease, so that another worker can take the task at once; it is no failure."""
        free = {"status": Task.Status.SCHEDULED, "leased_until": None}
        if self._own().update(**free, updated_at=Now(), **self._report()):
            wake_workers(self.queue)

    def fail(self, error: str) -> float | None:
        """Record the failed attempt, and schedule the next one with exponential backoff and jitter.

        Returns the seconds until then; None when the task has failed for good.
        """
        message = error[:MAX_MESSAGE_LENGTH].encode("utf-8", "replace").decode().replace("\0", "\ufffd")
        with transaction.atomic():
            if not self._own().update(message=message, **self._report()):
                return None
            return _end_failed_attempt(self.task_id)

    def stop(self) -> None:
        """End the attempt because an operator stops it, which is no failure.

        The next one is scheduled for the time that the operator has set meanwhile, else after `STOP_PAUSE_SECONDS`.
        """
        with transaction.atomic():
            if not self._own().update(message="Stopped.", **self._report()):
                return
            task = Task.objects.get(pk=self.task_id)
            record_attempts([task], Task.Status.CANCELLED)
            _schedule_next(task, STOP_PAUSE_SECONDS)

    def _report(self) -> dict[str, Any]:
        return {"progress": self.progress, "execution_details": self.execution_details or None}

    def _own(self) -> Any:
        return Task.objects.filter(pk=self.task_id, attempt=self.attempt, status__in=Task.LEASED)


class QueueState(NamedTuple):
    """`seconds_until_due` is for the next task that becomes due (None without one), `is_due` for one that is."""

    is_read_only: bool
    is_due: bool
    seconds_until_due: float | None
    has_expired_leases: bool


def queue_state(queues: Sequence[str]) -> QueueState:
    """Return what a worker of these queues has to do; one statement."""
    params = [list(queues)] * 2
    row = fetch_one("default", _STATES[connection.vendor], params)
    assert row is not None  # noqa: S101 - it has no FROM
    is_read_only, first, following, first_lease, at = row
    moment = as_datetime(at)
    return QueueState(
        bool(is_read_only),
        first is not None and as_datetime(first) <= moment,
        None if following is None else (as_datetime(following) - moment).total_seconds(),
        first_lease is not None and as_datetime(first_lease) < moment,
    )


def due_queues(queues: Sequence[str]) -> list[str]:
    """Return those of the queues that have a due task; one statement."""
    return [queue for (queue,) in fetch_all("default", _DUE_QUEUES_BY_VENDOR[connection.vendor], [list(queues)])]


def claim_tasks(slots: Mapping[str, int], *, after: UUID = NO_ID) -> list[Lease]:
    """Lease due tasks in one statement: of each queue in `slots` at most as many as it has there.

    The warehouses alternate, beginning after `after`.
    """
    wanted = {queue: count for queue, count in slots.items() if count > 0}
    if not wanted:
        return []
    at = _clock()
    if connection.vendor == "postgresql":
        params: list[Any] = [list(wanted), list(wanted.values()), after]
    else:
        counts = "{" + ", ".join(f'"{queue}": {count}' for queue, count in wanted.items()) + "}"
        params = [after, counts, counts]
    return [_lease(at, row) for row in fetch_all("default", _CLAIM[connection.vendor], params)]


def lease_task(task_id: UUID) -> Lease | None:
    """Lease a task, due or not; None if another worker has it, a newer version wrote it, or it has ended."""
    recover_expired_leases(task_id)
    at = _clock()
    row = fetch_one("default", _LEASE_ONE[connection.vendor], [task_id])
    return None if row is None else _lease(at, row)


def recover_expired_leases(task_id: UUID | None = None, *, limit: int = 100) -> int:
    """End the attempts whose lease has expired, as failures, and schedule the next ones; return their number.

    With `task_id`, only of that task. Their workers are dead or too slow, and cannot change anything any more.
    """
    recovered = 0
    with transaction.atomic():
        expired = Task.objects.filter(status__in=Task.LEASED, leased_until__lt=Now()).order_by("pk")
        if task_id is not None:
            expired = expired.filter(pk=task_id)
        for task in expired.select_for_update(skip_locked=True)[:limit]:
            Task.objects.filter(pk=task.pk).update(message="Attempt timed out.")
            _end_failed_attempt(task.pk, max_pause=0.0)  # the lease has lasted long enough
            recovered += 1
    return recovered


def _end_failed_attempt(task_id: UUID, *, max_pause: float = MAX_BACKOFF_SECONDS) -> float | None:
    """Record that the attempt of a locked task failed, and schedule the next one, or end the task if it was the last.

    Returns the seconds until the next attempt; None without one.
    """
    task = Task.objects.get(pk=task_id)
    record_attempts([task], Task.Status.FAILED)
    failures = task.attempts.filter(status=Task.Status.FAILED).count() - task.forgiven_failures
    limits = queue_limits(task.queue, task.project_id, task.warehouse_id)
    own = Task.objects.filter(pk=task_id)
    if failures > limits.max_retries or (limits.max_age is not None and now() - task.created_at > limits.max_age):
        own.update(status=Task.Status.FAILED, leased_until=None, finished_at=Now(), updated_at=Now())
        _record_end(Task.objects.get(pk=task_id))
        return None
    pause = min(backoff_seconds(failures, first=MIN_BACKOFF_SECONDS, limit=MAX_BACKOFF_SECONDS), max_pause)
    _schedule_next(task, pause)
    return pause


def _record_end(task: Task) -> None:
    """Call the function that records an event for a task that succeeded or failed, in the caller's transaction."""
    import_string(settings.TASK_END_RECORDER)(task)


def _schedule_next(task: Task, pause: float) -> None:
    """Schedule the next attempt of a locked task after `pause` seconds, or when an operator has set it meanwhile."""
    is_set = task.picked_up_at is not None and task.scheduled_for > task.picked_up_at
    due = task.scheduled_for if is_set else Now() + timedelta(seconds=pause)
    again = {"status": Task.Status.SCHEDULED, "leased_until": None, "scheduled_for": due}
    Task.objects.filter(pk=task.pk).update(**again, updated_at=Now())
    wake_workers(task.queue)


def has_running_tasks(queue: str, warehouse_id: UUID, entity_ids: Sequence[UUID]) -> bool:
    """Return whether one of the entities has a leased task in `queue`."""
    return Task.objects.of_entities(queue, warehouse_id, entity_ids).running().exists()


def has_failed(task_id: UUID) -> bool:
    """Return whether the task ended without success after its last attempt, or does not exist any more."""
    return not Task.objects.filter(pk=task_id).exclude(status=Task.Status.FAILED).exists()


def has_tasks(warehouse_id: UUID) -> bool:
    """Return whether the warehouse has tasks that have not ended."""
    return Task.objects.live().in_warehouse(warehouse_id).exists()


def record_attempts(tasks: Sequence[Task], status: Task.Status) -> None:
    """Insert the rows of the attempts that end now, in the caller's transaction."""
    at = now()
    TaskAttempt.objects.bulk_create(
        [
            TaskAttempt(
                task_id=task.pk,
                attempt=task.attempt,
                status=status,
                started_at=task.picked_up_at,
                scheduled_for=task.scheduled_for,
                progress=task.progress,
                execution_details=task.execution_details,
                message=task.message if status == Task.Status.FAILED else "",
                created_at=at,
            )
            for task in tasks
        ],
        batch_size=50,
    )


def _lease(leased_after: float, row: Row) -> Lease:
    (
        task_id, queue, project_id, warehouse_id, entity_type, entity_id, entity_uuid, entity_name, payload, details,
        attempt, parent_id, created_by, begin, end,
    ) = row  # fmt: skip
    payload, details = _json(payload), _json(details)
    return Lease(
        as_uuid(task_id),
        queue,
        project_id,
        as_uuid(warehouse_id),
        entity_type,
        as_uuid(entity_id),
        None if entity_uuid is None else as_uuid(entity_uuid),
        _json(entity_name) or [],
        payload if isinstance(payload, dict) else {},
        details if isinstance(details, dict) else {},
        attempt,
        None if parent_id is None else as_uuid(parent_id),
        created_by,
        leased_after,
        (as_datetime(end) - as_datetime(begin)).total_seconds(),
    )


def _json(value: Any) -> Any:
    """Return the value of a JSON column, which SQLite keeps as text."""
    return read_stored_json(value.encode()) if connection.vendor == "sqlite" and value is not None else value


def _clock() -> float:
    return time.clock_gettime(_CLOCK)
