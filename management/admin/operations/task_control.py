"""Control of tasks by the services that the management API calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from catalog.selectors.task_previews import Control
from catalog.services.task_control import WarehouseTasks, cancel_tasks, retry_tasks, run_tasks_at, stop_tasks
from icekeeper.kernel.errors.types import BadRequest
from tasks.models import Task
from tenancy.actor import Actor

_SERVICES: Final[dict[Control, Callable[..., list[Task]]]] = {
    Control.RETRY: retry_tasks,
    Control.RUN_NOW: partial(run_tasks_at, at=None),
    Control.STOP: stop_tasks,
    Control.CANCEL: cancel_tasks,
}


def read_control(name: str) -> Control:
    try:
        return Control(name)
    except ValueError:
        raise BadRequest("action: must be one of the buttons of the page") from None


def control_tasks(
    *,
    actor: Actor,
    warehouse_id: UUID,
    task_ids: Sequence[UUID],
    control: Control,
    at: datetime | None,
    all_or_none: bool = False,
) -> list[Task]:
    """Call the service of a control; `at` is the time of `RUN_AT`. Returns the changed tasks."""
    service = partial(run_tasks_at, at=at) if control is Control.RUN_AT else _SERVICES[control]
    return service(actor=actor, scope=WarehouseTasks(warehouse_id), task_ids=task_ids, all_or_none=all_or_none)
