"""Deletion of tasks that ended long ago."""

from __future__ import annotations

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import BATCH, delete_in_batches
from tasks.models import NO_ID, Task
from tasks.queue.config import QUEUES, effective_member, get_queue_config, parse_duration


def delete_ended_tasks(*, actor: object, batch: int = BATCH) -> int:
    """Delete tasks and attempts that ended before the `retention-period` of their project; return their number.

    The configuration is that of the queue `task_log_cleanup`. Failed tasks are deleted, too.
    """
    queue = QUEUES[Task.Queue.TASK_LOG_CLEANUP]
    ended = Task.objects.exclude(finished_at=None)
    deleted = 0
    for project_id in ended.order_by("project_id").values_list("project_id", flat=True).distinct():
        config = get_queue_config(queue, project_id, NO_ID).config
        retention = parse_duration(effective_member(queue.name, config, "retention-period"))
        if retention is not None:
            old = ended.filter(project_id=project_id, finished_at__lt=now() - retention)
            deleted += delete_in_batches(old, batch=batch)
    return deleted
