"""Tasks of a warehouse, and of a project itself, as far as the caller has the permission to see them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connections
from django.db.models import Prefetch, Q, QuerySet, TextField
from django.db.models.functions import Cast

from catalog.models import Tabular
from catalog.selectors.warehouses import require_on_warehouse
from icekeeper.kernel.db.sql import fetch_one
from icekeeper.kernel.http.paging import Page, build_page, time_and_id_key
from tasks.models import NO_ID, Task, TaskAttempt, TaskQuerySet
from tasks.queue.config import canonical_queue_name
from tasks.queue.control import TaskNotFound
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_denial
from tenancy.authz.actions import Can
from tenancy.authz.permissions import (
    WarehouseActionForbidden,
    check_permissions,
    deny_as_missing,
    is_allowed,
    require_permission,
)
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef

MAX_ATTEMPTS: Final = 1_000
"""Attempts in one response."""

WAREHOUSE_ENTITY: Final = "warehouse"
"""Entity type of tasks that are about a warehouse as a whole."""

MAX_COUNTED: Final = 1_000
"""Tasks that are counted of each state; a larger count means "more"."""

MAX_SEARCHED: Final = 10_000
"""Newest tasks of a warehouse, or of one state in it, among which filters without an index search."""

ENTITY_TYPES: Final = (*Tabular.Kind.values, WAREHOUSE_ENTITY)


class WarehouseListTasksForbidden(WarehouseActionForbidden):
    wire_type = "WarehouseListTasksForbidden"


class TaskEntity(NamedTuple):
    """What a task is about: a tabular by the id that clients see, or, with the id None, the warehouse as a whole."""

    type: str
    uuid: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilters:
    """Conditions that tasks must all meet; None stands for any. A list is met by one of its values."""

    statuses: Sequence[Task.Status] | None = None
    queues: Sequence[str] | None = None
    entities: Sequence[TaskEntity] | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    object_uuid: UUID | None = None
    """The id that clients see of a tabular, whatever its kind."""
    name_part: str = ""
    """A part of the name of the object, with its namespace; among the newest `MAX_SEARCHED` tasks only."""

    def apply(self, tasks: QuerySet[Task]) -> QuerySet[Task]:
        if self.statuses is not None:
            tasks = tasks.filter(status__in=self.statuses)
        if self.queues is not None:
            tasks = tasks.filter(queue__in={canonical_queue_name(name) for name in self.queues})
        if self.created_after is not None:
            tasks = tasks.filter(created_at__gt=self.created_after)
        if self.created_before is not None:
            tasks = tasks.filter(created_at__lt=self.created_before)
        if self.object_uuid is not None:
            tasks = tasks.filter(entity_uuid=self.object_uuid)
        return tasks


def list_warehouse_tasks_for(
    *, actor: Actor, warehouse_id: UUID, filters: TaskFilters, page: Page
) -> tuple[list[Task], str | None]:
    """Return tasks of a warehouse, newest first, and the token of the next page.

    Callers without the permission for all tasks must name entities with `get_tasks` on each. Raises `NoSuchWarehouse`,
    `WarehouseListTasksForbidden` (403).
    """
    (sees_all,) = require_on_warehouse(actor, warehouse_id, Can.USE, [Can.GET_ALL_TASKS])
    tasks = filters.apply(_tasks().in_warehouse(warehouse_id))
    if filters.entities is not None:
        tasks = tasks.filter(_is_about(filters.entities))
    if not sees_all:
        # By their own ids: another tabular can have had the same UUID before.
        entities = filters.entities if filters.object_uuid is None else _named_by(warehouse_id, filters.object_uuid)
        tasks = tasks.filter(entity_id__in=_visible_entities(actor, warehouse_id, entities))
    if filters.name_part:
        newest = _tasks().in_warehouse(warehouse_id).order_by("-created_at", "-id").values("pk")[:MAX_SEARCHED]
        named = tasks.alias(name_text=Cast("entity_name", TextField()))
        tasks = named.filter(_has_name(filters.name_part), pk__in=newest)
    return _page_of(tasks, page)


def count_warehouse_tasks_for(
    *, actor: Actor, warehouse_id: UUID, queues: Sequence[str] | None = None
) -> dict[Task.Status, int] | None:
    """Return how many tasks of a warehouse have each status, at most `MAX_COUNTED` + 1; None without the permission to
    see all.

    With `queues` only the newest `MAX_SEARCHED` of each status are counted. One statement. Raises `NoSuchWarehouse`.
    """
    (sees_all,) = require_on_warehouse(actor, warehouse_id, Can.USE, [Can.GET_ALL_TASKS])
    if not sees_all:
        return None
    wanted = None if queues is None else [canonical_queue_name(name) for name in queues]
    counts = ", ".join(_COUNT if wanted is None else _COUNT_IN_QUEUES for _ in Task.Status)
    params: list[Any] = []
    for status in Task.Status:
        params += [warehouse_id, status.value]
        params += [MAX_COUNTED + 1] if wanted is None else [MAX_SEARCHED, wanted, MAX_COUNTED + 1]
    row = fetch_one(settings.READ_DATABASE, f"SELECT {counts}", params)
    return dict(zip(Task.Status, row or (), strict=True))


_COUNT: Final = """
(SELECT count(*) FROM (SELECT 1 FROM tasks_task WHERE warehouse_id = %s AND status = %s LIMIT %s) t)"""
_COUNT_IN_QUEUES: Final = """
(SELECT count(*) FROM (
   SELECT 1 FROM (SELECT queue FROM tasks_task WHERE warehouse_id = %s AND status = %s
                   ORDER BY created_at DESC, id DESC LIMIT %s) newest
    WHERE queue = ANY(%s) LIMIT %s) t)"""


def find_controllable_for(*, actor: Actor, warehouse_id: UUID, tasks: Sequence[Task]) -> frozenset[UUID]:
    """Return the ids of those tasks that `actor` may control: by the warehouse, or by their table or view.

    Raises `NoSuchWarehouse`.
    """
    (controls_all,) = require_on_warehouse(actor, warehouse_id, Can.USE, [Can.CONTROL_ALL_TASKS])
    if controls_all:
        return frozenset(task.pk for task in tasks)
    entities = find_task_entities(warehouse_id, tasks)
    decided = check_permissions(actor, [(Can.CONTROL_TASKS, ref) for ref in entities.values()])
    controllable = {own_id for own_id, is_allowed in zip(entities, decided, strict=True) if is_allowed}
    return frozenset(task.pk for task in tasks if task.entity_id in controllable)


def may_control_project_tasks(*, actor: Actor, project: Project) -> bool:
    return is_allowed(actor, Can.CONTROL_PROJECT_TASKS, Securable.Type.PROJECT, project.pk)


def list_project_tasks_for(
    *, actor: Actor, project: Project, filters: TaskFilters, page: Page
) -> tuple[list[Task], str | None]:
    """Return tasks of a project that belong to no warehouse, newest first, and the token of the next page.

    Raises `ProjectActionForbidden` (403).
    """
    require_permission(actor, Can.GET_PROJECT_TASKS, Securable.Type.PROJECT, project.pk)
    return _page_of(filters.apply(_tasks().filter(project_id=project.pk, warehouse_id=NO_ID)), page)


def get_warehouse_task_for(*, actor: Actor, warehouse_id: UUID, task_id: UUID, attempts: int) -> Task:
    """Return a task with at most `attempts` of its last attempts that have ended, newest first, as `ended_attempts`.

    Raises `NoSuchWarehouse`, and `TaskNotFound` (404) also for a task that the caller may not see.
    """
    (sees_all,) = require_on_warehouse(actor, warehouse_id, Can.USE, [Can.GET_ALL_TASKS])
    task = _with_attempts(attempts).in_warehouse(warehouse_id).filter(pk=task_id).first()
    if task is None:
        raise TaskNotFound(f"Task {task_id} does not exist")
    if not sees_all:
        ref = find_task_entities(warehouse_id, [task]).get(task.entity_id)
        if ref is None or not check_permissions(actor, [(Can.GET_TASKS, ref)])[0]:
            warehouse: ObjectRef = ObjectRef(Securable.Type.WAREHOUSE, warehouse_id)
            action, on = (Can.GET_ALL_TASKS, warehouse) if ref is None else (Can.GET_TASKS, ref)
            raise deny_as_missing(actor, action, on, TaskNotFound(f"Task {task_id} does not exist"))
    return task


def get_project_task_for(*, actor: Actor, project: Project, task_id: UUID, attempts: int) -> Task:
    """As `get_warehouse_task_for`, for a task of the project itself. Raises `ProjectActionForbidden` (403)."""
    require_permission(actor, Can.GET_PROJECT_TASKS, Securable.Type.PROJECT, project.pk)
    task = _with_attempts(attempts).filter(project_id=project.pk, warehouse_id=NO_ID, pk=task_id).first()
    if task is None:
        raise TaskNotFound(f"Task {task_id} does not exist")
    return task


def find_task_entities(warehouse_id: UUID, tasks: Sequence[Task]) -> dict[UUID, ObjectRef]:
    """Return by `entity_id` the tabulars of tasks that exist, dropped or not."""
    ids = {task.entity_id for task in tasks}
    rows = Tabular.objects.in_warehouse(warehouse_id).filter(pk__in=ids).values_list("pk", "kind")
    return {own_id: ObjectRef(Securable.Type(kind), own_id) for own_id, kind in rows}


def _visible_entities(actor: Actor, warehouse_id: UUID, entities: Sequence[TaskEntity] | None) -> list[UUID]:
    """Return the internal ids of `entities`. Raises `WarehouseListTasksForbidden` unless all give `get_tasks`."""
    named = set(entities or ())
    uuids = [entity.uuid for entity in named if entity.uuid is not None]
    found = Tabular.objects.using(settings.READ_DATABASE).in_warehouse(warehouse_id).filter(uuid__in=uuids)
    rows = [row for row in found.values_list("kind", "uuid", "pk") if TaskEntity(row[0], row[1]) in named]
    refs = [ObjectRef(Securable.Type(kind), own_id) for kind, _, own_id in rows]
    if not named or len(rows) < len(named) or not all(check_permissions(actor, [(Can.GET_TASKS, ref) for ref in refs])):
        record_denial(actor=actor, action=Can.GET_ALL_TASKS, object_type="warehouse", object_id=warehouse_id)
        raise WarehouseListTasksForbidden(
            f"{actor.name} may not list all tasks of warehouse {warehouse_id}: name tables and views whose tasks they "
            "may see"
        )
    return [own_id for _, _, own_id in rows]


def _named_by(warehouse_id: UUID, uuid: UUID) -> list[TaskEntity]:
    """Return the tabulars with this id, hidden ones included: the caller checks the permission on each."""
    rows = Tabular.objects.using(settings.READ_DATABASE).in_warehouse(warehouse_id).filter(uuid=uuid)
    return [TaskEntity(kind, uuid) for kind in rows.values_list("kind", flat=True)]


def _has_name(part: str) -> Q:
    """Match a part of a name, such as `sales.ord` or `orders`, in the stored JSON list of levels and name."""
    ascii_only = connections[settings.READ_DATABASE].vendor == "sqlite"

    def stored(text: str) -> str:
        return json.dumps(text, ensure_ascii=ascii_only)[1:-1]

    levels = '", "'.join(stored(each) for each in part.split("."))
    return Q(name_text__icontains=stored(part)) | Q(name_text__icontains=levels)


def _is_about(entities: Sequence[TaskEntity]) -> Q:
    condition = Q(pk__in=())
    for entity_type in {entity.type for entity in entities}:
        uuids = {entity.uuid for entity in entities if entity.type == entity_type and entity.uuid is not None}
        of_type = Q(entity_type=entity_type)
        condition |= of_type & Q(entity_uuid__in=uuids) if entity_type != WAREHOUSE_ENTITY else of_type
    return condition


def _page_of(tasks: QuerySet[Task], page: Page) -> tuple[list[Task], str | None]:
    rows = tasks.order_by("-created_at", "-id")
    if page.token:
        created_at, task_id = page.after_time_and_id()
        rows = rows.filter(created_at__lte=created_at).filter(Q(created_at__lt=created_at) | Q(pk__lt=task_id))
    return build_page([(time_and_id_key(row.created_at, row.pk), row) for row in rows[: page.sql_limit]], page)


def _with_attempts(number: int) -> TaskQuerySet:
    ended = TaskAttempt.objects.order_by("-attempt")[: min(number, MAX_ATTEMPTS)]
    return _tasks().prefetch_related(Prefetch("attempts", ended, to_attr="ended_attempts"))


def _tasks() -> TaskQuerySet:
    found: TaskQuerySet = Task.objects.using(settings.READ_DATABASE)
    return found
