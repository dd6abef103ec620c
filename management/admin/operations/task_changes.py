"""Control of several tasks: a preview of which are changed and which are left out, and then the change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from catalog.selectors.task_previews import (
    Control,
    TaskControlPreview,
    TaskObstacle,
    TaskStep,
    is_expiration,
)
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest, Conflict, NotFound
from icekeeper.kernel.ids import parse_id
from management.admin.form_pages import message_of
from management.admin.navigation import Text
from management.admin.operations.task_buttons import deletion_url
from management.admin.operations.task_control import control_tasks, read_control
from management.admin.operations.task_scopes import PageScope, read_scope
from management.admin.operations.task_texts import (
    CONTROLS,
    changed_text,
    describe_task,
    effect_of,
    propose_start,
    read_start,
    state_of,
    task_url,
    tone_of,
)
from management.admin.pages import Page
from management.admin.times import read_time
from tasks.models import Task

REASONS: Final[dict[TaskObstacle, Text]] = {
    TaskObstacle.NOT_FOUND: gettext_lazy("It does not exist any more, or you do not have the permission to see it"),
    TaskObstacle.FORBIDDEN: gettext_lazy("You do not have the permission to control it"),
    TaskObstacle.STATE: gettext_lazy("It is in a state in which this changes nothing"),
    TaskObstacle.PURGE_RUNNING: gettext_lazy("It is deleting files: stop it first"),
    TaskObstacle.EXPIRATION: gettext_lazy(
        "It deletes its object permanently: that is confirmed with the name of the object, under “Deleted objects”"
    ),
}


class TaskChangePage(Page):
    """The preview of a control of chosen tasks; its form has the digest of what it shows."""

    template_name = "console/task_change.html"
    section = "tasks"

    def context(self) -> dict[str, Any]:
        scope, control, task_ids = self._read(self.request.GET)
        return self._shown(scope, scope.preview(task_ids, control), read_time(self.request.GET.get("at", "")))

    def post(self, request: HttpRequest) -> HttpResponse:
        """Change what the preview showed, all or nothing. 409 with the new state if that has changed.

        If an expiration is to start earlier, the preview is shown with that time before anything is changed.
        """
        scope, control, task_ids = self._read(request.POST)
        preview = scope.preview(task_ids, control)
        if preview.digest != request.POST.get("digest"):
            return self.render({**self._shown(scope, preview), "is_changed": True}, status=HTTPStatus.CONFLICT)
        if not preview.changed:
            raise BadRequest(_("None of the tasks is changed."))
        at: datetime | None = None
        try:
            if control is Control.RUN_AT:
                at = read_start(request.POST.get("at", ""))
                if _starts_earlier(preview, at) and read_time(request.POST.get("shown_at", "")) != at:
                    return self.render({**self._shown(scope, preview, at), "asks_again": True})
            control_tasks(
                actor=self.actor, scope=scope.tasks, task_ids=preview.changed, control=control, at=at, all_or_none=True
            )
        except BadRequest as error:
            shown = self._shown(scope, preview)
            entered = {"start": request.POST.get("at", "")[:40], "start_error": message_of(error)}
            if at is not None and at <= now():
                expirations = [each.task for each in preview.steps if each.task and is_expiration(each.task)]
                entered["deletion_url"] = deletion_url(scope, expirations)
            return self.render({**shown, **entered}, status=error.status)
        except (Conflict, NotFound) as error:  # changed after the preview above, or not possible together
            shown = self._shown(scope, scope.preview(task_ids, control))
            return self.render({**shown, "conflict": error.message}, status=HTTPStatus.CONFLICT)
        messages.success(request, changed_text(control, len(preview.changed)))
        return HttpResponseRedirect(scope.list_url())

    def _read(self, given: QueryDict) -> tuple[PageScope, Control, list[UUID]]:
        """Return what an address or a form names. Raises what `read_scope` raises, and `BadRequest`."""
        scope = read_scope(self.actor, given)
        task_ids = [parse_id(text) for text in given.getlist("task")]
        found = [each for each in task_ids if each is not None]
        if not found or len(found) != len(task_ids):
            raise BadRequest(_("Choose at least one task."))
        return scope, read_control(given.get("action", "")), found

    def _shown(self, scope: PageScope, preview: TaskControlPreview, at: datetime | None = None) -> dict[str, Any]:
        count, label = len(preview.steps), CONTROLS[preview.control]
        tasks = ngettext("%(count)s task", "%(count)s tasks", count) % {"count": count}
        title = f"{label}: {tasks}"
        changed = [each.task for each in preview.steps if each.obstacle is None and each.task is not None]
        left_out = [each.task for each in preview.steps if each.obstacle is TaskObstacle.EXPIRATION and each.task]
        return {
            "title": title,
            "breadcrumb": scope.breadcrumb(title),
            "scope_query": scope.query.items(),
            "action": preview.control.value,
            "is_danger": preview.control is Control.CANCEL or _deletes(preview, changed, at),
            "asks_time": preview.control is Control.RUN_AT,
            "start": propose_start(changed) if at is None else f"{at:%Y-%m-%dT%H:%M}",
            "shown_at": "" if at is None else at.isoformat(),
            "label": label,
            "digest": preview.digest,
            "changed": len(changed),
            "left_out": count - len(changed),
            "rows": [_row(each, preview.control, at) for each in preview.steps],
            "back_url": scope.list_url(),
            "deletion_url": deletion_url(scope, left_out),
        }


def _starts_earlier(preview: TaskControlPreview, at: datetime) -> bool:
    """Return whether `at` is in the future, and before the due time of an expiration among the changed tasks."""
    changed = (each.task for each in preview.steps if each.obstacle is None)
    return at > now() and any(task is not None and is_expiration(task) and at < task.scheduled_for for task in changed)


def _deletes(preview: TaskControlPreview, changed: Sequence[Task], at: datetime | None) -> bool:
    """Return whether the control lets one of the tasks delete an object permanently now, or earlier than it is due."""
    if preview.control is Control.RETRY:
        return any(is_expiration(task) for task in changed)
    return at is not None and _starts_earlier(preview, at)


def _row(step: TaskStep, control: Control, at: datetime | None) -> dict[str, Any]:
    task = step.task
    shown: dict[str, Any] = {"id": step.task_id, "is_changed": step.obstacle is None}
    if task is None:
        return {**shown, "name": str(step.task_id), "reason": REASONS[TaskObstacle.NOT_FOUND]}
    return {
        **shown,
        "name": describe_task(task),
        "url": task_url(task),
        "state": state_of(task),
        "tone": tone_of(task),
        "reason": effect_of(control, task, at) if step.obstacle is None else REASONS[step.obstacle],
    }
