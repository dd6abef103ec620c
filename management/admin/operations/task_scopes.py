"""What the tasks of a page belong to: a warehouse, or a project itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal
from urllib.parse import urlencode
from uuid import UUID

from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _

from catalog.selectors.task_previews import (
    Control,
    TaskControlPreview,
    preview_project_task_control_for,
    preview_task_control_for,
)
from catalog.selectors.tasks import (
    TaskFilters,
    count_warehouse_tasks_for,
    find_controllable_for,
    get_project_task_for,
    get_warehouse_task_for,
    list_project_tasks_for,
    list_warehouse_tasks_for,
    may_control_project_tasks,
)
from catalog.services.task_control import ProjectTasks, TaskScope, WarehouseTasks
from icekeeper.kernel.http.paging import Page
from management.admin.navigation import Crumb, Text, object_url
from management.admin.warehouse_choice import read_warehouse
from storage.models import Warehouse
from storage.selectors import get_warehouse_for
from tasks.models import NO_ID, Task
from tasks.queue.config import effective_member, list_queue_configs
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.models import Project
from tenancy.selectors.projects import get_visible_project_for


class PageScope(ABC):
    """What tasks belong to, with the selectors of its tasks on behalf of an actor."""

    kind: ClassVar[Literal["warehouse", "project"]]
    """Also the parameter of addresses that names it, and the `scope` of its queues."""

    @property
    @abstractmethod
    def id(self) -> str: ...

    @property
    @abstractmethod
    def crumb(self) -> Crumb:
        """Its name, with the address of its page."""

    @property
    @abstractmethod
    def tasks(self) -> TaskScope:
        """The same for the services that control tasks."""

    @abstractmethod
    def list_tasks(self, filters: TaskFilters, page: Page) -> tuple[list[Task], str | None]:
        """Return a page of tasks and the next token. Raises `Forbidden`."""

    @abstractmethod
    def count_tasks(self, queues: Sequence[str] | None) -> Mapping[Task.Status, int] | None:
        """Return how many tasks have each status; None where they are not counted."""

    @abstractmethod
    def get_task(self, task_id: UUID, attempts: int) -> Task:
        """Return a task with its last attempts as `ended_attempts`. Raises `TaskNotFound`, `Forbidden`."""

    @abstractmethod
    def find_controllable(self, tasks: Sequence[Task]) -> frozenset[UUID]: ...

    @abstractmethod
    def preview(self, task_ids: Sequence[UUID], control: Control) -> TaskControlPreview: ...

    @abstractmethod
    def max_retries(self) -> dict[str, int]:
        """Return by queue how many attempts can follow the first one. One statement."""

    @property
    def query(self) -> dict[str, str]:
        return {self.kind: self.id}

    def list_url(self, **filters: str) -> str:
        return f"{reverse('admin:tasks')}?{urlencode({**self.query, **filters})}"

    def breadcrumb(self, title: Text) -> list[Crumb]:
        return [self.crumb, Crumb(_("Tasks"), self.list_url()), Crumb(title)]


@dataclass(frozen=True)
class WarehouseScope(PageScope):
    actor: Actor
    warehouse: Warehouse
    kind: ClassVar[Literal["warehouse"]] = "warehouse"

    @property
    def id(self) -> str:
        return str(self.warehouse.pk)

    @property
    def crumb(self) -> Crumb:
        return Crumb(self.warehouse.name, object_url("warehouse", self.warehouse.pk, None))

    @property
    def tasks(self) -> WarehouseTasks:
        return WarehouseTasks(self.warehouse.pk)

    def list_tasks(self, filters: TaskFilters, page: Page) -> tuple[list[Task], str | None]:
        return list_warehouse_tasks_for(actor=self.actor, warehouse_id=self.warehouse.pk, filters=filters, page=page)

    def count_tasks(self, queues: Sequence[str] | None) -> Mapping[Task.Status, int] | None:
        return count_warehouse_tasks_for(actor=self.actor, warehouse_id=self.warehouse.pk, queues=queues)

    def get_task(self, task_id: UUID, attempts: int) -> Task:
        return get_warehouse_task_for(
            actor=self.actor, warehouse_id=self.warehouse.pk, task_id=task_id, attempts=attempts
        )

    def find_controllable(self, tasks: Sequence[Task]) -> frozenset[UUID]:
        return find_controllable_for(actor=self.actor, warehouse_id=self.warehouse.pk, tasks=tasks)

    def preview(self, task_ids: Sequence[UUID], control: Control) -> TaskControlPreview:
        return preview_task_control_for(
            actor=self.actor, warehouse_id=self.warehouse.pk, task_ids=task_ids, control=control
        )

    def max_retries(self) -> dict[str, int]:
        return _max_retries(self.warehouse.project_id, self.warehouse.pk)


@dataclass(frozen=True)
class ProjectScope(PageScope):
    actor: Actor
    project: Project
    kind: ClassVar[Literal["project"]] = "project"

    @property
    def id(self) -> str:
        return self.project.pk

    @property
    def crumb(self) -> Crumb:
        return Crumb(self.project.name, reverse("admin:project", args=[self.project.pk]))

    @property
    def tasks(self) -> ProjectTasks:
        return ProjectTasks(self.project)

    def list_tasks(self, filters: TaskFilters, page: Page) -> tuple[list[Task], str | None]:
        return list_project_tasks_for(actor=self.actor, project=self.project, filters=filters, page=page)

    def count_tasks(self, queues: Sequence[str] | None) -> None:
        """No index has the tasks of a project by status."""

    def get_task(self, task_id: UUID, attempts: int) -> Task:
        return get_project_task_for(actor=self.actor, project=self.project, task_id=task_id, attempts=attempts)

    def find_controllable(self, tasks: Sequence[Task]) -> frozenset[UUID]:
        is_allowed = may_control_project_tasks(actor=self.actor, project=self.project)
        return frozenset(task.pk for task in tasks) if is_allowed else frozenset()

    def preview(self, task_ids: Sequence[UUID], control: Control) -> TaskControlPreview:
        return preview_project_task_control_for(
            actor=self.actor, project=self.project, task_ids=task_ids, control=control
        )

    def max_retries(self) -> dict[str, int]:
        return _max_retries(self.project.pk, NO_ID)


def _max_retries(project_id: str, warehouse_id: UUID) -> dict[str, int]:
    configs = list_queue_configs(project_id, warehouse_id)
    return {name: effective_member(name, each.config, "max-retries") for name, each in configs.items()}


def read_scope(actor: Actor, given: QueryDict) -> PageScope:
    """Return what an address or a form names as `project` or `warehouse`.

    Raises `NoSuchWarehouse`, `ProjectNotFound` (404), `MalformedProjectId` (400).
    """
    project_id = given.get("project")
    if project_id:
        return project_scope(actor, project_id)
    return WarehouseScope(actor, read_warehouse(actor, given))


def warehouse_scope(actor: Actor, warehouse_id: UUID) -> WarehouseScope:
    return WarehouseScope(actor, get_warehouse_for(actor=actor, action=Can.USE, warehouse_id=warehouse_id))


def project_scope(actor: Actor, project_id: str) -> ProjectScope:
    return ProjectScope(actor, get_visible_project_for(actor=actor, given=project_id))
