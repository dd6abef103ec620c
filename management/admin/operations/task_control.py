"""Control of tasks by the services that the management API calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from django.utils.translation import gettext as _

from catalog.selectors.task_previews import Control, is_expiration
from catalog.services.task_control import TaskScope, cancel_tasks, retry_tasks, run_tasks_at, stop_tasks
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest
from tasks.models import Task
from tasks.queue.control import find_tasks
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
    scope: TaskScope,
    task_ids: Sequence[UUID],
    control: Control,
    at: datetime | None,
    all_or_none: bool = False,
) -> list[Task]:
    """Call the service of a control; `at` is the time of `RUN_AT`. Returns the changed tasks.

    Raises `BadRequest` for expirations that are to start now: that is confirmed on the page "Delete permanently". The
    retry of one is confirmed in its preview.
    """
    if control is Control.RUN_NOW or (control is Control.RUN_AT and at is not None and at <= now()):
        _deny_expirations(actor, scope, task_ids, "at" if control is Control.RUN_AT else None)
    service = partial(run_tasks_at, at=at) if control is Control.RUN_AT else _SERVICES[control]
    return service(actor=actor, scope=scope, task_ids=task_ids, all_or_none=all_or_none)


def _deny_expirations(actor: Actor, scope: TaskScope, task_ids: Sequence[UUID], field: str | None) -> None:
    """Raise `BadRequest` if there are expirations among the tasks, for a caller who is allowed to control them.

    The queue of a task never changes, so that a check before the change is enough.
    """
    found = find_tasks(task_ids, warehouse_id=scope.warehouse_id, project_id=scope.project_id)
    if any(is_expiration(task) for task in found):
        scope.require_control(actor, task_ids)
        raise BadRequest(
            _("An expiration that starts now deletes its object permanently: do that under “Deleted objects”, with "
              "“Delete permanently”, which asks for the name of the object."),
            field=field,
        )  # fmt: skip
