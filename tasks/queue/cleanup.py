"""Deletion of tasks that ended long ago: the queue `task_log_cleanup`, with a task of each project."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from django.db import transaction

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import delete_in_batches, delete_rows
from tasks.models import NO_ID, Task, TaskQuerySet, TaskQueueConfig
from tasks.queue.config import QUEUES, effective_duration, get_queue_config
from tasks.queue.enqueue import enqueue_for_projects
from tasks.queue.leases import Lease

MIN_PERIOD: Final = timedelta(days=1)

_QUEUE: Final = QUEUES[Task.Queue.TASK_LOG_CLEANUP.value]


def clean_task_log(lease: Lease, checkpoint: Callable[[], object]) -> None:
    """Delete the tasks of a project that ended before its `retention-period`, with their attempts.

    Then finish, and enqueue the next cleanup after the `cleanup-period`, a day at least as in Lakekeeper. Raises what
    `checkpoint` raises.
    """
    deleted = delete_ended_tasks(Task.objects.filter(project_id=lease.project_id), lease.project_id, checkpoint)
    lease.execution_details["deleted-tasks"] = deleted
    period = effective_duration(_QUEUE, get_queue_config(_QUEUE, lease.project_id), "cleanup-period")
    period = max(period, MIN_PERIOD)
    with transaction.atomic():
        lease.finish()
        enqueue_for_projects(_QUEUE.name, [lease.project_id], scheduled_for=now() + period)


def delete_ended_tasks(tasks: TaskQuerySet, project_id: str, checkpoint: Callable[[], object]) -> int:
    """Delete those of `tasks` that ended before the `retention-period` of the project; return their number.

    Successful ones are deleted after the `success_retention` of their queue; failed ones of queues with `keeps_failed`
    remain.
    """
    retention = effective_duration(_QUEUE, get_queue_config(_QUEUE, project_id), "retention-period")
    at, kept = now(), [queue.name for queue in QUEUES.values() if queue.keeps_failed]
    old = tasks.filter(finished_at__lt=at - retention).exclude(status=Task.Status.FAILED, queue__in=kept)
    deleted = delete_in_batches(old, checkpoint=checkpoint)
    for queue in QUEUES.values():
        if queue.success_retention is not None:
            successful = tasks.filter(queue=queue.name, status=Task.Status.SUCCESS)
            old = successful.filter(finished_at__lt=at - queue.success_retention)
            deleted += delete_in_batches(old, checkpoint=checkpoint)
    return deleted


def delete_project_tasks(project_id: str) -> None:
    """Delete the tasks and configurations of a project without warehouses, in the caller's transaction.

    A later project can have the same id. Tasks of its former warehouses remain until their retention ends.
    """
    # Locked first: a worker that ends one of them meanwhile finds that it has lost it, or does so before.
    rows = Task.objects.filter(project_id=project_id, warehouse_id=NO_ID).order_by("pk").select_for_update()
    ids = list(rows.values_list("pk", flat=True))
    if ids:
        delete_rows(Task, ids)
    TaskQueueConfig.objects.filter(project_id=project_id).delete()
