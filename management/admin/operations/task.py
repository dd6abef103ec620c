"""A task: the cause of its failure with the cure, its progress and attempts, and what can be done with it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.selectors.task_previews import Control, is_expiration
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest
from management.admin.form_pages import message_of
from management.admin.json_view import json_lines
from management.admin.navigation import Text
from management.admin.operations.task_buttons import list_buttons, preview_url
from management.admin.operations.task_control import control_tasks, read_control
from management.admin.operations.task_scopes import PageScope, project_scope, warehouse_scope
from management.admin.operations.task_texts import (
    STATES,
    TONES,
    find_cause,
    masked,
    offered_controls,
    propose_start,
    read_start,
    state_of,
    task_object_url,
    tone_of,
)
from management.admin.operations.task_texts import describe_task as describe
from management.admin.pages import Page
from tasks.models import Task, TaskAttempt
from tasks.queue.config import queue_limits
from tasks.queue.control import TaskAlreadyActive

MAX_ATTEMPTS: Final = 50
DONE: Final[dict[Control, Text]] = {
    Control.RETRY: gettext_lazy("The task is scheduled again."),
    Control.RUN_NOW: gettext_lazy("The task runs as soon as a worker is free."),
    Control.RUN_AT: gettext_lazy("The task was rescheduled."),
    Control.STOP: gettext_lazy("The worker stops the task at its next step."),
    Control.CANCEL: gettext_lazy("The task was cancelled."),
}


class TaskPage(Page):
    """A task of a warehouse or a project; `part=live` is the part that the script of the page refreshes."""

    template_name = "console/task.html"
    section = "tasks"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if request.GET.get("part") == "live":
            return self.render_part("console/parts/task_live.html", self.context())
        return super().get(request, **kwargs)

    @cached_property
    def scope(self) -> PageScope:
        if "project_id" in self.kwargs:
            return project_scope(self.actor, self.kwargs["project_id"])
        return warehouse_scope(self.actor, self.kwargs["warehouse_id"])

    def context(self) -> dict[str, Any]:
        scope = self.scope
        task = scope.get_task(self.kwargs["task_id"], MAX_ATTEMPTS)
        ended: list[TaskAttempt] = task.ended_attempts  # type: ignore[attr-defined]  # of the selector
        is_controllable = task.pk in scope.find_controllable([task])
        title = describe(task)
        return {
            "title": title,
            "breadcrumb": scope.breadcrumb(title),
            "task": task,
            "state": state_of(task),
            "tone": tone_of(task),
            "owner": scope.crumb,
            "is_of_project": scope.kind == "project",
            "cause": find_cause(task.message) if task.message and task.status != Task.Status.SUCCESS else None,
            "max_attempts": queue_limits(task.queue, task.project_id, task.warehouse_id).max_retries + 1,
            "percent": round(task.progress * 100),
            "attempts": _shown_attempts(ended),
            "payload": json_lines(masked(task.payload)),
            "details": _facts(task.execution_details),
            "buttons": list_buttons(scope, task) if is_controllable else [],
            "can_reschedule": is_controllable and Control.RUN_AT in offered_controls(task),
            "is_expiration": is_expiration(task),
            "start": propose_start([task]),
            "object_url": task_object_url(task),
            "is_live": task.finished_at is None,
        }

    def post(self, request: HttpRequest, *, task_id: UUID, **kwargs: Any) -> HttpResponse:
        """Do what the button says, and show the task again, or with `back` the list that the button was in.

        The retry of an expiration, or an earlier start that is not now, leads to the preview, which names the deletion.
        """
        control = read_control(request.POST.get("action", ""))
        at: datetime | None = None
        try:
            if control is Control.RUN_AT:
                at = read_start(request.POST.get("at", ""))
                task = self.scope.get_task(task_id, 1)
                if is_expiration(task) and now() < at < task.scheduled_for:
                    return HttpResponseRedirect(preview_url(self.scope, task, control, at=at.isoformat()))
            if control is Control.RETRY and is_expiration(task := self.scope.get_task(task_id, 1)):
                return HttpResponseRedirect(preview_url(self.scope, task, control))
            changed = control_tasks(
                actor=self.actor, scope=self.scope.tasks, task_ids=[task_id], control=control, at=at
            )
        except BadRequest as error:
            if control is not Control.RUN_AT:
                raise
            entered = {"start": request.POST.get("at", "")[:40], "start_error": message_of(error)}
            return self.render({**self.context(), **entered}, status=error.status)
        except TaskAlreadyActive:
            messages.warning(request, _("Nothing was changed: another task has replaced this one."))
        else:
            if changed:
                messages.success(request, f"{describe(changed[0])}: {DONE[control]}")
            else:
                messages.warning(request, _("Nothing was changed: the task is in another state by now."))
        if request.POST.get("back") == "list":
            return HttpResponseRedirect(self.scope.list_url(**_list_filters(request)))
        return HttpResponseRedirect(request.path)


def _list_filters(request: HttpRequest) -> dict[str, str]:
    """Return the filters of the list that a button was in."""
    return {name: value[:255] for name in ("status", "queue", "q") if (value := request.POST.get(name))}


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
