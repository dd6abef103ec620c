"""Control of tasks, each recorded as a change.

Each function takes at most a hundred tasks of a scope, and returns those that it changed; tasks in another state stay
as they are. Raises `BadRequest` for more, `TaskNotFound` (404) for one that does not exist in the scope or is hidden
from the caller, `Forbidden` for one that the caller may not control: then none is changed. With `all_or_none` it
raises `TasksChanged` (409), and changes none, if one of the tasks is in another state: for a caller who has seen what
the call is about to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Protocol
from uuid import UUID

from catalog.selectors.tasks import find_task_entities
from catalog.selectors.warehouses import require_on_warehouse
from catalog.services.tables.undrop import require_restores_approved
from icekeeper.kernel import request_context
from icekeeper.kernel.errors.types import Conflict, Forbidden
from tasks.models import NO_ID, Task
from tasks.queue import control
from tasks.queue.control import TaskNotFound
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.permissions import (
    action_forbidden,
    check_permissions,
    deny_as_missing,
    recheck_before_write,
    require_permission,
)
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import ChangeTransaction, change
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef


class TasksChanged(Conflict):
    """A task is no longer in a state in which the action changes it."""

    wire_type = "TasksChanged"


class TaskScope(Protocol):
    """The tasks that a call can name. None stands for any project or warehouse."""

    @property
    def project_id(self) -> str | None: ...

    @property
    def warehouse_id(self) -> UUID | None: ...

    def require_control(self, actor: Actor, task_ids: Sequence[UUID]) -> None:
        """Raise `TaskNotFound` or `Forbidden` unless `actor` may control these tasks."""


class AllTasks:
    """All tasks of the server, for its operator alone."""

    project_id: ClassVar[None] = None
    warehouse_id: ClassVar[None] = None

    def require_control(self, actor: Actor, task_ids: Sequence[UUID]) -> None:
        if not actor.is_internal:
            raise Forbidden("Only the operator of the server may control all tasks")


@dataclass(frozen=True, slots=True)
class ProjectTasks:
    """The tasks of a project that belong to no warehouse."""

    project: Project
    warehouse_id: ClassVar[UUID] = NO_ID

    @property
    def project_id(self) -> str:
        return self.project.pk

    def require_control(self, actor: Actor, task_ids: Sequence[UUID]) -> None:
        require_permission(actor, Can.CONTROL_PROJECT_TASKS, Securable.Type.PROJECT, self.project.pk)


@dataclass(frozen=True, slots=True)
class WarehouseTasks:
    """The tasks of a warehouse: all of them with `control_all_tasks`, else those of tabulars with `control_tasks`."""

    warehouse_id: UUID
    project_id: ClassVar[None] = None

    def require_control(self, actor: Actor, task_ids: Sequence[UUID]) -> None:
        epoch = permission_epoch.current()
        controls_all, sees_all = require_on_warehouse(
            actor, self.warehouse_id, Can.USE, [Can.CONTROL_ALL_TASKS, Can.GET_ALL_TASKS]
        )
        warehouse: ObjectRef = ObjectRef(Securable.Type.WAREHOUSE, self.warehouse_id)
        if controls_all:
            recheck_before_write(actor, [(Can.CONTROL_ALL_TASKS, warehouse)], epoch)
            return
        tasks = {task.pk: task for task in control.find_tasks(task_ids, warehouse_id=self.warehouse_id)}
        entities = find_task_entities(self.warehouse_id, list(tasks.values()))
        checks = [(action, ref) for ref in entities.values() for action in (Can.CONTROL_TASKS, Can.GET_TASKS)]
        allowed = dict(zip(checks, check_permissions(actor, checks), strict=True))
        # In the order of the ids: the error about a hidden task is that about a missing one.
        for task_id in sorted(set(task_ids)):
            missing = TaskNotFound(f"Task {task_id} does not exist")
            task = tasks.get(task_id)
            ref = None if task is None else entities.get(task.entity_id)
            action, on = (Can.CONTROL_ALL_TASKS, warehouse) if ref is None else (Can.CONTROL_TASKS, ref)
            if ref is not None and allowed[action, ref]:
                continue
            if task is None:
                raise missing
            if not (sees_all or (ref is not None and allowed[Can.GET_TASKS, ref])):
                raise deny_as_missing(actor, action, on, missing)
            raise action_forbidden(actor, action, on)
        recheck_before_write(actor, [(Can.CONTROL_TASKS, ref) for ref in entities.values()], epoch)


ALL_TASKS = AllTasks()


def retry_tasks(*, actor: Actor, scope: TaskScope, task_ids: Sequence[UUID], all_or_none: bool = False) -> list[Task]:
    """Schedule failed tasks again. Raises `TaskAlreadyActive` (409) if another task has replaced one."""
    scope.require_control(actor, task_ids)
    with change(actor) as tx:
        changed = control.retry_tasks(_lock(scope, task_ids))
        return _record(tx, Change.TASK_RETRIED, changed, task_ids if all_or_none else ())


def run_tasks_at(
    *,
    actor: Actor,
    scope: TaskScope,
    task_ids: Sequence[UUID],
    at: datetime | None,
    all_or_none: bool = False,
) -> list[Task]:
    """Let tasks that are scheduled or stopping start at a time, or with None at once.

    Raises `BadRequest` for a time more than a year from now.
    """
    scope.require_control(actor, task_ids)
    with change(actor) as tx:
        changed = control.run_tasks_at(_lock(scope, task_ids), at)
        return _record(tx, Change.TASK_SCHEDULED, changed, task_ids if all_or_none else ())


def stop_tasks(*, actor: Actor, scope: TaskScope, task_ids: Sequence[UUID], all_or_none: bool = False) -> list[Task]:
    """Stop running tasks at their next heartbeat; they are scheduled again."""
    scope.require_control(actor, task_ids)
    with change(actor) as tx:
        changed = control.stop_tasks(_lock(scope, task_ids))
        return _record(tx, Change.TASK_STOPPED, changed, task_ids if all_or_none else ())


def cancel_tasks(*, actor: Actor, scope: TaskScope, task_ids: Sequence[UUID], all_or_none: bool = False) -> list[Task]:
    """End tasks that have not ended: the table of a cancelled expiration is restored, the files of a cancelled purge
    stay and its location becomes free.

    Raises `PurgeRunning`, `ContractViolation` (409), and `AlreadyExists` (409) if the name of a table to restore is
    taken.
    """
    scope.require_control(actor, task_ids)
    tasks = control.get_tasks(task_ids, project_id=scope.project_id, warehouse_id=scope.warehouse_id)
    expiring = [task.entity_id for task in tasks if task.queue == Task.Queue.SOFT_DELETION]
    if expiring:
        require_restores_approved(actor, expiring)
    with change(actor) as tx:
        cancelled = control.cancel_tasks(tasks, actor=actor)
        request_context.recheck_permissions()
        return _record(tx, Change.TASK_CANCELLED, cancelled, task_ids if all_or_none else ())


def _lock(scope: TaskScope, task_ids: Sequence[UUID]) -> list[Task]:
    tasks = control.lock_tasks(task_ids, project_id=scope.project_id, warehouse_id=scope.warehouse_id)
    request_context.recheck_permissions()
    return tasks


def _record(tx: ChangeTransaction, kind: Change, tasks: list[Task], required: Sequence[UUID]) -> list[Task]:
    """Record the change of these tasks. Raises `TasksChanged`, which rolls it back, if `required` are not all there."""
    if not {task.pk for task in tasks}.issuperset(required):
        raise TasksChanged("One of the tasks is in another state by now: nothing was changed")
    for task in tasks:
        in_warehouse: dict[str, Any] = {} if task.warehouse_id == NO_ID else {"warehouse": task.warehouse_id}
        tx.record(
            kind, subject=task.pk, project=task.project_id, queue=task.queue, levels=task.entity_name,
            entity=task.entity_uuid, entity_type=task.entity_type, **in_warehouse,
        )  # fmt: skip
    return tasks
