"""Calls of the endpoints by hour: the counts of server processes are added, listed, and deleted when they are old."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypedDict
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import F, OuterRef, Subquery

from catalog.services.warehouse_statistics import record_soon
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import BATCH, delete_in_batches
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.json.strict import write_json
from icekeeper.kernel.metrics import route_template
from management.models import NO_WAREHOUSE, CallHour, EndpointStatistic, LoadDuration
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Project, Securable
from tenancy.selectors.projects import MalformedProjectId, requested_project_id

SECONDS_AN_HOUR: Final = 3600

COMMIT_ENDPOINTS: Final = (
    "POST /catalog/v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /catalog/v1/{prefix}/transactions/commit",
    "POST /catalog/v1/{prefix}/namespaces/{namespace}/views/{view}",
)
_CREATE_ENDPOINTS: Final = (
    "POST /catalog/v1/{prefix}/namespaces/{namespace}/tables",
    "POST /catalog/v1/{prefix}/namespaces/{namespace}/register",
)
RESULTS: Final = ("succeeded", "client_errors", "server_errors", "commits")
CLIENT_ERRORS, SERVER_ERRORS = 400, 500
"""The lowest status of each."""

YOUNG: Final = timedelta(hours=2)
"""Age of warehouses whose statistics are recorded soon after a commit, while they have no data recorded."""

# Rows of each table are locked in one order, so that concurrent writers cannot deadlock.
_ADD = """
WITH hours AS (
  INSERT INTO management_callhour AS h
         (project_id, warehouse_id, hour, succeeded, client_errors, server_errors, commits)
  SELECT r.project_id, r.warehouse_id, r.hour, r.succeeded, r.client_errors, r.server_errors, r.commits
    FROM jsonb_to_recordset(%s::jsonb) AS r(project_id text, warehouse_id uuid, hour timestamptz, succeeded bigint,
         client_errors bigint, server_errors bigint, commits bigint)
   ORDER BY r.project_id, r.hour, r.warehouse_id
      ON CONFLICT (project_id, hour, warehouse_id) DO UPDATE SET
         succeeded = h.succeeded + excluded.succeeded,
         client_errors = h.client_errors + excluded.client_errors,
         server_errors = h.server_errors + excluded.server_errors,
         commits = h.commits + excluded.commits
), durations AS (
  INSERT INTO management_loadduration AS d (project_id, warehouse_id, hour, limit_ms, count)
  SELECT r.project_id, r.warehouse_id, r.hour, r.limit_ms, r.count
    FROM jsonb_to_recordset(%s::jsonb) AS r(project_id text, warehouse_id uuid, hour timestamptz, limit_ms integer,
         count bigint)
   ORDER BY r.project_id, r.hour, r.warehouse_id, r.limit_ms
      ON CONFLICT (project_id, hour, warehouse_id, limit_ms) DO UPDATE SET count = d.count + excluded.count
)
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
    """The number of calls, and the times of the first and the last one in seconds since the epoch.

    Of successful loads of tables also their number by the limit of their duration (`management.load_durations`).
    """

    __slots__ = ("by_limit", "count", "first", "last")

    def __init__(self, at: float, limit_ms: int | None = None) -> None:
        self.count = 1
        self.first = self.last = at
        self.by_limit: dict[int, int] = {} if limit_ms is None else {limit_ms: 1}

    def merge(self, other: CallCount) -> CallCount:
        """Add `other` to this count and return it."""
        self.count += other.count
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        for limit_ms, count in other.by_limit.items():
            self.by_limit[limit_ms] = self.by_limit.get(limit_ms, 0) + count
        return self


class _Key(NamedTuple):
    project_id: str
    hour: datetime
    warehouse_id: UUID
    endpoint: str
    status: int


class _Hour(NamedTuple):
    project_id: str
    hour: datetime
    warehouse_id: UUID


class _Sum(TypedDict):
    count: int
    created_at: datetime
    updated_at: datetime | None


class _Rows(NamedTuple):
    """What a process adds: by endpoint and status, by hour and result, and loads of tables by duration."""

    endpoints: dict[_Key, _Sum]
    hours: dict[_Hour, Counter[str]]
    durations: Counter[tuple[_Hour, int]]
    changed_warehouses: set[UUID]
    """Young ones in which a table was created or changed."""


