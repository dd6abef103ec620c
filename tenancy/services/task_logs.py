"""Cleanup of the tasks of all projects."""

from __future__ import annotations

from icekeeper.kernel.db.transactions import write_transaction
from tasks.models import Task
from tasks.queue.cleanup import delete_ended_tasks, enqueue_cleanups
from tasks.queue.control import lock_and_end
from tenancy.models import Project


def schedule_task_log_cleanups(*, actor: object) -> int:
    """Enqueue a cleanup for each project that has none, as new projects and after a failed cleanup.

    Of deleted projects it ends the cleanup that one which ran during the deletion has enqueued, and deletes old tasks.
    Returns the number of deleted tasks.
    """
    scheduled = Task.objects.live().filter(queue=Task.Queue.TASK_LOG_CLEANUP)
    with write_transaction():
        missing = Project.objects.exclude(pk__in=scheduled.values("project_id")).order_by("pk")
        enqueue_cleanups(list(missing.values_list("pk", flat=True)))
    orphaned = Task.objects.exclude(project_id__in=Project.objects.values("pk"))
    with write_transaction():
        lock_and_end(list(orphaned.filter(queue=Task.Queue.TASK_LOG_CLEANUP, finished_at=None)))
    return delete_ended_tasks(orphaned.exclude(finished_at=None), "", lambda: None)
