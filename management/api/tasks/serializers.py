"""Requests and responses about tasks and the configuration of their queues."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django.utils.duration import duration_iso_string
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from catalog.selectors.tasks import ENTITY_TYPES, WAREHOUSE_ENTITY, TaskEntity
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import MAX_PAGE_SIZE
from management.api.serializers import LAST_PAGE, IdText, KebabSerializer, Number, ResponseSerializer, Text, read_uuid
from tasks.models import NO_ID, Task, TaskAttempt
from tasks.queue.control import MAX_DELAY, MAX_TASKS

MAX_FILTER_VALUES: Final = 100
"""Values of one filter."""

STATUSES: Final = [status.upper() for status in Task.Status.values]


@extend_schema_field(OpenApiTypes.OBJECT)
class Document(serializers.Field[Any, Any, Any, Any]):
    """A JSON object."""

    default_error_messages = {"invalid": "Not a valid JSON object."}

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.fail("invalid")
        return data


class TaskEntityFilter(KebabSerializer):
    type = serializers.ChoiceField(
        ENTITY_TYPES, help_text="`warehouse`: tasks of the warehouse as a whole, without an id"
    )
    table_id = IdText(required=False, allow_null=True, help_text="With `table`: the table's UUID")
    view_id = IdText(required=False, allow_null=True, help_text="With `view`: the view's UUID")
    generic_table_id = IdText(required=False, allow_null=True, help_text="With `generic-table`: its UUID")


class ListProjectTasksRequest(KebabSerializer):
    status = serializers.ListField(
        child=serializers.ChoiceField(STATUSES),
        max_length=MAX_FILTER_VALUES,
        required=False,
        allow_null=True,
        help_text="Only with one of these; default: any",
    )
    queue_name = serializers.ListField(
        child=Text(allow_blank=True),
        max_length=MAX_FILTER_VALUES,
        required=False,
        allow_null=True,
        help_text="Only in one of these queues, by present or former names; default: any",
    )
    created_after = serializers.DateTimeField(required=False, allow_null=True, help_text="Exclusive")
    created_before = serializers.DateTimeField(required=False, allow_null=True, help_text="Exclusive")
    page_size = Number(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MAX_PAGE_SIZE,
        help_text="Tasks per page; the server has a default and a maximum",
    )
    page_token = Text(
        required=False, allow_null=True, allow_blank=True, help_text="`next-page-token` of the previous page"
    )


class ListTasksRequest(ListProjectTasksRequest):
    entities = serializers.ListField(
        child=TaskEntityFilter(),
        max_length=MAX_FILTER_VALUES,
        required=False,
        allow_null=True,
        help_text="Only about one of these. Required without the permission for all tasks of the warehouse",
    )


class TaskEntityId(ResponseSerializer):
    """One of the ids is present, that of the type: the UUID that clients see."""

    type = serializers.ChoiceField([each for each in ENTITY_TYPES if each != WAREHOUSE_ENTITY])
    table_id = serializers.UUIDField(required=False)
    view_id = serializers.UUIDField(required=False)
    generic_table_id = serializers.UUIDField(required=False)


class TaskAttemptResponse(ResponseSerializer):
    attempt = serializers.IntegerField()
    status = serializers.ChoiceField(STATUSES)
    started_at = serializers.DateTimeField(required=False)
    scheduled_for = serializers.DateTimeField()
    duration = serializers.CharField(required=False, help_text="An ISO 8601 duration")
    progress = serializers.FloatField(help_text="From 0 to 1")
    message = Text(required=False, help_text="The error of a failed attempt")
    execution_details = Document(required=False)
    created_at = serializers.DateTimeField(help_text="When the attempt ended")

    def render_status(self, attempt: TaskAttempt) -> str:
        return attempt.status.upper()

    def render_duration(self, attempt: TaskAttempt) -> str | None:
        if attempt.started_at is None:
            return None
        return duration_iso_string(max(timedelta(), attempt.created_at - attempt.started_at))

    def render_message(self, attempt: TaskAttempt) -> str | None:
        return attempt.message or None


class ProjectTaskResponse(ResponseSerializer):
    task_id = serializers.UUIDField(source="pk")
    project_id = Text()
    queue_name = Text(source="queue")
    status = serializers.ChoiceField(
        STATUSES, help_text="A failed task has exhausted its attempts; `retry` schedules it again"
    )
    attempt = serializers.IntegerField(help_text="The number of attempts so far")
    progress = serializers.FloatField(help_text="From 0 to 1")
    scheduled_for = serializers.DateTimeField(help_text="It starts at this time or later")
    picked_up_at = serializers.DateTimeField(required=False, help_text="When the last attempt started")
    last_heartbeat_at = serializers.DateTimeField(source="heartbeat_at", required=False)
    parent_task_id = serializers.UUIDField(source="parent_id", required=False, help_text="The task that created it")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField(required=False)

    def render_status(self, task: Task) -> str:
        return task.status.upper()


class WarehouseTaskResponse(ProjectTaskResponse):
    warehouse_id = serializers.UUIDField()
    entity = TaskEntityId(required=False, help_text="Absent for a task of the warehouse as a whole")
    entity_name = serializers.ListField(
        child=Text(), required=False, help_text="Levels of the namespace, then the name, when the task was created"
    )

    def render_entity(self, task: Task) -> dict[str, Any] | None:
        if task.entity_uuid is None or task.entity_id == NO_ID:
            return None
        return {"type": task.entity_type, f"{task.entity_type}_id".replace("-", "_"): task.entity_uuid}

    def render_entity_name(self, task: Task) -> list[str] | None:
        return task.entity_name or None


class ListProjectTasksResponse(ResponseSerializer):
    tasks = ProjectTaskResponse(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)


class ListTasksResponse(ResponseSerializer):
    tasks = WarehouseTaskResponse(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)


class _Details(ResponseSerializer):
    # The members that the details of a task have in addition.
    task_data = Document(source="payload", help_text="What the task was created with, such as a location to purge")
    execution_details = Document(required=False, help_text="What the current attempt has done so far")
    message = Text(required=False, help_text="The error of a failed task; those of attempts are below")
    attempts = TaskAttemptResponse(
        many=True, source="ended_attempts", help_text="The attempts that have ended, newest first"
    )

    def render_message(self, task: Task) -> str | None:
        return task.message or None if task.finished_at is not None else None


class ProjectTaskDetailsResponse(ProjectTaskResponse, _Details):
    pass


class WarehouseTaskDetailsResponse(WarehouseTaskResponse, _Details):
    pass


class ControlTaskAction(KebabSerializer):
    action_type = serializers.ChoiceField(
        ["stop", "cancel", "run-now", "run-at", "retry"],
        help_text="`stop`: end the running attempt; the task is scheduled again. `cancel`: end the task; the table of "
        "a cancelled expiration is restored. `run-now`, `run-at`: schedule a task that is scheduled or stopping. "
        "`retry`: schedule a failed task again (not in Lakekeeper)",
    )
    scheduled_for = serializers.DateTimeField(
        required=False, allow_null=True, help_text=f"With `run-at`: at most {MAX_DELAY.days} days from now"
    )


class ControlTasksRequest(KebabSerializer):
    task_ids = serializers.ListField(child=IdText(), max_length=MAX_TASKS)
    action = ControlTaskAction()


class SetQueueConfigRequest(KebabSerializer):
    queue_config = Document(help_text="Members that are absent or null have their default")
    max_seconds_since_last_heartbeat = Number(
        required=False,
        allow_null=True,
        help_text="Seconds without a heartbeat after which another worker takes over a task",
    )


class QueueConfigResponse(ResponseSerializer):
    queue_config = Document(source="config")
    max_seconds_since_last_heartbeat = serializers.IntegerField(required=False)


def read_entity(given: dict[str, Any], where: str) -> TaskEntity:
    """Raises `BadRequest` unless the id of the type, and no other, is given."""
    kind = given["type"]
    ids = {name: value for name, value in given.items() if name != "type" and value is not None}
    if kind == WAREHOUSE_ENTITY and not ids:
        return TaskEntity(kind, None)
    name = f"{kind}_id".replace("-", "_")
    if list(ids) != [name]:
        expected = "no id" if kind == WAREHOUSE_ENTITY else f"{kind}-id alone"
        raise BadRequest(f"{where}: the type {kind} requires {expected}")
    return TaskEntity(kind, read_uuid(ids[name], f"{where}.{kind}-id"))
