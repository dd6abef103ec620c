"""Tasks that each project has at all times."""

from __future__ import annotations

from typing import Final

from icekeeper.kernel.db.transactions import write_transaction
from tasks.models import Task
from tasks.queue.cleanup import delete_ended_tasks
from tasks.queue.config import QUEUES
from tasks.queue.control import lock_and_end
from tasks.queue.enqueue import enqueue_for_projects
from tenancy.models import Project

PROJECT_QUEUES: Final = [queue.name for queue in QUEUES.values() if queue.scope == "project"]


def schedule_project_tasks(*, actor: object) -> int:
    """Enqueue a task of each queue for every project without one: a new project, or one whose task has failed.

    For deleted projects it cancels the tasks that remain, and deletes old ones. Returns the number of deleted tasks.
    """
    for queue in PROJECT_QUEUES:
        scheduled = Task.objects.live().filter(queue=queue)
        with write_transaction():
            missing = Project.objects.exclude(pk__in=scheduled.values("project_id")).order_by("pk")
            enqueue_for_projects(queue, list(missing.values_list("pk", flat=True)))
    orphaned = Task.objects.exclude(project_id__in=Project.objects.values("pk"))
    with write_transaction():
        lock_and_end(list(orphaned.filter(queue__in=PROJECT_QUEUES, finished_at=None)))
    return delete_ended_tasks(orphaned.exclude(finished_at=None), "", lambda: None)
