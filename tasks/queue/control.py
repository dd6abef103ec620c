"""Control of tasks by operators: stop, cancel, run now or later, and retry after failure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce, Now
from django.utils.module_loading import import_string

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest, Conflict, NotFound
from tasks.models import Task, TaskAttempt
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


def stop_tasks(tasks: Sequence[Task]) -> list[Task]:
    """Ask the workers of running tasks, which are locked, to stop; return those. They are scheduled again."""
    running = [task for task in tasks if task.status == Task.Status.RUNNING]
    Task.objects.filter(pk__in=_ids(running)).update(status=Task.Status.STOPPING, updated_at=Now())
    return running


def cancel_tasks(tasks: Sequence[Task], *, actor: object) -> list[Task]:
    """End those of the tasks that have not ended, in the caller's transaction; return them.

    A worker that has leased one cannot complete it. What a queue must undo with its tasks, its `on_cancel` undoes: it
    locks what it needs before the tasks, in the order in which the work itself does. So `tasks` must not be locked.
    """
    by_queue: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        by_queue[task.queue].append(task)
    ended: list[Task] = []
    for queue, some in sorted(by_queue.items()):
        on_cancel = QUEUES[queue].on_cancel if queue in QUEUES else None
        ended += lock_and_end(some) if on_cancel is None else import_string(on_cancel)(actor, some)
    return ended


def cancel_tasks_of(queue: str, warehouse_id: UUID, entity_ids: Sequence[UUID]) -> None:
    """End the tasks of these entities in `queue` without undoing anything: the caller changes their objects itself."""
    own = Task.objects.of_entities(queue, warehouse_id, entity_ids)
    end_as_cancelled(list(own.order_by("pk").select_for_update()))


def lock_and_end(tasks: Sequence[Task]) -> list[Task]:
    """Lock those of the tasks that have not ended, and end them as cancelled; return them."""
    live = lock_live(tasks)
    end_as_cancelled(live)
    return live


def lock_live(tasks: Sequence[Task]) -> list[Task]:
    """Lock those of the tasks that have not ended, in the order of their ids."""
    return list(Task.objects.live().filter(pk__in=_ids(tasks)).order_by("pk").select_for_update())


def end_as_cancelled(tasks: Sequence[Task]) -> None:
    """End locked tasks that have not ended."""
    record_attempts([task for task in tasks if task.status in Task.LEASED], Task.Status.CANCELLED)
    Task.objects.filter(pk__in=_ids(tasks)).update(
        status=Task.Status.CANCELLED, leased_until=None, finished_at=Now(), updated_at=Now()
    )


def run_tasks_at(tasks: Sequence[Task], at: datetime | None) -> list[Task]:
    """Schedule those of the locked tasks that are scheduled or stopping for `at`, or for now; return them.

    A stopping one is scheduled when its worker has ended the attempt: two workers never have a task at the same time.
    Raises `BadRequest` for a time more than a year from now.
    """
    if at is not None and at > now() + MAX_DELAY:
        raise BadRequest("scheduled-for: at most 365 days from now", field="scheduled-for")
    waiting = [task for task in tasks if task.status in {Task.Status.SCHEDULED, Task.Status.STOPPING}]
    Task.objects.filter(pk__in=_ids(waiting)).update(scheduled_for=Now() if at is None else at, updated_at=Now())
    _wake(waiting)
    return waiting


def retry_tasks(tasks: Sequence[Task]) -> list[Task]:
    """Schedule those of the locked tasks that failed again, with as many attempts as new ones; return them.

    Raises `TaskAlreadyActive` (409) when the object of one has another task of the queue by now.
    """
    failed = [task for task in tasks if task.status == Task.Status.FAILED]
    failures = TaskAttempt.objects.filter(task=OuterRef("pk"), status=Task.Status.FAILED).order_by().values("task")
    try:
        with transaction.atomic():
            Task.objects.filter(pk__in=_ids(failed)).update(
                status=Task.Status.SCHEDULED,
                scheduled_for=Now(),
                finished_at=None,
                updated_at=Now(),
                forgiven_failures=Coalesce(Subquery(failures.annotate(number=Count("pk")).values("number")), 0),
            )
    except IntegrityError:
        raise TaskAlreadyActive("One of the tasks was replaced by another one of the same object") from None
    _wake(failed)
    return failed


def get_tasks(
    task_ids: Sequence[UUID], *, project_id: str | None = None, warehouse_id: UUID | None = None
) -> list[Task]:
    """Return the tasks in the order of their ids, with a project and a warehouse only those in them.

    Raises `BadRequest` for more than `MAX_TASKS`, and `TaskNotFound` (404) if one does not exist there.
    """
    return _require_all(task_ids, _in_order(task_ids, project_id, warehouse_id))


def find_tasks(task_ids: Sequence[UUID], *, warehouse_id: UUID | None, project_id: str | None = None) -> list[Task]:
    """As `get_tasks`, without those that do not exist there."""
    return list(_in_order(task_ids, project_id, warehouse_id))


def lock_tasks(
    task_ids: Sequence[UUID], *, project_id: str | None = None, warehouse_id: UUID | None = None
) -> list[Task]:
    """As `get_tasks`, and lock them."""
    return _require_all(task_ids, _in_order(task_ids, project_id, warehouse_id).select_for_update())


def _in_order(task_ids: Sequence[UUID], project_id: str | None, warehouse_id: UUID | None) -> QuerySet[Task]:
    if len(set(task_ids)) > MAX_TASKS:
        raise BadRequest(f"task-ids: at most {MAX_TASKS} at once")
    found = Task.objects.filter(pk__in=task_ids).order_by("pk")
    if project_id is not None:
        found = found.filter(project_id=project_id)
    return found if warehouse_id is None else found.filter(warehouse_id=warehouse_id)


def _require_all(task_ids: Sequence[UUID], tasks: QuerySet[Task]) -> list[Task]:
    found = list(tasks)
    missing = set(task_ids) - set(_ids(found))
    if missing:
        raise TaskNotFound(f"Task {min(missing)} does not exist")
    return found


def _wake(tasks: Sequence[Task]) -> None:
    for queue in sorted({task.queue for task in tasks}):
        wake_workers(queue)


def _ids(tasks: Sequence[Task]) -> list[UUID]:
    return [task.pk for task in tasks]
