"""Tasks of warehouses: their list, with states, filters and the choice of several."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.selectors.task_previews import Control
from catalog.selectors.tasks import (
    MAX_COUNTED,
    MAX_SEARCHED,
    TaskFilters,
    count_warehouse_tasks_for,
    find_controllable_for,
    list_warehouse_tasks_for,
)
from icekeeper.kernel.errors.types import BadRequest, Forbidden
from icekeeper.kernel.http.paging import Page as ListingPage
from icekeeper.kernel.ids import parse_id
from management.admin.listing_pages import read_pager
from management.admin.operations.task_texts import (
    CONTROLS,
    QUEUES,
    STATES,
    TONES,
    describe_task,
    offered_controls,
    state_of,
    task_url,
    tone_of,
)
from management.admin.pages import Page
from management.admin.warehouse_choice import choose_warehouse, list_warehouses_of_all_projects
from management.templatetags.console import grouped
from storage.models import Warehouse
from tasks.models import Task
from tasks.queue.config import QUEUES as QUEUE_DEFINITIONS
from tasks.queue.config import effective_member, list_queue_configs

MAX_TEXT_LENGTH: Final = 255
SHOWN_QUEUES: Final = (Task.Queue.SOFT_DELETION, Task.Queue.TABULAR_PURGE, Task.Queue.FILE_STATISTICS)
"""The queues of warehouses that workers execute."""


class TasksPage(Page):
    """The tasks of a warehouse, newest first; `part=list` is the part that the script of the page refreshes."""

    template_name = "console/tasks.html"
    section = "tasks"
    title = gettext_lazy("Tasks")

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if request.GET.get("part") == "list":
            return self.render_part("console/parts/task_list.html", self.context())
        return super().get(request, **kwargs)

    def context(self) -> dict[str, Any]:
        given = self._given()
        warehouses = list_warehouses_of_all_projects(self.actor)
        wanted = choose_warehouse(self.actor, warehouses, given.get("warehouse"))
        shown: dict[str, Any] = {
            "warehouses": warehouses,
            "warehouse": wanted,
            "given": given,
            "queues": [(each.value, QUEUES[each], each == given.get("queue")) for each in SHOWN_QUEUES],
            "rows": [],
        }
        if wanted is None:
            return shown
        query = {**given, "warehouse": str(wanted.pk)}
        shown |= {"statuses": self._statuses(wanted, query), "clear_url": f"?{urlencode({'warehouse': wanted.pk})}"}
        pager = read_pager(self.request, "tasks", **query)
        try:
            rows, token = self._find(wanted, query, pager.page)
        except Forbidden:
            return {**shown, "is_forbidden": True}
        return {
            **shown,
            "rows": rows,
            "is_chosen": any(row["can_control"] for row in rows),
            "controls": [(each.value, CONTROLS[each]) for each in (Control.RETRY, Control.RUN_NOW, Control.RUN_AT)],
            "live_url": f"?{urlencode({**query, 'part': 'list', 'after': pager.page.token or ''})}",
            **pager.links(token),
            "max_searched": MAX_SEARCHED if given.get("q") and parse_id(given["q"]) is None else None,
        }

    def _given(self) -> dict[str, str]:
        """Return the filters of the address. Raises `BadRequest`."""
        names = ("warehouse", "status", "queue", "q")
        given = {
            name: text
            for name in names
            if (text := self.request.GET.get(name, "").replace("\0", "").strip()[:MAX_TEXT_LENGTH])
        }
        if given.get("status", Task.Status.FAILED) not in Task.Status.values:
            raise BadRequest("status: must be one of the states of tasks")
        if given.get("queue", Task.Queue.SOFT_DELETION) not in QUEUE_DEFINITIONS:
            raise BadRequest("queue: must be one of the queues of warehouses")
        return given

    def _find(
        self, warehouse: Warehouse, query: dict[str, str], page: ListingPage
    ) -> tuple[list[dict[str, Any]], str | None]:
        status, queue, text = query.get("status"), query.get("queue"), query.get("q", "")
        uuid = parse_id(text) if text else None
        filters = TaskFilters(
            statuses=None if status is None else [Task.Status(status)],
            queues=None if queue is None else [queue],
            object_uuid=uuid,
            name_part="" if uuid is not None else text,
        )
        found, token = list_warehouse_tasks_for(actor=self.actor, warehouse_id=warehouse.pk, filters=filters, page=page)
        controllable = find_controllable_for(actor=self.actor, warehouse_id=warehouse.pk, tasks=found)
        configs = list_queue_configs(warehouse.project_id, warehouse.pk)
        retries = {name: effective_member(name, each.config, "max-retries") for name, each in configs.items()}
        return [_row(each, each.pk in controllable, retries.get(each.queue)) for each in found], token

    def _statuses(self, warehouse: Warehouse, query: dict[str, str]) -> list[dict[str, Any]]:
        """Return the chips of the states, with counts for users who see all tasks, unless an object is searched."""
        current, queue = query.get("status"), query.get("queue")
        counts = None
        if "q" not in query:
            counts = count_warehouse_tasks_for(
                actor=self.actor, warehouse_id=warehouse.pk, queues=None if queue is None else [queue]
            )
        others = {name: value for name, value in query.items() if name != "status"}
        chips = [{"label": _("All states"), "url": f"?{urlencode(others)}", "is_current": current is None, "tone": ""}]
        return chips + [
            {
                "label": STATES[each],
                "url": f"?{urlencode({**others, 'status': each.value})}",
                "is_current": each.value == current,
                "tone": TONES.get(each, ""),
                "count": None if counts is None else _bounded(counts[each]),
            }
            for each in Task.Status
        ]


def _bounded(count: int) -> str:
    return f"{grouped(MAX_COUNTED)}+" if count > MAX_COUNTED else grouped(count)


def _row(task: Task, can_control: bool, max_retries: int | None) -> dict[str, Any]:  # noqa: FBT001
    at_once = {Control.RETRY, Control.RUN_NOW, Control.STOP}
    controls = [each for each in offered_controls(task) if each in at_once] if can_control else []
    return {
        "id": task.pk,
        "name": describe_task(task),
        "url": task_url(task),
        "state": state_of(task),
        "tone": tone_of(task),
        "message": task.message if task.status != Task.Status.SUCCESS else "",
        "queue": task.queue,
        "progress": task.progress,
        "attempt": task.attempt,
        "max_attempts": None if max_retries is None else max_retries + 1,
        "next_run": task.scheduled_for if task.status == Task.Status.SCHEDULED else None,
        "created": task.created_at,
        "ended": task.finished_at,
        "can_control": can_control,
        "action": (controls[-1].value, CONTROLS[controls[-1]]) if controls else None,
    }
