"""Control of tasks by the operator of the server, each recorded as a change. No permission is checked.

Raises `BadRequest` for more than a hundred tasks, `TaskNotFound` (404) for one that does not exist: then none is
changed. Each function returns the tasks that it changed; those in another state stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tasks.models import NO_ID, Task
from tasks.queue import control
from tenancy.actor import Actor
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import ChangeTransaction, change


def retry_tasks(*, actor: Actor, task_ids: Sequence[UUID]) -> list[Task]:
    """Schedule failed tasks again. Raises `TaskAlreadyActive` (409) if another task has replaced one."""
    with change(actor) as tx:
        return _record(tx, Change.TASK_RETRIED, control.retry_tasks(control.lock_tasks(task_ids)))


def run_tasks_now(*, actor: Actor, task_ids: Sequence[UUID]) -> list[Task]:
    """Let tasks that are scheduled for later start at once."""
    with change(actor) as tx:
        return _record(tx, Change.TASK_SCHEDULED, control.run_tasks_at(control.lock_tasks(task_ids), None))


def stop_tasks(*, actor: Actor, task_ids: Sequence[UUID]) -> list[Task]:
    """Stop running tasks at their next heartbeat; they are scheduled again."""
    with change(actor) as tx:
        return _record(tx, Change.TASK_STOPPED, control.stop_tasks(control.lock_tasks(task_ids)))


def cancel_tasks(*, actor: Actor, task_ids: Sequence[UUID]) -> list[Task]:
    """End tasks that have not ended: the table of a cancelled expiration is restored, the files of a cancelled purge
    stay and its location becomes free.

    Raises `PurgeRunning` (409), and `AlreadyExists` (409) if the name of a table to restore is taken.
    """
    with change(actor) as tx:
        return _record(tx, Change.TASK_CANCELLED, control.cancel_tasks(control.get_tasks(task_ids), actor=actor))


def _record(tx: ChangeTransaction, kind: Change, tasks: list[Task]) -> list[Task]:
    for task in tasks:
        in_warehouse: dict[str, Any] = {} if task.warehouse_id == NO_ID else {"warehouse": task.warehouse_id}
        tx.record(
            kind, subject=task.pk, project=task.project_id, queue=task.queue, levels=task.entity_name,
            entity=task.entity_uuid, entity_type=task.entity_type, **in_warehouse,
        )  # fmt: skip
    return tasks
