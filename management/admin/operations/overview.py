"""Overviews of everything, of a project and of a warehouse: what needs attention, how much there is, how it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.selectors.overview import get_overview_for, get_warehouse_overview_for, read_history_of_warehouse_for
from catalog.selectors.overview_history import list_moments
from events.selectors.sinks import SinkState, list_troubled_sinks_for
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import Forbidden
from management.admin.accounts.projects import add_url_for, settings_url_for
from management.admin.navigation import Crumb
from management.admin.operations.overview_blocks import blocks_context
from management.admin.operations.overview_numbers import (
    STEPS,
    calls_context,
    history_charts,
    history_csv,
    hours_of,
    tiles_of,
)
from management.admin.operations.statistics import PERIODS, calls_csv, read_period, window_of
from management.admin.pages import Page
from management.call_hours import RecordedCalls, read_calls_for, read_calls_of_warehouse_for
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.models import Project
from tenancy.selectors.projects import get_visible_project_for, list_projects_for

LONGEST: Final = "30d"
"""The period whose calls are read: tiles show it, and charts a part of it."""


class OverviewPage(Page):
    """The overview of all projects that the user may see."""

    template_name = "console/overview.html"
    section = "overview"
    title = gettext_lazy("Overview")

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if request.GET.get("format") == "csv":
            calls = self._calls(self.projects())
            return calls_csv([] if calls is None else hours_of(calls, read_period(request)))
        return super().get(request, **kwargs)

    def projects(self) -> list[Project]:
        return list_projects_for(actor=self.actor)

    def context(self) -> dict[str, Any]:
        projects = self.projects()
        overview = get_overview_for(actor=self.actor, projects=projects, moments=list_moments(now()))
        calls = self._calls(projects)
        return {
            "projects": projects,
            "user_id": self.actor.user_id,
            **blocks_context(overview, self.sinks()),
            "tiles": tiles_of(overview, overview.history.points, calls),
            **calls_context(calls, read_period(self.request)),
            "updated": now(),
            "add_project_url": self.add_project_url(),
        }

    def sinks(self) -> Sequence[SinkState]:
        """Return the event sinks that need attention."""
        return list_troubled_sinks_for(actor=self.actor)

    def add_project_url(self) -> str | None:
        return add_url_for(self.actor)

    def _calls(self, projects: Sequence[Project]) -> RecordedCalls | None:
        return read_calls_for(actor=self.actor, projects=projects, window=window_of(LONGEST))


class ProjectPage(OverviewPage):
    """The overview of one project."""

    section = "overview"

    def sinks(self) -> Sequence[SinkState]:
        return ()

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


def warehouse_overview_context(request: HttpRequest, actor: Actor, warehouse: Warehouse) -> dict[str, Any]:
    """Return the tab with the overview of a warehouse, which was read on behalf of `actor`.

    Numbers are those of all objects: a user who does not see all of them gets none.
    """
    period, end = read_period(request), now()
    moments, days = list_moments(end, PERIODS[period], STEPS[period]), list_moments(end)
    overview = get_warehouse_overview_for(actor=actor, warehouse=warehouse, moments=sorted({*moments, *days}))
    calls = read_calls_of_warehouse_for(actor=actor, warehouse=warehouse, window=window_of(LONGEST))
    return {
        **blocks_context(overview),
        "tiles": tiles_of(overview, overview.history.at(days), calls),
        "charts": history_charts(overview.history.at(moments)),
        "history_csv_url": f"?period={period}&format=csv&of=history",
        **calls_context(calls, period),
    }


def warehouse_overview_csv(request: HttpRequest, actor: Actor, warehouse: Warehouse) -> HttpResponseBase:
    """Return the file of the charts: recorded numbers, or calls. Raises `Forbidden`."""
    period = read_period(request)
    if request.GET.get("of") == "history":
        moments = list_moments(now(), PERIODS[period], STEPS[period])
        return history_csv(read_history_of_warehouse_for(actor=actor, warehouse=warehouse, moments=moments).points)
    calls = read_calls_of_warehouse_for(actor=actor, warehouse=warehouse, window=window_of(LONGEST))
    if calls is None:
        raise Forbidden("You do not have the permission to read the statistics of this warehouse")
    return calls_csv(hours_of(calls, period))
