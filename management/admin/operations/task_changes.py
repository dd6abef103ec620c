"""Control of several tasks: a preview of which are changed and which are left out, and then the change."""

from __future__ import annotations

from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from catalog.selectors.task_previews import (
    Control,
    TaskControlPreview,
    TaskObstacle,
    TaskStep,
    preview_task_control_for,
)
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest, Conflict, NotFound
from icekeeper.kernel.ids import parse_id
from management.admin.form_pages import message_of
from management.admin.navigation import Crumb, Text, object_url
from management.admin.operations.task_control import control_tasks, read_control
from management.admin.operations.task_texts import (
    CONTROLS,
    changed_text,
    describe_task,
    effect_of,
    read_start,
    state_of,
    task_url,
    tone_of,
)
from management.admin.pages import Page
from management.admin.warehouse_choice import read_warehouse
from storage.models import Warehouse

REASONS: Final[dict[TaskObstacle, Text]] = {
    TaskObstacle.NOT_FOUND: gettext_lazy("It does not exist any more, or you do not have the permission to see it"),
    TaskObstacle.FORBIDDEN: gettext_lazy("You do not have the permission to control it"),
    TaskObstacle.STATE: gettext_lazy("It is in a state in which this changes nothing"),
    TaskObstacle.PURGE_RUNNING: gettext_lazy("It is deleting files: stop it first"),
}


class TaskChangePage(Page):
    """The preview of a control of chosen tasks; its form has the digest of what it shows."""

    template_name = "console/task_change.html"
    section = "tasks"

    def context(self) -> dict[str, Any]:
        warehouse, control, task_ids = self._read(self.request.GET)
        return self._shown(warehouse, self._preview(warehouse, control, task_ids))

    def post(self, request: HttpRequest) -> HttpResponse:
        """Change what the preview showed, all or nothing. 409 with the new state if that has changed."""
        warehouse, control, task_ids = self._read(request.POST)
        preview = self._preview(warehouse, control, task_ids)
        if preview.digest != request.POST.get("digest"):
            return self._render_change(warehouse, preview)
        if not preview.changed:
            raise BadRequest(_("None of the tasks is changed."))
        at: datetime | None = None
        try:
            if control is Control.RUN_AT:
                at = read_start(request.POST.get("at", ""))
            control_tasks(
                actor=self.actor, warehouse_id=warehouse.pk, task_ids=preview.changed, control=control, at=at,
                all_or_none=True,
            )  # fmt: skip
        except BadRequest as error:
            entered = {"start": request.POST.get("at", "")[:40], "start_error": message_of(error)}
            return self.render({**self._shown(warehouse, preview), **entered}, status=error.status)
        except (Conflict, NotFound) as error:  # changed after the preview above, or not possible together
            shown = self._shown(warehouse, self._preview(warehouse, control, task_ids))
            return self.render({**shown, "conflict": error.message}, status=HTTPStatus.CONFLICT)
        count = len(preview.changed)
        messages.success(request, changed_text(control, count))
        return HttpResponseRedirect(_list_url(warehouse))

    def _read(self, given: QueryDict) -> tuple[Warehouse, Control, list[UUID]]:
        """Return what an address or a form names. Raises `NoSuchWarehouse`, `BadRequest`."""
        warehouse = read_warehouse(self.actor, given)
        task_ids = [parse_id(text) for text in given.getlist("task")]
        found = [each for each in task_ids if each is not None]
        if not found or len(found) != len(task_ids):
            raise BadRequest(_("Choose at least one task."))
        return warehouse, read_control(given.get("action", "")), found

    def _preview(self, warehouse: Warehouse, control: Control, task_ids: list[UUID]) -> TaskControlPreview:
        return preview_task_control_for(actor=self.actor, warehouse_id=warehouse.pk, task_ids=task_ids, control=control)

    def _render_change(self, warehouse: Warehouse, preview: TaskControlPreview) -> HttpResponse:
        return self.render({**self._shown(warehouse, preview), "is_changed": True}, status=HTTPStatus.CONFLICT)

    def _shown(self, warehouse: Warehouse, preview: TaskControlPreview) -> dict[str, Any]:
        count, label = len(preview.steps), CONTROLS[preview.control]
        tasks = ngettext("%(count)s task", "%(count)s tasks", count) % {"count": count}
        title = f"{label}: {tasks}"
        return {
            "title": title,
            "breadcrumb": [
                Crumb(warehouse.name, object_url("warehouse", warehouse.pk, None)),
                Crumb(_("Tasks"), _list_url(warehouse)),
                Crumb(title),
            ],
            "warehouse_id": warehouse.pk,
            "action": preview.control.value,
            "is_danger": preview.control is Control.CANCEL,
            "asks_time": preview.control is Control.RUN_AT,
            "start": f"{now() + timedelta(hours=1):%Y-%m-%dT%H:%M}",
            "label": label,
            "digest": preview.digest,
            "changed": len(preview.changed),
            "left_out": count - len(preview.changed),
            "rows": [_row(each, preview.control) for each in preview.steps],
            "back_url": _list_url(warehouse),
        }


def _list_url(warehouse: Warehouse) -> str:
    return f"{reverse('admin:tasks')}?{urlencode({'warehouse': warehouse.pk})}"


def _row(step: TaskStep, control: Control) -> dict[str, Any]:
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
        "reason": effect_of(control, task) if step.obstacle is None else REASONS[step.obstacle],
    }
