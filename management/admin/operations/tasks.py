"""Tasks of warehouses: their list, and each with its attempts and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models import Tabular
from catalog.selectors.tasks import TaskFilters, find_task_entities, get_warehouse_task_for, list_warehouse_tasks_for
from catalog.selectors.warehouses import require_on_warehouse
from catalog.services.task_control import WarehouseTasks, cancel_tasks, retry_tasks, run_tasks_at, stop_tasks
from icekeeper.kernel.errors.types import BadRequest, Forbidden
from icekeeper.kernel.http.paging import Page as ListingPage
from management.admin.json_view import json_lines
from management.admin.navigation import Crumb, Text, object_url
from management.admin.pages import Page
from management.admin.warehouse_choice import choose_warehouse, list_warehouses_of_all_projects
from storage.selectors import get_warehouse_for
from tasks.models import Task, TaskAttempt
from tenancy.authz.actions import Can
from tenancy.authz.permissions import is_allowed

ROWS_A_PAGE: Final = 50
MAX_ATTEMPTS: Final = 50

TONES: Final = {
    Task.Status.SUCCESS: "good",
    Task.Status.FAILED: "bad",
    Task.Status.RUNNING: "accent",
    Task.Status.STOPPING: "warning",
}
LABELS: Final = {
    Task.Queue.TABULAR_PURGE: gettext_lazy("Purge"),
    Task.Queue.SOFT_DELETION: gettext_lazy("Expire"),
}


class TasksPage(Page):
    """The tasks of a warehouse, newest first; the user chooses the warehouse and the state."""

    template_name = "console/tasks.html"
    section = "tasks"
    title = gettext_lazy("Tasks")

    def context(self) -> dict[str, Any]:
        warehouses = list_warehouses_of_all_projects(self.actor)
        wanted = choose_warehouse(self.actor, warehouses, self.request.GET.get("warehouse"))
        status = self.request.GET.get("status") or None
        shown: dict[str, Any] = {
            "warehouses": warehouses,
            "warehouse": wanted,
            "status": status,
            "statuses": self._statuses(wanted, status),
            "rows": [],
        }
        if wanted is None:
            return shown
        filters = TaskFilters(statuses=None if status is None else [_read_status(status)])
        page = ListingPage(f"console tasks {status}", self.request.GET.get("after"), ROWS_A_PAGE)
        try:
            found, token = list_warehouse_tasks_for(
                actor=self.actor, warehouse_id=wanted.pk, filters=filters, page=page
            )
        except Forbidden:
            return {**shown, "is_forbidden": True}
        query = {"warehouse": wanted.pk, **({} if status is None else {"status": status})}
        return {
            **shown,
            "rows": [(each, describe_task(each), TONES.get(Task.Status(each.status), "")) for each in found],
            "next_url": None if token is None else f"?{urlencode({**query, 'after': token})}",
        }

    def _statuses(self, warehouse: Any, current: str | None) -> list[tuple[str, str, bool]]:
        query = {} if warehouse is None else {"warehouse": warehouse.pk}
        return [
            (_("All states"), f"?{urlencode(query)}", current is None),
            *(
                (each.value, f"?{urlencode({**query, 'status': each.value})}", each.value == current)
                for each in Task.Status
            ),
        ]


def _read_status(text: str) -> Task.Status:
    try:
        return Task.Status(text)
    except ValueError:
        raise BadRequest("status: must be one of the states of tasks") from None


def describe_task(task: Task) -> str:
    """Return what a task does, such as `Purge sales.orders`."""
    label = LABELS.get(Task.Queue(task.queue), task.queue) if task.queue in Task.Queue.values else task.queue
    name = ".".join(task.entity_name)
    return f"{label} {name}".strip()


class TaskPage(Page):
    """A task of a warehouse: its state, its error, its attempts, and what the user may do with it."""

    template_name = "console/task.html"
    section = "tasks"

    def context(self) -> dict[str, Any]:
        warehouse_id: UUID = self.kwargs["warehouse_id"]
        task_id: UUID = self.kwargs["task_id"]
        task = get_warehouse_task_for(
            actor=self.actor, warehouse_id=warehouse_id, task_id=task_id, attempts=MAX_ATTEMPTS
        )
        ended_attempts: list[TaskAttempt] = task.ended_attempts  # type: ignore[attr-defined]  # of the selector
        warehouse = get_warehouse_for(actor=self.actor, action=Can.USE, warehouse_id=warehouse_id)
        status = Task.Status(task.status)
        title = describe_task(task)
        return {
            "title": title,
            "breadcrumb": [
                Crumb(warehouse.name, object_url("warehouse", warehouse_id, None)),
                Crumb(_("Tasks"), f"{reverse('admin:tasks')}?{urlencode({'warehouse': warehouse_id})}"),
                Crumb(title),
            ],
            "task": task,
            "warehouse": warehouse,
            "tone": TONES.get(status, ""),
            "percent": round(task.progress * 100),
            "attempts": [(each, TONES.get(Task.Status(each.status), "")) for each in ended_attempts],
            "payload": json_lines(task.payload),
            "details": json_lines(task.execution_details) if task.execution_details else None,
            "actions": allowed_actions(status) if self._can_control(task) else (),
            "object_url": self._object_url(task),
        }

    def _can_control(self, task: Task) -> bool:
        """Return whether the service would let the user control the task: by the warehouse, or by its table or view."""
        warehouse_id: UUID = self.kwargs["warehouse_id"]
        (controls_all,) = require_on_warehouse(self.actor, warehouse_id, Can.USE, [Can.CONTROL_ALL_TASKS])
        if controls_all:
            return True
        entity = find_task_entities(warehouse_id, [task]).get(task.entity_id)
        return entity is not None and is_allowed(self.actor, Can.CONTROL_TASKS, *entity)

    def _object_url(self, task: Task) -> str | None:
        if task.entity_type not in Tabular.Kind.values or task.entity_uuid is None:
            return None
        return object_url(task.entity_type, task.entity_uuid, task.warehouse_id)

    def post(self, request: HttpRequest, *, warehouse_id: UUID, task_id: UUID) -> HttpResponse:
        """Do the action of the button, by the service that the API calls, and show the task again."""
        name = request.POST.get("action", "")
        if name not in ACTIONS:
            raise BadRequest("action: must be one of the buttons of the page")
        service, done = ACTIONS[name]
        if service(actor=self.actor, scope=WarehouseTasks(warehouse_id), task_ids=[task_id]):
            messages.success(request, str(done))
        else:
            messages.warning(request, _("Nothing was changed: the task is in another state by now."))
        return HttpResponseRedirect(reverse("admin:task", args=[warehouse_id, task_id]))


Service = Callable[..., Sequence[Task]]

ACTIONS: Final[dict[str, tuple[Service, Text]]] = {
    "run-now": (partial(run_tasks_at, at=None), gettext_lazy("The task runs as soon as a worker is free.")),
    "retry": (retry_tasks, gettext_lazy("The task is scheduled again.")),
    "stop": (stop_tasks, gettext_lazy("The worker stops the task at its next step.")),
    "cancel": (cancel_tasks, gettext_lazy("The task was cancelled.")),
}


def allowed_actions(status: Task.Status) -> tuple[tuple[str, Text], ...]:
    """Return the buttons of a task in this state, the main one last."""
    match status:
        case Task.Status.SCHEDULED:
            return (("cancel", gettext_lazy("Cancel")), ("run-now", gettext_lazy("Run now")))
        case Task.Status.RUNNING:
            return (("stop", gettext_lazy("Stop")),)
        case Task.Status.FAILED:
            return (("retry", gettext_lazy("Retry now")),)
        case _:
            return ()
