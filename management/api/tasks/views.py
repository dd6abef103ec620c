"""Tasks of warehouses and projects, and the configuration of their queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.selectors.tasks import (
    TaskFilters,
    get_project_task_for,
    get_warehouse_task_for,
    list_project_tasks_for,
    list_warehouse_tasks_for,
)
from catalog.services.task_control import (
    ProjectTasks,
    TaskScope,
    WarehouseTasks,
    cancel_tasks,
    retry_tasks,
    run_tasks_at,
    stop_tasks,
)
from catalog.services.task_queues import (
    get_project_queue_config_for,
    get_warehouse_queue_config_for,
    set_project_queue_config,
    set_warehouse_queue_config,
)
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import Page, listing_key
from management.api.base import ManagementViewSet
from management.api.schema import OperationsByType
from management.api.serializers import read_uuid
from management.api.tasks.schema import describe_project_tasks, describe_queue, describe_warehouse_tasks
from management.api.tasks.serializers import (
    ControlTasksRequest,
    ListProjectTasksRequest,
    ListProjectTasksResponse,
    ListTasksRequest,
    ListTasksResponse,
    ProjectTaskDetailsResponse,
    QueueConfigResponse,
    SetQueueConfigRequest,
    WarehouseTaskDetailsResponse,
    read_entity,
)
from tasks.models import Task
from tasks.queue.config import QueueConfig
from tasks.queue.control import TaskNotFound

DEFAULT_ATTEMPTS = 5
MAX_DIGITS = 9


class _TaskViewSet(ManagementViewSet):
    reading_actions = {"list"}

    @property
    def task_id(self) -> UUID:
        return self.path_id("task_id", lambda text: TaskNotFound(f"Task {text} does not exist"))

    def attempts(self) -> int:
        given = self.request.GET.get("numAttempts", "")
        if not given:
            return DEFAULT_ATTEMPTS
        if not (given.isascii() and given.isdigit() and len(given) <= MAX_DIGITS):
            raise BadRequest("numAttempts: must be a number from 0")
        return int(given)

    def filters(self, body: dict[str, Any]) -> TaskFilters:
        statuses, entities = body.get("status"), body.get("entities")
        return TaskFilters(
            statuses=None if statuses is None else [Task.Status(each.lower()) for each in statuses],
            queues=body.get("queue_name"),
            entities=None
            if entities is None
            else [read_entity(each, f"entities[{index}]") for index, each in enumerate(entities)],
            created_after=body.get("created_after"),
            created_before=body.get("created_before"),
        )

    def page_of(self, body: dict[str, Any], filters: TaskFilters, parent: object) -> Page:
        """Return the page of a listing; its token is bound to the filters."""
        limits = settings.ICEKEEPER
        size = min(body.get("page_size") or limits.pagination_size_default, limits.pagination_size_max)
        return Page(listing_key("tasks", parent, filters), body.get("page_token"), size)

    def apply(self, scope: TaskScope) -> Response:
        body = self.body(ControlTasksRequest)
        ids = [read_uuid(each, f"task-ids[{index}]") for index, each in enumerate(body["task_ids"])]
        given: dict[str, Any] = {"actor": self.actor, "scope": scope, "task_ids": ids}
        action, at = body["action"]["action_type"], body["action"].get("scheduled_for")
        if (action == "run-at") != (at is not None):
            raise BadRequest("action.scheduled-for: required with run-at alone")
        if action in {"run-at", "run-now"}:
            run_tasks_at(**given, at=at)
        else:
            CONTROLS[action](**given)
        return Response(status=204)


CONTROLS: dict[str, Callable[..., object]] = {"stop": stop_tasks, "cancel": cancel_tasks, "retry": retry_tasks}


@describe_warehouse_tasks
class WarehouseTaskViewSet(_TaskViewSet):
    def list(self, request: Request, **path: str) -> Response:
        body = self.body(ListTasksRequest)
        filters = self.filters(body)
        page = self.page_of(body, filters, self.warehouse_id)
        found = list_warehouse_tasks_for(actor=self.actor, warehouse_id=self.warehouse_id, filters=filters, page=page)
        return self.respond_page(ListTasksResponse, "tasks", found)

    def retrieve(self, request: Request, **path: str) -> Response:
        found = get_warehouse_task_for(
            actor=self.actor, warehouse_id=self.warehouse_id, task_id=self.task_id, attempts=self.attempts()
        )
        return self.respond(WarehouseTaskDetailsResponse, found)

    def control(self, request: Request, **path: str) -> Response:
        return self.apply(WarehouseTasks(self.warehouse_id))


@describe_project_tasks
class ProjectTaskViewSet(_TaskViewSet):
    def list(self, request: Request) -> Response:
        body, project = self.body(ListProjectTasksRequest), self.project()
        filters = self.filters(body)
        page = self.page_of(body, filters, project.pk)
        found = list_project_tasks_for(actor=self.actor, project=project, filters=filters, page=page)
        return self.respond_page(ListProjectTasksResponse, "tasks", found)

    def retrieve(self, request: Request, **path: str) -> Response:
        found = get_project_task_for(
            actor=self.actor, project=self.project(), task_id=self.task_id, attempts=self.attempts()
        )
        return self.respond(ProjectTaskDetailsResponse, found)

    def control(self, request: Request) -> Response:
        return self.apply(ProjectTasks(self.project()))


class _QueueConfigViewSet(ManagementViewSet):
    queue_name = ""
    """The queue of the route; empty in the route for former and unknown names, which has it in the path."""
    schema = OperationsByType(describe_queue, "queue_name")  # type: ignore[assignment]  # it depends on the route

    @property
    def queue(self) -> str:
        return self.queue_name or self.path_text("queue_name")

    def config(self) -> QueueConfig:
        body = self.body(SetQueueConfigRequest)
        return QueueConfig(body["queue_config"], body.get("max_seconds_since_last_heartbeat"))


class WarehouseQueueConfigViewSet(_QueueConfigViewSet):
    def retrieve(self, request: Request, **path: str) -> Response:
        found = get_warehouse_queue_config_for(actor=self.actor, warehouse_id=self.warehouse_id, queue_name=self.queue)
        return self.respond(QueueConfigResponse, found)

    def update(self, request: Request, **path: str) -> Response:
        set_warehouse_queue_config(
            actor=self.actor, warehouse_id=self.warehouse_id, queue_name=self.queue, config=self.config()
        )
        return Response(status=204)


class ProjectQueueConfigViewSet(_QueueConfigViewSet):
    def retrieve(self, request: Request, **path: str) -> Response:
        found = get_project_queue_config_for(actor=self.actor, project=self.project(), queue_name=self.queue)
        return self.respond(QueueConfigResponse, found)

    def update(self, request: Request, **path: str) -> Response:
        set_project_queue_config(actor=self.actor, project=self.project(), queue_name=self.queue, config=self.config())
        return Response(status=204)
