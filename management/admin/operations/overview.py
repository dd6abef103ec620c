"""The overview: what needs attention, how much there is, and how it is used; of everything, or of a project."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from catalog.models import LargeTable
from catalog.selectors.overview import Overview, get_overview_for
from catalog.selectors.overview_operations import LatestChange
from icekeeper.kernel.clock import now
from management.admin.accounts.projects import add_url_for, settings_url_for
from management.admin.charts import Series, TrendChart, draw_trend, sparkline
from management.admin.navigation import Crumb, Text, object_url
from management.admin.operations.statistics import (
    HOURS_A_POINT,
    PERIODS,
    calls_chart,
    calls_csv,
    read_period,
    sum_hours,
    window_of,
)
from management.admin.operations.task_texts import QUEUES
from management.admin.pages import Page
from management.call_hours import CallsOfAnHour, read_calls_for
from management.templatetags.console import byte_size, short_count
from tenancy.models import Project
from tenancy.selectors.projects import get_visible_project_for, list_projects_for

MAX_ATTENTION: Final = 6
_HOURS_A_DAY: Final = 24

BLOCKS: Final[dict[str, Text]] = {
    "counts": gettext_lazy("Warehouses"),
    "sizes": gettext_lazy("Data and rows"),
    "largest": gettext_lazy("Largest tables"),
    "tasks": gettext_lazy("Failed tasks"),
    "queues": gettext_lazy("Queues"),
    "changes": gettext_lazy("Latest changes"),
}
"""Titles of the parts of `Overview` that can fail on their own."""


class OverviewPage(Page):
    """The overview of all projects that the user may see."""

    template_name = "console/overview.html"
    section = "overview"
    title = gettext_lazy("Overview")

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if request.GET.get("format") == "csv":
            return calls_csv(self._calls(self.projects()))
        return super().get(request, **kwargs)

    def projects(self) -> list[Project]:
        return list_projects_for(actor=self.actor)

    def context(self) -> dict[str, Any]:
        projects = self.projects()
        overview = get_overview_for(actor=self.actor, projects=projects)
        calls = self._calls(projects)
        hours = HOURS_A_POINT[self._period]
        points = sum_hours(calls, hours)
        return {
            "projects": projects,
            "user_id": self.actor.user_id,
            "overview": overview,
            "failed_blocks": [title for block, title in BLOCKS.items() if block in overview.failed_blocks],
            "largest": [_large_table(each) for each in overview.largest],
            "queues": [(each, QUEUES.get(each.queue, each.queue)) for each in overview.queues],
            "changes": [_change(each) for each in overview.changes],
            "attention": _attention(overview)[:MAX_ATTENTION],
            "tiles": _tiles(overview, calls),
            "period": self._period,
            "periods": [(name, f"?period={name}", name == self._period) for name in PERIODS],
            "calls_chart": calls_chart(points) if points else None,
            "commits_chart": _commits_chart(points) if points else None,
            "hours_a_point": hours,
            "csv_url": f"?period={self._period}&format=csv",
            "updated": now(),
            "add_project_url": self.add_project_url(),
        }

    def add_project_url(self) -> str | None:
        return add_url_for(self.actor)

    @property
    def _period(self) -> str:
        return read_period(self.request)

    def _calls(self, projects: Sequence[Project]) -> list[CallsOfAnHour]:
        found = read_calls_for(actor=self.actor, projects=projects, window=window_of(self._period))
        return [] if found is None else list(found.hours)


class ProjectPage(OverviewPage):
    """The overview of one project."""

    section = "overview"

    def add_project_url(self) -> None:
        return None

    def projects(self) -> list[Project]:
        return [get_visible_project_for(actor=self.actor, given=self.kwargs["project_id"])]

    def context(self) -> dict[str, Any]:
        shown = super().context()
        (project,) = shown["projects"]
        return {
            **shown,
            "title": project.name,
            "project": project,
            "settings_url": settings_url_for(self.actor, project),
            "breadcrumb": [Crumb(_("Overview"), reverse("admin:index")), Crumb(project.name)],
        }


def _large_table(row: LargeTable) -> dict[str, Any]:
    tabular = row.tabular
    return {
        "name": ".".join((row.warehouse.name, *tabular.namespace.levels, tabular.name)),
        "url": object_url(tabular.kind, tabular.uuid, row.warehouse_id),
        "records": row.records,
        "files_size": row.files_size,
        "data_files": row.data_files,
    }


def _attention(overview: Overview) -> list[dict[str, Any]]:
    """Return the sentences of "Needs attention", the worst first."""
    rows: list[dict[str, Any]] = [
        {
            "tone": "bad",
            "icon": "cross",
            "subject": _("Task %(queue)s of %(name)s failed")
            % {"queue": task.queue, "name": ".".join(task.name) or _("a warehouse")},
            "text": _("after %(count)s attempts:") % {"count": task.attempt},
            "code": task.message[:200],
            "url": reverse("admin:task", args=[task.warehouse_id, task.id]),
            "label": _("Open task"),
        }
        for task in overview.failed_tasks
    ]
    rows += [
        {
            "tone": "bad",
            "icon": "clock",
            "subject": ngettext("%(count)s task is overdue", "%(count)s tasks are overdue", each.overdue)
            % {"count": each.overdue},
            "text": _("in the queue %(queue)s: check that workers run") % {"queue": each.queue},
            "url": reverse("admin:tasks"),
            "label": _("Tasks"),
        }
        for each in overview.queues
        if each.overdue
    ]
    if overview.expiring_soon:
        rows.append(
            {
                "tone": "warning",
                "icon": "undo",
                "subject": _("%(count)s dropped objects") % {"count": overview.expiring_soon},
                "text": _("can be restored for less than 24 hours"),
                "url": reverse("admin:deleted"),
                "label": _("Deleted objects"),
            }
        )
    return rows


def _change(change: LatestChange) -> dict[str, Any]:
    url = None if change.uuid is None else object_url(change.kind, change.uuid, change.warehouse_id)
    return {
        "type": change.type,
        "name": ".".join(change.names),
        "at": change.at,
        "actor": change.actor,
        "url": None if change.type.startswith("drop") else url,
    }


def _grown(first: int, last: int, shown: Callable[[float], str]) -> str:
    """Return the change since the beginning of the line, such as `+1.1 TiB in 30 d`; empty without one."""
    if first == last:
        return ""
    sign = "+" if last > first else ""
    return _("%(change)s in 30 d") % {"change": f"{sign}{shown(float(last - first))}"}


def _tiles(overview: Overview, calls: Sequence[CallsOfAnHour]) -> list[dict[str, Any]]:
    today = calls[-_HOURS_A_DAY:]
    requests = [each.succeeded + each.client_errors + each.server_errors for each in calls]
    errors = sum(each.server_errors for each in today)
    sizes = overview.sizes
    count = overview.generic_tables
    generic = ngettext("%(count)s generic table", "%(count)s generic tables", count) % {"count": count} if count else ""
    tiles: list[dict[str, Any]] = [
        {
            "label": _("Data"),
            "text": byte_size(sizes[-1].files_size if sizes else None),
            "note": _grown(sizes[0].files_size, sizes[-1].files_size, byte_size) if sizes else "",
            "line": sparkline([float(each.files_size) for each in sizes]),
        },
        {
            "label": _("Rows"),
            "value": sizes[-1].records if sizes else None,
            "note": _grown(sizes[0].records, sizes[-1].records, short_count) if sizes else "",
            "line": sparkline([float(each.records) for each in sizes]),
        },
        {"label": _("Tables"), "value": overview.tables, "note": generic},
        {"label": _("Views"), "value": overview.views, "note": ""},
    ]
    if calls:
        tiles += [
            {
                "label": _("Commits, 24 h"),
                "value": sum(each.commits for each in today),
                "note": "",
                "line": sparkline([float(each.commits) for each in calls]),
            },
            {
                "label": _("Calls, 24 h"),
                "value": sum(requests[-_HOURS_A_DAY:]),
                "note": _("%(count)s server errors") % {"count": errors},
                "line": sparkline([float(each) for each in requests]),
            },
        ]
    return tiles


def _commits_chart(calls: Sequence[CallsOfAnHour]) -> TrendChart:
    series = [Series(_("Commits"), 1, [each.commits for each in calls])]
    return draw_trend(_("Commits"), [each.hour for each in calls], series)
