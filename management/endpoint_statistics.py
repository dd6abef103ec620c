"""Calls of the endpoints by hour: the counts of server processes are added, listed, and deleted when they are old."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypedDict
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import BATCH, delete_in_batches
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.json.strict import write_json
from icekeeper.kernel.metrics import route_template
from management.models import NO_WAREHOUSE, EndpointStatistic
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions, require_permission
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import MalformedProjectId, requested_project_id

SECONDS_AN_HOUR: Final = 3600

_ADD = """
INSERT INTO management_endpointstatistic AS s
       (project_id, warehouse_id, endpoint, status, hour, count, created_at, updated_at)
SELECT r.project_id, r.warehouse_id, r.endpoint, r.status, r.hour, r.count, r.created_at, r.updated_at
  FROM jsonb_to_recordset(%s::jsonb) AS r(project_id text, warehouse_id uuid, endpoint text, status smallint,
       hour timestamptz, count bigint, created_at timestamptz, updated_at timestamptz)
 ORDER BY r.project_id, r.hour, r.warehouse_id, r.endpoint, r.status
    ON CONFLICT (project_id, hour, warehouse_id, endpoint, status) DO UPDATE SET
       count = s.count + excluded.count,
       created_at = least(s.created_at, excluded.created_at),
       updated_at = greatest(s.created_at, s.updated_at, excluded.created_at, excluded.updated_at)
"""
"""Rows are locked in one order, so that concurrent writers cannot deadlock."""


class CallKey(NamedTuple):
    """The properties by which calls are counted apart. `hour` counts from the epoch, `route` is Django's pattern.

    `warehouse` and `project` are as the request named them and need not exist; None when the request named none.
    """

    hour: int
    method: str
    route: str
    status: int
    warehouse: str | None
    project: str | None


class CallCount:
    """The number of calls, and the times of the first and the last one in seconds since the epoch."""

    __slots__ = ("count", "first", "last")

    def __init__(self, at: float) -> None:
        self.count = 1
        self.first = self.last = at

    def merge(self, other: CallCount) -> CallCount:
        """Add `other` to this count and return it."""
        self.count += other.count
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        return self


class _Key(NamedTuple):
    project_id: str
    hour: datetime
    warehouse_id: UUID
    endpoint: str
    status: int


class _Sum(TypedDict):
    count: int
    created_at: datetime
    updated_at: datetime | None


def record_calls(calls: Mapping[CallKey, CallCount]) -> None:
    """Add the calls of a process to the hours, all or nothing; on PostgreSQL in one statement.

    A call of a warehouse counts for the project of the warehouse. A call of an unknown warehouse counts for the project
    of the request; if that does not exist either, the call is dropped.
    """
    rows = _rows(calls)
    if not rows:
        return
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(_ADD, [write_json([{**key._asdict(), **row} for key, row in rows.items()]).decode()])
    else:
        _add_one_by_one(rows)


def delete_old_statistics(*, actor: Actor, batch: int = BATCH) -> int:
    """Delete the hours that are older than the retention period; return the number of rows."""
    oldest = now() - timedelta(seconds=settings.ICEKEEPER.endpoint_stat_retention)
    return delete_in_batches(EndpointStatistic.objects.filter(hour__lt=oldest), batch=batch)


def endpoint_name(method: str, route: str) -> str:
    """Return `GET /catalog/v1/{prefix}/namespaces` for the route `catalog/v1/<segment:prefix>/namespaces`."""
    return f"{method} {route_template(route)}"


def _rows(calls: Mapping[CallKey, CallCount]) -> dict[_Key, _Sum]:
    """Return the rows to add."""
    named = {warehouse_id for call in calls if (warehouse_id := _warehouse_id(call)) is not None}
    project_of = dict(Warehouse.objects.filter(pk__in=named).values_list("pk", "project_id"))
    projects = set(Project.objects.values_list("pk", flat=True))
    rows: dict[_Key, _Sum] = {}
    for call, tally in calls.items():
        warehouse_id = _warehouse_id(call)
        if warehouse_id is None or warehouse_id not in project_of:
            warehouse_id, project_id = NO_WAREHOUSE, _project_id(call.project)
        else:
            project_id = project_of[warehouse_id]
        if project_id is None or project_id not in projects:
            continue
        hour = datetime.fromtimestamp(call.hour * SECONDS_AN_HOUR, UTC)
        key = _Key(project_id, hour, warehouse_id, endpoint_name(call.method, call.route), call.status)
        first, last = datetime.fromtimestamp(tally.first, UTC), datetime.fromtimestamp(tally.last, UTC)
        new = _Sum(count=tally.count, created_at=first, updated_at=last if tally.count > 1 else None)
        rows[key] = _sum(rows[key], new) if key in rows else new
    return rows


def _warehouse_id(call: CallKey) -> UUID | None:
    return parse_id(call.warehouse) if call.warehouse is not None else None


def _project_id(given: str | None) -> str | None:
    try:
        return requested_project_id(given)
    except MalformedProjectId:
        return None


def _sum(one: _Sum, other: _Sum) -> _Sum:
    calls = [at for row in (one, other) for at in (row["created_at"], row["updated_at"]) if at is not None]
    return _Sum(count=one["count"] + other["count"], created_at=min(calls), updated_at=max(calls))


def _add_one_by_one(rows: dict[_Key, _Sum]) -> None:
    with write_transaction():
        for key, new in rows.items():
            same = EndpointStatistic.objects.filter(**key._asdict())
            known = same.values_list("count", "created_at", "updated_at").first()
            if known is None:
                EndpointStatistic.objects.create(**key._asdict(), **new)
            else:
                count, created_at, updated_at = known
                same.update(**_sum(_Sum(count=count, created_at=created_at, updated_at=updated_at), new))


MAX_ENTRIES: Final = 100_000
"""Of one response; about 30 MB."""


@dataclass(frozen=True, slots=True)
class Window:
    """The hours from `start` (inclusive) to `end` (exclusive)."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class FoundStatistics:
    """All `entries` of `window`, oldest hour first.

    Each has the fields of `EndpointStatistic` and `warehouse_name`, which is None if the warehouse does not exist.
    """

    entries: Sequence[Mapping[str, Any]]
    window: Window


