"""The overview: what needs attention, how much there is, and how it is used; of everything, or of a project."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from catalog.models import LargeTable
from catalog.selectors.overview import Overview, get_overview_for
from icekeeper.kernel.clock import now
from management.admin.accounts.projects import add_url_for, settings_url_for
from management.admin.charts import Series, TrendChart, draw_trend, sparkline
from management.admin.navigation import Crumb, object_url
from management.admin.pages import Page
from management.endpoint_statistics import CallsOfAnHour, Window, count_calls_for
from management.templatetags.console import byte_size
from tenancy.models import Project
from tenancy.selectors.projects import get_visible_project_for, list_projects_for

PERIODS: Final = {"24h": timedelta(hours=24), "7d": timedelta(days=7), "30d": timedelta(days=30)}
HOURS_A_POINT: Final = {"24h": 1, "7d": 1, "30d": 6}
"""Of the charts: a line has at most 168 points, and its table as many rows."""

DEFAULT_PERIOD: Final = "7d"
_HOURS_A_DAY: Final = 24


class OverviewPage(Page):
    """The overview of all projects that the user may see."""

    template_name = "console/overview.html"
    section = "overview"
    title = gettext_lazy("Overview")

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
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
        points = _sum_hours(calls, hours)
        return {
            "projects": projects,
            "user_id": self.actor.user_id,
            "overview": overview,
            "largest": [_large_table(each) for each in overview.largest],
            "attention": _attention(overview),
            "tiles": _tiles(overview, calls),
            "period": self._period,
            "periods": [(name, f"?period={name}", name == self._period) for name in PERIODS],
            "calls_chart": _calls_chart(points) if points else None,
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
        given = self.request.GET.get("period", DEFAULT_PERIOD)
        return given if given in PERIODS else DEFAULT_PERIOD

    def _calls(self, projects: Sequence[Project]) -> list[CallsOfAnHour]:
        end = now().replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        return count_calls_for(actor=self.actor, projects=projects, window=Window(end - PERIODS[self._period], end))


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
            "note": _("at the end of the last hour"),
            "line": sparkline([float(each.files_size) for each in sizes]),
        },
        {
            "label": _("Rows"),
            "value": sizes[-1].records if sizes else None,
            "note": "",
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


def _sum_hours(calls: Sequence[CallsOfAnHour], hours: int) -> list[CallsOfAnHour]:
    """Return the sums of each `hours` consecutive hours, as calls of the first of them."""
    if hours == 1:
        return list(calls)
    blocks = [calls[start : start + hours] for start in range(0, len(calls), hours)]
    return [
        CallsOfAnHour(
            block[0].hour,
            sum(each.succeeded for each in block),
            sum(each.client_errors for each in block),
            sum(each.server_errors for each in block),
            sum(each.commits for each in block),
        )
        for block in blocks
    ]


def _calls_chart(calls: Sequence[CallsOfAnHour]) -> TrendChart:
    series = [
        Series(_("Server error"), 3, [each.server_errors for each in calls]),
        Series(_("Client error"), 2, [each.client_errors for each in calls]),
        Series(_("Succeeded"), 1, [each.succeeded for each in calls]),
    ]
    return draw_trend(_("Calls"), [each.hour for each in calls], series)


def _commits_chart(calls: Sequence[CallsOfAnHour]) -> TrendChart:
    series = [Series(_("Commits"), 1, [each.commits for each in calls])]
    return draw_trend(_("Commits"), [each.hour for each in calls], series)


def calls_csv(calls: Sequence[CallsOfAnHour]) -> HttpResponse:
    """Return the calls by hour as a CSV file."""
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = 'attachment; filename="calls.csv"'
    writer = csv.writer(response)
    writer.writerow(["hour", "succeeded", "client_errors", "server_errors", "commits"])
    for each in calls:
        writer.writerow([each.hour.isoformat(), each.succeeded, each.client_errors, each.server_errors, each.commits])
    return response
