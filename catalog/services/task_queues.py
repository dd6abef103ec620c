"""The configuration of task queues, in a warehouse or in a project."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from catalog.services.locations.claims import lock_warehouse
from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.errors.types import Conflict
from storage.errors import no_such_warehouse
from storage.selectors import get_warehouse_for
from tasks.models import TaskQueueConfig
from tasks.queue.config import (
    QueueConfig,
    find_queue,
    get_queue_config,
    list_queue_configs,
    set_queue_config,
    validate_queue_config,
)
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import ChangeTransaction, change
from tenancy.models import Project, Securable
from tenancy.selectors.projects import no_such_project


def get_warehouse_queue_config_for(*, actor: Actor, warehouse_id: UUID, queue_name: str) -> QueueConfig:
    """Raises `NoSuchWarehouse`, `QueueNotFound` (404), `Forbidden`."""
    warehouse = get_warehouse_for(actor=actor, action=Can.GET_TASK_QUEUE_CONFIG, warehouse_id=warehouse_id)
    return get_queue_config(find_queue(queue_name, "warehouse"), warehouse.project_id, warehouse_id)


class QueueConfigChanged(Conflict):
    """The configuration is another one than the caller has seen."""

    wire_type = "QueueConfigChanged"


def list_warehouse_queue_configs_for(*, actor: Actor, warehouse_id: UUID) -> dict[str, QueueConfig]:
    """Return the configurations of all queues of a warehouse by name, empty ones where none is stored.

    Raises `NoSuchWarehouse`, `Forbidden`.
    """
    warehouse = get_warehouse_for(actor=actor, action=Can.GET_TASK_QUEUE_CONFIG, warehouse_id=warehouse_id)
    return list_queue_configs(warehouse.project_id, warehouse_id)


def set_warehouse_queue_config(
    *, actor: Actor, warehouse_id: UUID, queue_name: str, config: QueueConfig, expected_digest: str | None = None
) -> None:
    """Replace the configuration of a queue. It applies to tasks from their next attempt on.

    `expected_digest` is that of the configuration that the caller has seen. Raises `NoSuchWarehouse`, `QueueNotFound`
    (404), `Forbidden`, `InvalidQueueConfig` (400), and `QueueConfigChanged` (409) if another one is stored.
    """
    get_warehouse_for(actor=actor, action=Can.MODIFY_TASK_QUEUE_CONFIG, warehouse_id=warehouse_id)
    queue = find_queue(queue_name, "warehouse")
    validate_queue_config(queue, config)
    with change(actor) as tx:
        warehouse = lock_warehouse(warehouse_id)
        if warehouse is None:
            raise no_such_warehouse(warehouse_id)
        stored = get_queue_config(queue, warehouse.project_id, warehouse_id)
        if expected_digest is not None and stored.digest != expected_digest:
            raise QueueConfigChanged("Another user changed the configuration of this queue")
        row = set_queue_config(queue, config, warehouse.project_id, warehouse_id)
        _record(tx, row, warehouse=warehouse_id)


def get_project_queue_config_for(*, actor: Actor, project: Project, queue_name: str) -> QueueConfig:
    """Raises `QueueNotFound` (404), `ProjectActionForbidden` (403)."""
    require_permission(actor, Can.GET_TASK_QUEUE_CONFIG, Securable.Type.PROJECT, project.pk)
    return get_queue_config(find_queue(queue_name, "project"), project.pk)


def set_project_queue_config(*, actor: Actor, project: Project, queue_name: str, config: QueueConfig) -> None:
    """As `set_warehouse_queue_config`. Raises `ProjectNotFound`, `ProjectActionForbidden` (403)."""
    require_permission(actor, Can.MODIFY_TASK_QUEUE_CONFIG, Securable.Type.PROJECT, project.pk)
    queue = find_queue(queue_name, "project")
    validate_queue_config(queue, config)
    with change(actor) as tx:
        if lock_row(Project, "id = %s", [project.pk]) is None:
            raise no_such_project(project.pk)
        _record(tx, set_queue_config(queue, config, project.pk))


def _record(tx: ChangeTransaction, row: TaskQueueConfig, **where: Any) -> None:
    tx.record(
        Change.TASK_QUEUE_CONFIGURED, subject=row.pk, project=row.project_id, named=row.queue, config=row.config,
        max_seconds_since_last_heartbeat=row.max_seconds_since_last_heartbeat, **where,
    )  # fmt: skip
