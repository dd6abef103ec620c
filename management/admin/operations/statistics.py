"""Statistics of calls: by hour, endpoint and warehouse, with CSV."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest, Forbidden
from management.admin.charts import Series, TrendChart, draw_trend
from management.admin.navigation import object_url
from management.admin.pages import Page, read_query
from management.call_hours import CallsOfAnHour
from management.call_statistics import CallStatistics, CallSum, sum_calls_for, sum_calls_of_warehouse_for
from management.csv_files import csv_response
from management.endpoint_statistics import Window
from tenancy.actor import Actor
from tenancy.selectors.projects import get_visible_project_for, list_projects_for

PERIODS: Final = {"24h": timedelta(hours=24), "7d": timedelta(days=7), "30d": timedelta(days=30)}
HOURS_A_POINT: Final = {"24h": 1, "7d": 1, "30d": 6}
"""Of the charts: a line has at most 168 points, and its table as many rows."""

DEFAULT_PERIOD: Final = "7d"


def read_period(request: HttpRequest) -> str:
    """Return the key of `PERIODS` in the address. Raises `BadRequest` for another text."""
    given = request.GET.get("period", DEFAULT_PERIOD)
    if given not in PERIODS:
        raise BadRequest(f"period: must be one of {', '.join(PERIODS)}")
    return given


def window_of(period: str) -> Window:
    """Return the whole hours of a period up to now."""
    end = now().replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    return Window(end - PERIODS[period], end)


def statistics_context(found: CallStatistics, given: dict[str, str]) -> dict[str, Any]:
    """Return what the template of statistics shows; `given` are the parameters of the address."""
    period, endpoint = given["period"], given.get("endpoint", "")
    others = {name: value for name, value in given.items() if name != "endpoint" and value}

    def link(**more: str) -> str:
        return f"?{urlencode({name: value for name, value in {**given, **more}.items() if value})}"

    return {
        "is_readable": found.is_readable,
        "period": period,
        "periods": [(name, link(period=name), name == period) for name in PERIODS],
        "endpoint": endpoint,
        "all_endpoints_url": f"?{urlencode(others)}",
        "chart": calls_chart(sum_hours(found.hours, HOURS_A_POINT[period])) if found.hours else None,
        "hours_a_point": HOURS_A_POINT[period],
        "endpoints": [(each, link(endpoint=each.name)) for each in found.endpoints],
        "by_warehouse": [(each, _warehouse_url(each)) for each in found.warehouses],
        "hours_csv": link(format="csv"),
        "endpoints_csv": link(format="csv", by="endpoint"),
        "warehouses_csv": link(format="csv", by="warehouse"),
    }


def statistics_csv(found: CallStatistics, by: str) -> StreamingHttpResponse:
    """Return the sums by `endpoint` or `warehouse` as a CSV file, else those by hour."""
    if by in {"endpoint", "warehouse"}:
        sums = found.endpoints if by == "endpoint" else found.warehouses
        rows = [(each.name, each.total, each.client_errors, each.server_errors) for each in sums]
        return csv_response(f"calls-by-{by}", (by, "calls", "client_errors", "server_errors"), [rows])
    return calls_csv(found.hours)


def calls_csv(calls: Sequence[CallsOfAnHour]) -> StreamingHttpResponse:
    """Return the calls by hour as a CSV file."""
    header = ("hour", "succeeded", "client_errors", "server_errors", "commits")
    rows = [
        (each.hour.isoformat(), each.succeeded, each.client_errors, each.server_errors, each.commits) for each in calls
    ]
    return csv_response("calls", header, [rows])


def sum_hours(calls: Sequence[CallsOfAnHour], hours: int) -> list[CallsOfAnHour]:
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


def calls_chart(calls: Sequence[CallsOfAnHour]) -> TrendChart:
    series = [
        Series(_("Server error"), 3, [each.server_errors for each in calls]),
        Series(_("Client error"), 2, [each.client_errors for each in calls]),
        Series(_("Succeeded"), 1, [each.succeeded for each in calls]),
    ]
    return draw_trend(_("Calls"), [each.hour for each in calls], series)


def _warehouse_url(each: CallSum) -> str | None:
    return None if each.warehouse_id is None else object_url("warehouse", each.warehouse_id, None)


def warehouse_statistics_context(request: HttpRequest, actor: Actor, warehouse_id: UUID) -> dict[str, Any]:
    """Return the tab with the calls of a warehouse; without the permission it says so."""
    given = {"period": read_period(request), "endpoint": read_query(request, "endpoint")}
    try:
        found = _read_warehouse(actor, warehouse_id, given)
    except Forbidden:
        found = CallStatistics(is_readable=False, hours=[], endpoints=[], warehouses=[])
    return {**statistics_context(found, given), "by_warehouse": []}


def warehouse_statistics_csv(request: HttpRequest, actor: Actor, warehouse_id: UUID) -> StreamingHttpResponse:
    """Return the file of a table of the tab. Raises `NoSuchWarehouse`, `Forbidden`."""
    given = {"period": read_period(request), "endpoint": read_query(request, "endpoint")}
    return statistics_csv(_read_warehouse(actor, warehouse_id, given), request.GET.get("by", ""))


def _read_warehouse(actor: Actor, warehouse_id: UUID, given: dict[str, str]) -> CallStatistics:
    window = window_of(given["period"])
    return sum_calls_of_warehouse_for(actor=actor, warehouse_id=warehouse_id, window=window, endpoint=given["endpoint"])


class StatisticsPage(Page):
    """The calls of all projects whose statistics the user may read, or of the `project` in the address."""

    template_name = "console/statistics.html"
    section = "statistics"
    title = gettext_lazy("Statistics")

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if request.GET.get("format") == "csv":
            return statistics_csv(self._read()[0], request.GET.get("by", ""))
        return super().get(request, **kwargs)

    def context(self) -> dict[str, Any]:
        found, given = self._read()
        return {**statistics_context(found, given), "projects": self.projects, "project_id": given.get("project")}

    def _read(self) -> tuple[CallStatistics, dict[str, str]]:
        given = {"period": read_period(self.request), "endpoint": self.query("endpoint")}
        self.projects = wanted = list_projects_for(actor=self.actor)
        project_id = self.request.GET.get("project", "")
        if project_id:
            wanted = [get_visible_project_for(actor=self.actor, given=project_id)]
            given["project"] = project_id
        window = window_of(given["period"])
        found = sum_calls_for(actor=self.actor, projects=wanted, window=window, endpoint=given["endpoint"])
        return found, given
