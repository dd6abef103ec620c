from __future__ import annotations

from typing import Final

from django.urls import URLPattern, path

from management.api.base import OBJECT_PATHS, WAREHOUSE_PATH
from management.api.tasks.views import (
    ProjectQueueConfigViewSet,
    ProjectTaskViewSet,
    WarehouseQueueConfigViewSet,
    WarehouseTaskViewSet,
)
from tasks.queue.config import QUEUES
from tenancy.models import Securable

_PROJECT_PATH: Final = OBJECT_PATHS[Securable.Type.PROJECT]


def _task_routes(
    start: str,
    scope: str,
    tasks: type[WarehouseTaskViewSet | ProjectTaskViewSet],
    configs: type[WarehouseQueueConfigViewSet | ProjectQueueConfigViewSet],
) -> list[URLPattern]:
    """Return the routes of a scope. Each queue has a route, which the OpenAPI document describes; another one takes
    former and unknown names."""
    queues = [queue.name for queue in QUEUES.values() if queue.scope == scope and queue.is_documented]
    return [
        path(f"{start}/task/list", tasks.as_view({"post": "list"}), name=f"{scope}-tasks"),
        path(f"{start}/task/by-id/<str:task_id>", tasks.as_view({"get": "retrieve"}), name=f"{scope}-task"),
        path(f"{start}/task/control", tasks.as_view({"post": "control"}), name=f"{scope}-task-control"),
        *(
            path(
                f"{start}/task-queue/{queue}/config",
                configs.as_view({"get": "retrieve", "post": "update"}, queue_name=queue),
                name=f"{scope}-{queue.replace('_', '-')}-config",
            )
            for queue in queues
        ),
        path(
            f"{start}/task-queue/<str:queue_name>/config",
            configs.as_view({"get": "retrieve", "post": "update"}, schema=None),
            name=f"{scope}-queue-config",
        ),
    ]


urlpatterns = [
    *_task_routes(WAREHOUSE_PATH, "warehouse", WarehouseTaskViewSet, WarehouseQueueConfigViewSet),
    *_task_routes(_PROJECT_PATH, "project", ProjectTaskViewSet, ProjectQueueConfigViewSet),
]