def list_endpoint_statistics_for(
    *,
    actor: Actor,
    project: Project,
    warehouse_id: UUID | None,
    status_codes: Sequence[int] | None,
    window: Window,
) -> FoundStatistics:
    """List the calls in the hours that begin in `window`, by hour, endpoint, status code and warehouse.

    `warehouse_id` is None for the whole project and `NO_WAREHOUSE` for calls without a warehouse. If there are more
    than `MAX_ENTRIES` entries, the newest whole hours are returned. Raises `NoSuchWarehouse`, and `BadRequest` if the
    newest hour alone exceeds the limit.
    """
    if warehouse_id in {None, NO_WAREHOUSE}:
        require_permission(actor, Can.GET_ENDPOINT_STATISTICS, Securable.Type.PROJECT, project.pk)
    else:
        missing = no_such_warehouse(warehouse_id)
        if not Warehouse.objects.filter(pk=warehouse_id, project=project).exists():
            raise missing
        require_permission(actor, Can.GET_ENDPOINT_STATISTICS, Securable.Type.WAREHOUSE, warehouse_id, missing=missing)
    found = EndpointStatistic.objects.using(settings.READ_DATABASE).filter(
        project=project, hour__gte=window.start, hour__lt=window.end
    )
    if warehouse_id is not None:
        found = found.filter(warehouse_id=warehouse_id)
    if status_codes is not None:
        found = found.filter(status__in=status_codes)
    name = Warehouse.objects.filter(pk=OuterRef("warehouse_id")).values("name")[:1]
    entries: list[Mapping[str, Any]] = list(
        found.annotate(warehouse_name=Subquery(name))
        .order_by("-hour", "endpoint", "status", "warehouse_id")
        .values("hour", "endpoint", "status", "warehouse_id", "warehouse_name", "count", "created_at", "updated_at")[
            : MAX_ENTRIES + 1
        ]
    )
    start = window.start
    if len(entries) > MAX_ENTRIES:
        omitted_hour = entries[-1]["hour"]
        entries = [entry for entry in entries if entry["hour"] > omitted_hour]
        if not entries:
            raise BadRequest(
                f"The hour from {omitted_hour.isoformat()} has more than {MAX_ENTRIES} entries: filter by "
                "warehouse or by status code"
            )
        start = entries[-1]["hour"]
    return FoundStatistics(sorted(entries, key=itemgetter("hour")), Window(start, window.end))


@dataclass(frozen=True, slots=True)
class CallsOfAnHour:
    """Numbers of calls by result. `commits` are successful commits of tables and views, part of `succeeded`."""

    hour: datetime
    succeeded: int = 0
    client_errors: int = 0
    server_errors: int = 0
    commits: int = 0


COMMIT_ENDPOINTS: Final = (
    "POST /catalog/v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /catalog/v1/{prefix}/transactions/commit",
    "POST /catalog/v1/{prefix}/namespaces/{namespace}/views/{view}",
)


def count_calls_for(*, actor: Actor, projects: Sequence[Project], window: Window) -> list[CallsOfAnHour]:
    """Return the calls of whole hours in `window`, one entry for each hour, of those projects whose statistics `actor`
    may read.

    One statement, whose rows are sums by hour and result. Empty if the actor may read none.
    """
    refs = [ObjectRef(Securable.Type.PROJECT, each.pk) for each in projects]
    allowed = check_permissions(actor, [(Can.GET_ENDPOINT_STATISTICS, ref) for ref in refs])
    readable = [each.pk for each, is_readable in zip(projects, allowed, strict=True) if is_readable]
    if not readable:
        return []
    found = EndpointStatistic.objects.using(settings.READ_DATABASE).filter(
        project__in=readable, hour__gte=window.start, hour__lt=window.end
    )
    return count_calls_of(found, window)


def count_calls_of(found: QuerySet[EndpointStatistic], window: Window) -> list[CallsOfAnHour]:
    """Return the sums of rows in `window`, one entry for each of its hours. One statement."""
    is_commit = Q(endpoint__in=COMMIT_ENDPOINTS, status__lt=_CLIENT_ERRORS)
    sums = found.values("hour").annotate(
        succeeded=_sum_of(Q(status__lt=_CLIENT_ERRORS)),
        client_errors=_sum_of(Q(status__gte=_CLIENT_ERRORS, status__lt=_SERVER_ERRORS)),
        server_errors=_sum_of(Q(status__gte=_SERVER_ERRORS)),
        commits=_sum_of(is_commit),
    )
    by_hour = {row["hour"]: CallsOfAnHour(**row) for row in sums}
    count = int((window.end - window.start) / timedelta(hours=1))
    hours = [window.start + timedelta(hours=number) for number in range(count)]
    return [by_hour.get(hour, CallsOfAnHour(hour)) for hour in hours]


_CLIENT_ERRORS, _SERVER_ERRORS = 400, 500


def _sum_of(condition: Q) -> Coalesce:
    return Coalesce(Sum("count", filter=condition), 0)
