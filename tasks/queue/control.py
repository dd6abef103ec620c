"""Control of tasks by operators: stop, cancel, run now or later, and retry after failure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models.functions import Now
from django.utils.module_loading import import_string

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest, Conflict, NotFound
from tasks.models import NO_ID, Task
from tasks.queue.config import QUEUES
from tasks.queue.leases import record_attempts
from tasks.queue.wake import wake_workers

MAX_TASKS: Final = 100
"""Tasks of one call."""

MAX_DELAY: Final = timedelta(days=365)


class TaskNotFound(NotFound):
    wire_type = "TaskNotFound"


class TaskAlreadyActive(Conflict):
    wire_type = "TaskAlreadyActive"


def stop_tasks(tasks: Sequence[Task]) -> None:
    """Ask the workers of running tasks to stop; the tasks are scheduled again. Other tasks are not changed."""
    Task.objects.filter(pk__in=_ids(tasks), status=Task.Status.RUNNING).update(
        status=Task.Status.STOPPING, updated_at=Now()
    )


def cancel_tasks(tasks: Sequence[Task], *, actor: object) -> None:
    """End tasks that have not ended; a worker that has leased one cannot complete it.

    What a queue undoes with its tasks (`on_cancel`) is undone in the same transaction.
    """
    live = [task for task in tasks if task.finished_at is None]
    _end_as_cancelled(live)
    by_queue: dict[str, list[Task]] = defaultdict(list)
    for task in live:
        by_queue[task.queue].append(task)
    for queue, cancelled in by_queue.items():
        definition = QUEUES.get(queue)
        if definition is not None and definition.on_cancel is not None:
            import_string(definition.on_cancel)(actor, cancelled)


def cancel_tasks_of(queue: str, warehouse_id: UUID, entity_ids: Sequence[UUID]) -> None:
    """End the tasks of these entities in `queue` without undoing anything: the caller changes their objects itself."""
    own = Task.objects.of_entities(queue, warehouse_id, entity_ids)
    _end_as_cancelled(list(own.order_by("pk").select_for_update()))


def run_tasks_at(tasks: Sequence[Task], at: datetime | None) -> None:
    """Schedule tasks that are scheduled or stopping for `at`, or for now. Other tasks are not changed.

    Raises `BadRequest` for a time more than a year from now.
    """
    moment = now() if at is None else at
    if moment > now() + MAX_DELAY:
        raise BadRequest("scheduled-for: at most 365 days from now")
    record_attempts([task for task in tasks if task.status == Task.Status.STOPPING], Task.Status.CANCELLED)
    waiting = Task.objects.filter(pk__in=_ids(tasks), status__in=(Task.Status.SCHEDULED, Task.Status.STOPPING))
    waiting.update(status=Task.Status.SCHEDULED, leased_until=None, scheduled_for=moment, updated_at=Now())
    _wake(tasks)


def retry_tasks(tasks: Sequence[Task]) -> int:
    """Schedule failed tasks again, with as many attempts as new ones; return their number. Others are not changed.

    Raises `TaskAlreadyActive` (409) when its object has another task of the queue by now.
    """
    failed = [task for task in tasks if task.status == Task.Status.FAILED]
    for task in failed:
        if Task.objects.of_entities(task.queue, task.warehouse_id, [task.entity_id]).exists():
            raise TaskAlreadyActive(f"Task {task.pk} was replaced by another one of the same object")
        forgiven = task.attempts.filter(status=Task.Status.FAILED).count()
        again = {"status": Task.Status.SCHEDULED, "scheduled_for": Now(), "finished_at": None, "updated_at": Now()}
        Task.objects.filter(pk=task.pk).update(**again, forgiven_failures=forgiven)
    _wake(failed)
    return len(failed)


def lock_tasks(task_ids: Sequence[UUID], *, project_id: str, warehouse_id: UUID = NO_ID) -> list[Task]:
    """Lock tasks of a warehouse, or of a project alone, in the order of their ids.

    Raises `BadRequest` for more than `MAX_TASKS`, and `TaskNotFound` (404) if one does not exist.
    """
    wanted = sorted(set(task_ids))
    if len(wanted) > MAX_TASKS:
        raise BadRequest(f"task-ids: at most {MAX_TASKS} at once")
    own = Task.objects.filter(pk__in=wanted, project_id=project_id, warehouse_id=warehouse_id)
    found = list(own.order_by("pk").select_for_update())
    missing = set(wanted) - {task.pk for task in found}
    if missing:
        raise TaskNotFound(f"Task {min(missing)} does not exist")
    return found


def _end_as_cancelled(tasks: Sequence[Task]) -> None:
    record_attempts([task for task in tasks if task.status in Task.LEASED], Task.Status.CANCELLED)
    Task.objects.filter(pk__in=_ids(tasks)).update(
        status=Task.Status.CANCELLED, leased_until=None, finished_at=Now(), updated_at=Now()
    )


def _wake(tasks: Sequence[Task]) -> None:
    for queue in sorted({task.queue for task in tasks}):
        wake_workers(queue)


def _ids(tasks: Sequence[Task]) -> list[UUID]:
    return [task.pk for task in tasks]
