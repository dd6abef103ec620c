"""Calls by hour and result, and durations of loads of tables, of projects or of a warehouse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db.models import QuerySet, Sum

from icekeeper.kernel.db.sql import as_datetime, fetch_all
from management.endpoint_statistics import RESULTS, Window
from management.load_durations import percentile
from management.models import CallHour
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions, is_allowed
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef

HOUR: Final = timedelta(hours=1)
P95: Final = 0.95
LOAD_PERIOD: Final = timedelta(days=2)
"""The last hours of a window whose loads are read: an hour has a row for each limit."""


@dataclass(frozen=True, slots=True)
class CallsOfAnHour:
    """Numbers of calls by result. `commits` are successful commits of tables and views, part of `succeeded`."""

    hour: datetime
    succeeded: int = 0
    client_errors: int = 0
    server_errors: int = 0
    commits: int = 0

    @property
    def total(self) -> int:
        return self.succeeded + self.client_errors + self.server_errors


@dataclass(frozen=True, slots=True)
class RecordedCalls:
    """The calls of each hour of a window, and of its last hours the number of loads of tables by limit of duration."""

    hours: Sequence[CallsOfAnHour]
    loads: Mapping[datetime, Mapping[int, int]]

    def load_p95(self, since: datetime, until: datetime | None = None) -> float | None:
        """Return the 95th percentile of loads in hours of a period, in milliseconds; None without loads."""
        by_limit: dict[int, int] = defaultdict(int)
        for hour, counts in self.loads.items():
            if since <= hour and (until is None or hour < until):
                for limit_ms, count in counts.items():
                    by_limit[limit_ms] += count
        return percentile(by_limit, P95)


def read_calls_for(*, actor: Actor, projects: Sequence[Project], window: Window) -> RecordedCalls | None:
    """Return the calls of whole hours in `window` of those projects whose statistics `actor` may read.

    One statement, whose rows are sums. None if the actor may read none.
    """
    refs = [ObjectRef(Securable.Type.PROJECT, each.pk) for each in projects]
    allowed = check_permissions(actor, [(Can.GET_ENDPOINT_STATISTICS, ref) for ref in refs])
    readable = [each.pk for each, is_readable in zip(projects, allowed, strict=True) if is_readable]
    return _read(_OF_PROJECTS, [readable], window) if readable else None


def read_calls_of_warehouse_for(*, actor: Actor, warehouse: Warehouse, window: Window) -> RecordedCalls | None:
    """As `read_calls_for`, of one warehouse that the caller has read."""
    if not is_allowed(actor, Can.GET_ENDPOINT_STATISTICS, Securable.Type.WAREHOUSE, warehouse.pk):
        return None
    return _read(_OF_WAREHOUSE, [warehouse.project_id, warehouse.pk], window)


_OF_PROJECTS: Final = "project_id = ANY(%s)"
_OF_WAREHOUSE: Final = "project_id = %s AND warehouse_id = %s"
_CALLS_AND_LOADS: Final = """
SELECT hour, NULL, CAST(sum(succeeded) AS bigint), CAST(sum(client_errors) AS bigint),
       CAST(sum(server_errors) AS bigint), CAST(sum(commits) AS bigint)
  FROM management_callhour WHERE {whose} AND hour >= %s AND hour < %s GROUP BY hour
 UNION ALL
SELECT hour, limit_ms, CAST(sum(count) AS bigint), NULL, NULL, NULL
  FROM management_loadduration WHERE {whose} AND hour >= %s AND hour < %s GROUP BY hour, limit_ms
"""


def _read(whose: str, params: Sequence[Any], window: Window) -> RecordedCalls:
    since = max(window.start, window.end - LOAD_PERIOD)
    given = [*params, window.start, window.end, *params, since, window.end]
    by_hour: dict[datetime, CallsOfAnHour] = {}
    loads: dict[datetime, dict[int, int]] = defaultdict(dict)
    for at, limit_ms, count, *others in fetch_all(settings.READ_DATABASE, _CALLS_AND_LOADS.format(whose=whose), given):
        hour = as_datetime(at)
        if limit_ms is None:
            by_hour[hour] = CallsOfAnHour(hour, count, *others)
        else:
            loads[hour][limit_ms] = count
    return RecordedCalls(list_hours(by_hour, window), loads)


def sum_by_hour(rows: QuerySet[CallHour], window: Window) -> list[CallsOfAnHour]:
    """Return the sums of rows in `window`, one entry for each of its hours. One statement."""
    sums = rows.order_by().values_list("hour").annotate(*(Sum(name) for name in RESULTS))
    return list_hours({hour: CallsOfAnHour(hour, *counts) for hour, *counts in sums}, window)


def list_hours(by_hour: Mapping[datetime, CallsOfAnHour], window: Window) -> list[CallsOfAnHour]:
    """Return one entry for each hour of `window`, without calls where there is none."""
    count = int((window.end - window.start) / HOUR)
    hours = [window.start + number * HOUR for number in range(count)]
    return [by_hour.get(hour, CallsOfAnHour(hour)) for hour in hours]
