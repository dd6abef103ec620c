"""A task: the cause of its failure with the cure, its progress and attempts, and what can be done with it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.selectors.task_previews import Control
from catalog.selectors.tasks import find_controllable_for, get_warehouse_task_for
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest
from management.admin.form_pages import message_of
from management.admin.json_view import json_lines
from management.admin.navigation import Crumb, Text, object_url
from management.admin.operations.task_control import control_tasks, read_control
from management.admin.operations.task_texts import (
    CONTROLS,
    STATES,
    TONES,
    find_cause,
    masked,
    offered_controls,
    read_start,
    state_of,
    task_object_url,
    tone_of,
)
from management.admin.operations.task_texts import describe_task as describe
from management.admin.pages import Page
from storage.selectors import get_warehouse_for
from tasks.models import Task, TaskAttempt
from tasks.queue.config import queue_limits
from tenancy.authz.actions import Can

MAX_ATTEMPTS: Final = 50
DONE: Final[dict[Control, Text]] = {
    Control.RETRY: gettext_lazy("The task is scheduled again."),
    Control.RUN_NOW: gettext_lazy("The task runs as soon as a worker is free."),
    Control.RUN_AT: gettext_lazy("The task was rescheduled."),
    Control.STOP: gettext_lazy("The worker stops the task at its next step."),
    Control.CANCEL: gettext_lazy("The task was cancelled."),
}
OWN_FORMS: Final = frozenset({Control.RUN_AT, Control.CANCEL})
"""Controls that are no buttons: one asks for a time, and one has a preview."""
_START_IN: Final = timedelta(hours=1)


class TaskPage(Page):
    """A task of a warehouse; `part=live` is the part that the script of the page refreshes."""

    template_name = "console/task.html"
    section = "tasks"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if request.GET.get("part") == "live":
            return self.render_part("console/parts/task_live.html", self.context())
        return super().get(request, **kwargs)

    def context(self) -> dict[str, Any]:
        warehouse_id: UUID = self.kwargs["warehouse_id"]
        task = get_warehouse_task_for(
            actor=self.actor, warehouse_id=warehouse_id, task_id=self.kwargs["task_id"], attempts=MAX_ATTEMPTS
        )
        warehouse = get_warehouse_for(actor=self.actor, action=Can.USE, warehouse_id=warehouse_id)
        ended: list[TaskAttempt] = task.ended_attempts  # type: ignore[attr-defined]  # of the selector
        is_controllable = task.pk in find_controllable_for(actor=self.actor, warehouse_id=warehouse_id, tasks=[task])
        title, controls = describe(task), offered_controls(task) if is_controllable else []
        tasks_url = f"{reverse('admin:tasks')}?{urlencode({'warehouse': warehouse_id})}"
        return {
            "title": title,
            "breadcrumb": [
                Crumb(warehouse.name, object_url("warehouse", warehouse_id, None)),
                Crumb(_("Tasks"), tasks_url),
                Crumb(title),
            ],
            "task": task,
            "state": state_of(task),
            "tone": tone_of(task),
            "warehouse": warehouse,
            "cause": find_cause(task.message) if task.message and task.status != Task.Status.SUCCESS else None,
            "max_attempts": queue_limits(task.queue, task.project_id, warehouse_id).max_retries + 1,
            "percent": round(task.progress * 100),
            "attempts": _shown_attempts(ended),
            "payload": json_lines(masked(task.payload)),
            "details": _facts(task.execution_details),
            "controls": [(each.value, CONTROLS[each]) for each in controls if each not in OWN_FORMS],
            "cancel_url": _cancel_url(task) if Control.CANCEL in controls else None,
            "can_reschedule": Control.RUN_AT in controls,
            "start": f"{now() + _START_IN:%Y-%m-%dT%H:%M}",
            "object_url": task_object_url(task),
            "is_live": task.finished_at is None,
        }

    def post(self, request: HttpRequest, *, warehouse_id: UUID, task_id: UUID) -> HttpResponse:
        """Do what the button says, and show the task again, or with `back` the list that the button was in."""
        control = read_control(request.POST.get("action", ""))
        at: datetime | None = None
        try:
            if control is Control.RUN_AT:
                at = read_start(request.POST.get("at", ""))
            changed = control_tasks(
                actor=self.actor, warehouse_id=warehouse_id, task_ids=[task_id], control=control, at=at
            )
        except BadRequest as error:
            if control is not Control.RUN_AT:
                raise
            entered = {"start": request.POST.get("at", "")[:40], "start_error": message_of(error)}
            return self.render({**self.context(), **entered}, status=error.status)
        if changed:
            messages.success(request, f"{describe(changed[0])}: {DONE[control]}")
        else:
            messages.warning(request, _("Nothing was changed: the task is in another state by now."))
        if request.POST.get("back") == "list":
            return HttpResponseRedirect(f"{reverse('admin:tasks')}?{_list_query(request, warehouse_id)}")
        return HttpResponseRedirect(reverse("admin:task", args=[warehouse_id, task_id]))


def _cancel_url(task: Task) -> str:
    """Return the address of the preview, since a cancelled task cannot be started again."""
    query = urlencode({"warehouse": task.warehouse_id, "action": Control.CANCEL.value, "task": task.pk})
    return f"{reverse('admin:task-change')}?{query}"


def _list_query(request: HttpRequest, warehouse_id: UUID) -> str:
    """Return the filters of the list that a button was in."""
    kept = {name: value[:255] for name in ("status", "queue", "q") if (value := request.POST.get(name))}
    return urlencode({"warehouse": warehouse_id, **kept})


def _shown_attempts(attempts: Sequence[TaskAttempt]) -> list[dict[str, Any]]:
    seconds = [
        None if each.started_at is None else max(0.0, (each.created_at - each.started_at).total_seconds())
        for each in attempts
    ]
    longest = max((each for each in seconds if each is not None), default=0.0)
    return [
        {
            "number": each.attempt,
            "state": STATES.get(each.status, each.status),
            "tone": TONES.get(each.status, ""),
            "started": each.started_at,
            "ended": each.created_at,
            "seconds": taken,
            "share": taken / longest if taken is not None and longest else 0.0,
            "message": each.message,
        }
        for each, taken in zip(attempts, seconds, strict=True)
    ]


def _facts(details: dict[str, Any] | None) -> list[tuple[str, Any]]:
    """Return what the work has reported so far, such as the number of deleted files."""
    return [(name.replace("-", " "), value) for name, value in masked(details or {}).items()]
