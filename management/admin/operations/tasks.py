"""Tasks of warehouses and projects: their list, with states, filters and the choice of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.selectors.task_previews import Control
from catalog.selectors.tasks import (
    MAX_COUNTED,
    MAX_SEARCHED,
    TaskFilters,
)
from icekeeper.kernel.errors.types import BadRequest, Forbidden
from icekeeper.kernel.http.paging import Page as ListingPage
from icekeeper.kernel.ids import parse_id
from management.admin.listing_pages import read_pager
from management.admin.operations.task_buttons import main_button
from management.admin.operations.task_scopes import PageScope, ProjectScope, WarehouseScope, project_scope
from management.admin.operations.task_texts import (
    CONTROLS,
    QUEUES,
    STATES,
    TONES,
    describe_task,
    state_of,
    task_url,
    tone_of,
)
from management.admin.pages import Page
from management.admin.warehouse_choice import choose_warehouse, list_warehouses_by_project
from management.templatetags.console import grouped
from storage.models import Warehouse
from tasks.models import Task
from tasks.queue.config import QUEUES as QUEUE_DEFINITIONS
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import are_allowed
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef

MAX_TEXT_LENGTH: Final = 255
FILTERS: Final = ("status", "queue", "q")
SHOWN_QUEUES: Final = {
    "warehouse": (Task.Queue.SOFT_DELETION, Task.Queue.TABULAR_PURGE, Task.Queue.FILE_STATISTICS),
    "project": (Task.Queue.STATISTICS, Task.Queue.TASK_LOG_CLEANUP),
}
"""The queues of warehouses and projects that workers execute."""


class TasksPage(Page):
    """The tasks of a warehouse or a project, newest first; `part=list` is the part that the page's script refreshes."""

    template_name = "console/tasks.html"
    section = "tasks"
    title = gettext_lazy("Tasks")

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        prefix, _colon, project_id = request.GET.get("warehouse", "").partition(":")
        if prefix == "project":  # an option of the form, whose select has one name for both
            filters = {name: value for name in FILTERS if (value := request.GET.get(name))}
            return HttpResponseRedirect(f"{request.path}?{urlencode({'project': project_id, **filters})}")
        if request.GET.get("part") == "list":
            return self.render_part("console/parts/task_list.html", self.context())
        return super().get(request, **kwargs)

    def context(self) -> dict[str, Any]:
        choices = list_warehouses_by_project(self.actor)
        projects = _projects_with_tasks(self.actor, [project for project, _warehouses in choices.projects])
        scope = self._choose(choices.warehouses, projects)
        given = self._given(scope)
        shown: dict[str, Any] = {
            "warehouses": choices.warehouses,
            "projects": projects,
            "has_choice": len(choices.warehouses) + len(projects) > 1,
            "scope": scope,
            "is_of_project": scope is not None and scope.kind == "project",
            "given": given,
            "rows": [],
        }
        if scope is None:
            return shown
        query = {**scope.query, **given}
        queues = SHOWN_QUEUES[scope.kind]
        shown |= {
            "queues": [(each.value, QUEUES[each], each == given.get("queue")) for each in queues],
            "statuses": self._statuses(scope, query),
            "clear_url": f"?{urlencode(scope.query)}",
            "query": query.items(),
        }
        pager = read_pager(self.request, "tasks", **query)
        try:
            rows, token = self._find(scope, given, pager.page)
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

    def _choose(self, warehouses: Sequence[Warehouse], projects: Sequence[Project]) -> PageScope | None:
        """Return what the address names, else the first choice. Raises `NoSuchWarehouse`, `ProjectNotFound` (404)."""
        given = self.request.GET
        if given.get("project"):
            return project_scope(self.actor, given["project"])
        warehouse = choose_warehouse(self.actor, warehouses, given.get("warehouse"))
        if warehouse is not None:
            return WarehouseScope(self.actor, warehouse)
        return ProjectScope(self.actor, projects[0]) if projects else None

    def _given(self, scope: PageScope | None) -> dict[str, str]:
        """Return the filters of the address that apply to these tasks. Raises `BadRequest`."""
        given = {
            name: text
            for name in FILTERS
            if (text := self.request.GET.get(name, "").replace("\0", "").strip()[:MAX_TEXT_LENGTH])
        }
        if given.get("status", Task.Status.FAILED) not in Task.Status.values:
            raise BadRequest("status: must be one of the states of tasks")
        queue = QUEUE_DEFINITIONS.get(given.get("queue", Task.Queue.SOFT_DELETION))
        if queue is None:
            raise BadRequest("queue: must be one of the queues of warehouses or projects")
        if scope is not None and queue.scope != scope.kind:
            given.pop("queue", None)
        if scope is not None and scope.kind == "project":
            given.pop("q", None)
        return given

    def _find(
        self, scope: PageScope, given: Mapping[str, str], page: ListingPage
    ) -> tuple[list[dict[str, Any]], str | None]:
        status, queue, text = given.get("status"), given.get("queue"), given.get("q", "")
        uuid = parse_id(text) if text else None
        filters = TaskFilters(
            statuses=None if status is None else [Task.Status(status)],
            queues=None if queue is None else [queue],
            object_uuid=uuid,
            name_part="" if uuid is not None else text,
        )
        found, token = scope.list_tasks(filters, page)
        controllable, retries = scope.find_controllable(found), scope.max_retries()
        return [_row(scope, each, each.pk in controllable, retries.get(each.queue)) for each in found], token

    def _statuses(self, scope: PageScope, query: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the chips of the states, with counts for users who see all tasks, unless an object is searched."""
        current, queue = query.get("status"), query.get("queue")
        counts = None if "q" in query else scope.count_tasks(None if queue is None else [queue])
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


def _projects_with_tasks(actor: Actor, projects: Sequence[Project]) -> list[Project]:
    refs: list[ObjectRef] = [ObjectRef(Securable.Type.PROJECT, each.pk) for each in projects]
    shown = are_allowed(actor, Can.GET_PROJECT_TASKS, refs)
    return [each for each, is_shown in zip(projects, shown, strict=True) if is_shown]


def _bounded(count: int) -> str:
    return f"{grouped(MAX_COUNTED)}+" if count > MAX_COUNTED else grouped(count)


def _row(scope: PageScope, task: Task, can_control: bool, max_retries: int | None) -> dict[str, Any]:  # noqa: FBT001
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
        "button": main_button(scope, task) if can_control else None,
    }
