"""Events for tasks that ended."""

from __future__ import annotations

from typing import Any

from tasks.models import NO_ID, Task
from tenancy.actor import INTERNAL
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change


def record_task_end(task: Task) -> None:
    """Record that a task succeeded or failed for good, in the transaction that ends it (`TASK_END_RECORDER`).

    There is no audit record: what the task did has its own ones, and the list of tasks has its attempts.
    """
    has_failed = task.status == Task.Status.FAILED
    in_warehouse: dict[str, Any] = {} if task.warehouse_id == NO_ID else {"warehouse": task.warehouse_id}
    ended: dict[str, Any] = {"error": task.message} if has_failed else {"results": task.execution_details or {}}
    with change(INTERNAL) as tx:
        tx.record(
            Change.TASK_FAILED if has_failed else Change.TASK_COMPLETED,
            subject=task.pk, project=task.project_id, is_audited=False, queue=task.queue, levels=task.entity_name,
            entity=task.entity_uuid, entity_type=task.entity_type, attempt=task.attempt, **ended, **in_warehouse,
        )  # fmt: skip