def record_calls(calls: Mapping[CallKey, CallCount]) -> None:
    """Add the calls of a process to the hours, all or nothing; on PostgreSQL in one statement.

    A call of a warehouse counts for the project of the warehouse. A call of an unknown warehouse counts for the project
    of the request; if that does not exist either, the call is dropped.
    """
    rows = _rows(calls)
    if not rows.endpoints:
        return
    if connection.vendor == "postgresql":
        params = [
            [{**key._asdict(), **dict.fromkeys(RESULTS, 0), **counts} for key, counts in rows.hours.items()],
            [{**key._asdict(), "limit_ms": limit, "count": n} for (key, limit), n in rows.durations.items()],
            [{**key._asdict(), **row} for key, row in rows.endpoints.items()],
        ]
        with connection.cursor() as cursor:
            cursor.execute(_ADD, [write_json(each).decode() for each in params])
    else:
        _add_one_by_one(rows)
    if rows.changed_warehouses:
        record_soon(rows.changed_warehouses)


def delete_old_statistics(*, actor: Actor, batch: int = BATCH) -> int:
    """Delete the hours that are older than the retention period; return the number of rows."""
    oldest = now() - timedelta(seconds=settings.ICEKEEPER.endpoint_stat_retention)
    for model in (CallHour, LoadDuration):
        delete_in_batches(model._default_manager.filter(hour__lt=oldest), batch=batch)  # noqa: SLF001 - Django's name
    return delete_in_batches(EndpointStatistic.objects.filter(hour__lt=oldest), batch=batch)


def endpoint_name(method: str, route: str) -> str:
    """Return `GET /catalog/v1/{prefix}/namespaces` for the route `catalog/v1/<segment:prefix>/namespaces`."""
    return f"{method} {route_template(route)}"


def _rows(calls: Mapping[CallKey, CallCount]) -> _Rows:
    """Return the rows to add."""
    named = {warehouse_id for call in calls if (warehouse_id := _warehouse_id(call)) is not None}
    found = Warehouse.objects.filter(pk__in=named).values_list("pk", "project_id", "created_at")
    project_of = {key: project_id for key, project_id, _ in found}
    young = {key for key, _, created_at in found if created_at > now() - YOUNG}
    projects = set(Project.objects.values_list("pk", flat=True))
    rows = _Rows({}, defaultdict(Counter), Counter(), set())
    for call, tally in calls.items():
        warehouse_id = _warehouse_id(call)
        if warehouse_id is None or warehouse_id not in project_of:
            warehouse_id, project_id = NO_WAREHOUSE, _project_id(call.project)
        else:
            project_id = project_of[warehouse_id]
        if project_id is None or project_id not in projects:
            continue
        hour = _Hour(project_id, datetime.fromtimestamp(call.hour * SECONDS_AN_HOUR, UTC), warehouse_id)
        key = _Key(*hour, endpoint_name(call.method, call.route), call.status)
        first, last = datetime.fromtimestamp(tally.first, UTC), datetime.fromtimestamp(tally.last, UTC)
        new = _Sum(count=tally.count, created_at=first, updated_at=last if tally.count > 1 else None)
        rows.endpoints[key] = _sum(rows.endpoints[key], new) if key in rows.endpoints else new
        rows.hours[hour][result_of(call.status)] += tally.count
        for limit_ms, count in tally.by_limit.items():
            rows.durations[hour, limit_ms] += count
        if call.status < CLIENT_ERRORS:
            if key.endpoint in COMMIT_ENDPOINTS:
                rows.hours[hour]["commits"] += tally.count
            if warehouse_id in young and key.endpoint in (*COMMIT_ENDPOINTS, *_CREATE_ENDPOINTS):
                rows.changed_warehouses.add(warehouse_id)
    return rows


def result_of(status: int) -> str:
    """Return the field of `CallHour` that counts calls with this status."""
    if status < CLIENT_ERRORS:
        return "succeeded"
    return "client_errors" if status < SERVER_ERRORS else "server_errors"


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


def _add_one_by_one(rows: _Rows) -> None:
    with write_transaction():
        for key, new in rows.endpoints.items():
            same = EndpointStatistic.objects.filter(**key._asdict())
            known = same.values_list("count", "created_at", "updated_at").first()
            if known is None:
                EndpointStatistic.objects.create(**key._asdict(), **new)
            else:
                count, created_at, updated_at = known
                same.update(**_sum(_Sum(count=count, created_at=created_at, updated_at=updated_at), new))
        for hour, counts in rows.hours.items():
            of_hour, _ = CallHour.objects.get_or_create(**hour._asdict(), defaults=dict.fromkeys(RESULTS, 0))
            CallHour.objects.filter(pk=of_hour.pk).update(**{name: F(name) + counts[name] for name in RESULTS})
        for (hour, limit_ms), count in rows.durations.items():
            key_of = {**hour._asdict(), "limit_ms": limit_ms}
            duration, _ = LoadDuration.objects.get_or_create(**key_of, defaults={"count": 0})
            LoadDuration.objects.filter(pk=duration.pk).update(count=F("count") + count)


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
