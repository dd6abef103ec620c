"""OpenAPI descriptions of the operations on tasks and on the configuration of their queues."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter, inline_serializer
from rest_framework import serializers

from icekeeper.kernel.http.openapi import empty_response
from management.api.schema import (
    BAD_PAGE,
    BAD_PROJECT,
    NO_PROJECT,
    NO_WAREHOUSE,
    PROJECT_HEADER,
    TOO_LARGE,
    WAREHOUSE_ID,
    Operation,
    describe,
    operation,
    path_parameter,
)
from management.api.serializers import Text
from management.api.tasks.serializers import (
    ControlTasksRequest,
    ListProjectTasksRequest,
    ListProjectTasksResponse,
    ListTasksRequest,
    ListTasksResponse,
    ProjectTaskDetailsResponse,
    WarehouseTaskDetailsResponse,
)
from tasks.queue.config import MAX_HEARTBEAT_SECONDS, MIN_HEARTBEAT_SECONDS, QUEUES
from tasks.queue.control import MAX_TASKS

_operation = partial(operation, tag="tasks")

NO_TASK: Final = "`TaskNotFound`: also a task that is hidden from the caller"
_TASK_ID: Final = path_parameter("task_id", "The task's id")
_ATTEMPTS: Final = OpenApiParameter(
    "numAttempts", {"type": "integer", "minimum": 0, "default": 5}, description="Maximum number of attempts to return"
)
_LIST: Final = "Newest first. Ended tasks are listed until `task_log_cleanup` deletes them."
_CONTROL: Final = (
    f"Changes all of the tasks, at most {MAX_TASKS}, or none. A task to which the action does not apply stays as it is."
)
_CONFLICTS: Final = (
    "`AlreadyExistsException`: the name of a table to restore is in use; `PurgeRunning`: stop it first, then cancel "
    "it; `TaskAlreadyActive`: a failed task was replaced by another one"
)

describe_warehouse_tasks = describe(
    list=_operation(
        "list_tasks",
        "List tasks of a warehouse",
        description=f"{_LIST} Without the permission to see all tasks of the warehouse, `entities` must name tables "
        "and views whose tasks the caller may see.",
        parameters=[WAREHOUSE_ID],
        request=ListTasksRequest,
        success={200: ListTasksResponse},
        errors={400: BAD_PAGE, 403: "`WarehouseListTasksForbidden`", 404: NO_WAREHOUSE, 413: TOO_LARGE},
    ),
    retrieve=_operation(
        "get_task_details",
        "Get a task of a warehouse with its attempts",
        parameters=[WAREHOUSE_ID, _TASK_ID, _ATTEMPTS],
        success={200: WarehouseTaskDetailsResponse},
        errors={404: f"{NO_WAREHOUSE}, {NO_TASK}"},
    ),
    control=_operation(
        "control_tasks",
        "Stop, cancel, schedule or retry tasks of a warehouse",
        description=_CONTROL,
        parameters=[WAREHOUSE_ID],
        request=ControlTasksRequest,
        success=empty_response("Done"),
        errors={404: f"{NO_WAREHOUSE}, {NO_TASK}", 409: _CONFLICTS, 413: TOO_LARGE},
    ),
)

describe_project_tasks = describe(
    list=_operation(
        "list_project_tasks",
        "List tasks of a project that belong to no warehouse",
        description=_LIST,
        parameters=[PROJECT_HEADER],
        request=ListProjectTasksRequest,
        success={200: ListProjectTasksResponse},
        errors={400: f"{BAD_PAGE}, {BAD_PROJECT}", 404: NO_PROJECT, 413: TOO_LARGE},
    ),
    retrieve=_operation(
        "get_project_task_details",
        "Get a task of a project with its attempts",
        parameters=[_TASK_ID, _ATTEMPTS, PROJECT_HEADER],
        success={200: ProjectTaskDetailsResponse},
        errors={400: BAD_PROJECT, 404: f"{NO_PROJECT}, {NO_TASK}"},
    ),
    control=_operation(
        "control_project_tasks",
        "Stop, cancel, schedule or retry tasks of a project",
        description=_CONTROL,
        parameters=[PROJECT_HEADER],
        request=ControlTasksRequest,
        success=empty_response("Done"),
        errors={400: BAD_PROJECT, 404: f"{NO_PROJECT}, {NO_TASK}", 409: _CONFLICTS, 413: TOO_LARGE},
    ),
)


_FIELDS: Final = {"integer": serializers.IntegerField, "boolean": serializers.BooleanField, "string": Text}


def describe_queue(name: str) -> Mapping[str, Operation]:
    """Return the descriptions of the configuration of a queue, by action."""
    is_of_project = QUEUES[name].scope == "project"
    prefix = "project_task_queue" if is_of_project else "task_queue"
    parameters = [PROJECT_HEADER] if is_of_project else [WAREHOUSE_ID]
    missing = NO_PROJECT if is_of_project else NO_WAREHOUSE
    invalid_config = "`InvalidQueueConfig`: an unknown member or an invalid value"
    bad_scope = {400: BAD_PROJECT} if is_of_project else {}
    return {
        "retrieve": _operation(
            f"get_{prefix}_config_{name}",
            f"Get the configuration of {name}",
            description="Members that were not set have their default.",
            parameters=parameters,
            success={200: _config_shape(name, "Get")},
            errors={**bad_scope, 404: missing},
        ),
        "update": _operation(
            f"set_{prefix}_config_{name}",
            f"Replace the configuration of {name}",
            parameters=parameters,
            request=_config_shape(name, "Set"),
            success=empty_response("Stored"),
            errors={400: "; ".join([*bad_scope.values(), invalid_config]), 404: missing, 413: TOO_LARGE},
        ),
    }


@cache
def _config_shape(name: str, verb: str) -> Any:
    """Return the shape of `SetQueueConfigRequest` or `QueueConfigResponse` with the members of the queue."""
    heartbeat = serializers.IntegerField(
        required=False,
        allow_null=True,
        help_text="Seconds without a heartbeat after which another worker takes over a task, "
        f"{MIN_HEARTBEAT_SECONDS} to {MAX_HEARTBEAT_SECONDS}",
    )
    fields = {"queue-config": _members_shape(name), "max-seconds-since-last-heartbeat": heartbeat}
    return inline_serializer(f"{verb}{_component(name)}", fields)


@cache
def _members_shape(name: str) -> Any:
    members = {
        key: _FIELDS[member.json_type](
            required=False,
            allow_null=True,
            help_text=f"{member.allowed}; default: {'none' if member.default is None else member.default}",
        )
        for key, member in QUEUES[name].all_members.items()
    }
    return inline_serializer(_component(name), members)


def _component(name: str) -> str:
    return f"{name.title().replace('_', '')}QueueConfig"
