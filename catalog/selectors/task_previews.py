"""What a control of several tasks would do: which are changed, and why others are left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final
from uuid import UUID

from catalog.selectors.tasks import find_controllable_for, find_task_entities, may_control_project_tasks
from catalog.selectors.warehouses import require_on_warehouse
from icekeeper.kernel.errors.types import BadRequest
from tasks.models import NO_ID, Task
from tasks.queue.control import MAX_TASKS, find_tasks
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions, require_permission
from tenancy.models import Project, Securable


class Control(StrEnum):
    """What can be done with tasks, by the names of the management API."""

    RETRY = "retry"
    RUN_NOW = "run-now"
    RUN_AT = "run-at"
    STOP = "stop"
    CANCEL = "cancel"


_WAITING: Final = frozenset({Task.Status.SCHEDULED, Task.Status.STOPPING})
_CHANGED_STATES: Final = {
    Control.RETRY: frozenset({Task.Status.FAILED}),
    Control.RUN_NOW: _WAITING,
    Control.RUN_AT: _WAITING,
    Control.STOP: frozenset({Task.Status.RUNNING}),
    Control.CANCEL: frozenset({Task.Status.SCHEDULED, Task.Status.RUNNING, Task.Status.STOPPING}),
}
"""The states in which each control changes a task; in others it does nothing."""


def is_changed_by(task: Task, control: Control) -> bool:
    """Return whether a control changes a task in its state. A failed purge can be cancelled: it reserves a location."""
    is_failed_purge = task.queue == Task.Queue.TABULAR_PURGE and task.status == Task.Status.FAILED
    return task.status in _CHANGED_STATES[control] or (control is Control.CANCEL and is_failed_purge)


def is_expiration(task: Task) -> bool:
    """Return whether a task deletes a dropped table or view permanently."""
    return task.queue == Task.Queue.SOFT_DELETION


class TaskObstacle(StrEnum):
    """Why a task is left out. `NOT_FOUND`: it does not exist there, or is hidden from the caller. `EXPIRATION`: it
    deletes a dropped object, which `preview_expiration_for` previews.
    """

    NOT_FOUND = "not-found"
    FORBIDDEN = "forbidden"
    STATE = "state"
    PURGE_RUNNING = "purge-running"
    EXPIRATION = "expiration"


@dataclass(frozen=True, slots=True)
class TaskStep:
    """What happens to one task: it is changed unless there is an `obstacle`. `task` is None if it is not found."""

    task_id: UUID
    task: Task | None
    obstacle: TaskObstacle | None


@dataclass(frozen=True, slots=True)
class TaskControlPreview:
    """The steps in the order of the ids. `digest` changes with what would be changed and left out."""

    control: Control
    steps: tuple[TaskStep, ...]

    @property
    def changed(self) -> list[UUID]:
        return [each.task_id for each in self.steps if each.obstacle is None]

    @property
    def digest(self) -> str:
        shown = [
            (str(each.task_id), str(each.obstacle), each.task.status, each.task.attempt, str(each.task.scheduled_for))
            if each.task is not None
            else (str(each.task_id), str(each.obstacle))
            for each in self.steps
        ]
        return sha256(repr((self.control.value, shown)).encode()).hexdigest()


def preview_task_control_for(
    *, actor: Actor, warehouse_id: UUID, task_ids: Sequence[UUID], control: Control
) -> TaskControlPreview:
    """Return what a control does with those of the tasks that it can change; nothing is changed.

    Raises `NoSuchWarehouse`, and `BadRequest` for more than `MAX_TASKS`.
    """
    ids = _in_order(task_ids)
    (sees_all,) = require_on_warehouse(actor, warehouse_id, Can.USE, [Can.GET_ALL_TASKS])
    found = {task.pk: task for task in find_tasks(ids, warehouse_id=warehouse_id)}
    visible = found if sees_all else _visible(actor, warehouse_id, found)
    controllable = find_controllable_for(actor=actor, warehouse_id=warehouse_id, tasks=list(visible.values()))
    return _preview(control, ids, visible, controllable)


def preview_project_task_control_for(
    *, actor: Actor, project: Project, task_ids: Sequence[UUID], control: Control
) -> TaskControlPreview:
    """As `preview_task_control_for`, for tasks of the project itself. Raises `ProjectActionForbidden` (403)."""
    ids = _in_order(task_ids)
    require_permission(actor, Can.GET_PROJECT_TASKS, Securable.Type.PROJECT, project.pk)
    found = {task.pk: task for task in find_tasks(ids, project_id=project.pk, warehouse_id=NO_ID)}
    controllable = found if may_control_project_tasks(actor=actor, project=project) else ()
    return _preview(control, ids, found, controllable)


def _in_order(task_ids: Sequence[UUID]) -> list[UUID]:
    ids = sorted(set(task_ids))
    if len(ids) > MAX_TASKS:
        raise BadRequest(f"Choose at most {MAX_TASKS} tasks at once")
    return ids


def _preview(
    control: Control, ids: Sequence[UUID], visible: Mapping[UUID, Task], controllable: Collection[UUID]
) -> TaskControlPreview:
    steps = []
    for task_id in ids:
        task = visible.get(task_id)
        steps.append(TaskStep(task_id, task, _find_obstacle(task, control, is_allowed=task_id in controllable)))
    return TaskControlPreview(control, tuple(steps))


def _visible(actor: Actor, warehouse_id: UUID, tasks: dict[UUID, Task]) -> dict[UUID, Task]:
    entities = find_task_entities(warehouse_id, list(tasks.values()))
    decided = check_permissions(actor, [(Can.GET_TASKS, ref) for ref in entities.values()])
    seen = {own_id for own_id, is_seen in zip(entities, decided, strict=True) if is_seen}
    return {task.pk: task for task in tasks.values() if task.entity_id in seen}


def _find_obstacle(task: Task | None, control: Control, *, is_allowed: bool) -> TaskObstacle | None:
    if task is None:
        return TaskObstacle.NOT_FOUND
    if not is_allowed:
        return TaskObstacle.FORBIDDEN
    if not is_changed_by(task, control):
        return TaskObstacle.STATE
    if control is Control.CANCEL and task.queue == Task.Queue.TABULAR_PURGE and task.status in Task.LEASED:
        return TaskObstacle.PURGE_RUNNING
    if control is Control.RUN_NOW and is_expiration(task):
        return TaskObstacle.EXPIRATION
    return None
