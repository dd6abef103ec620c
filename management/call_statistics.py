"""Calls of the endpoints summed by endpoint or by warehouse, of the projects whose statistics a user may read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db.models import OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from icekeeper.kernel.errors.types import Forbidden
from management.call_hours import CallsOfAnHour, list_hours, sum_by_hour
from management.endpoint_statistics import CLIENT_ERRORS, COMMIT_ENDPOINTS, SERVER_ERRORS, Window
from management.models import NO_WAREHOUSE, CallHour, EndpointStatistic
from storage.models import Warehouse
from storage.selectors import get_warehouse_for
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions, is_allowed
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef

MAX_GROUPS: Final = 100
"""Endpoints and warehouses with the most calls."""


@dataclass(frozen=True, slots=True)
class CallSum:
    """Numbers of calls of an endpoint, or of a warehouse: `name` is empty for calls without one."""

    name: str
    total: int
    client_errors: int
    server_errors: int
    warehouse_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class CallStatistics:
    """`is_readable` is false if the caller may read the statistics of none of the projects."""

    is_readable: bool
    hours: list[CallsOfAnHour]
    endpoints: list[CallSum]
    warehouses: list[CallSum]


def sum_calls_for(*, actor: Actor, projects: Sequence[Project], window: Window, endpoint: str = "") -> CallStatistics:
    """Return the calls in `window` of those of the projects whose statistics `actor` may read, by hour, endpoint and
    warehouse; with `endpoint` of this one alone.

    Three statements, whose rows are sums.
    """
    refs = [ObjectRef(Securable.Type.PROJECT, each.pk) for each in projects]
    allowed = check_permissions(actor, [(Can.GET_ENDPOINT_STATISTICS, ref) for ref in refs])
    readable = [each.pk for each, is_readable in zip(projects, allowed, strict=True) if is_readable]
    return _sums(Q(project__in=readable), window, endpoint, is_readable=bool(readable))


def sum_calls_of_warehouse_for(
    *, actor: Actor, warehouse_id: UUID, window: Window, endpoint: str = ""
) -> CallStatistics:
    """As `sum_calls_for`, of one warehouse. Raises `NoSuchWarehouse`, `Forbidden`."""
    warehouse = get_warehouse_for(actor=actor, action=Can.GET_METADATA, warehouse_id=warehouse_id)
    if not is_allowed(actor, Can.GET_ENDPOINT_STATISTICS, Securable.Type.WAREHOUSE, warehouse_id):
        raise Forbidden("You do not have the permission to read the statistics of this warehouse")
    return _sums(Q(project=warehouse.project_id, warehouse_id=warehouse_id), window, endpoint, is_readable=True)


def _sums(whose: Q, window: Window, endpoint: str, *, is_readable: bool) -> CallStatistics:
    if not is_readable:
        return CallStatistics(is_readable, [], [], [])
    within = Q(whose, hour__gte=window.start, hour__lt=window.end)
    rows = EndpointStatistic.objects.using(settings.READ_DATABASE).filter(within)
    hours = CallHour.objects.using(settings.READ_DATABASE).filter(within)
    chosen = rows.filter(endpoint=endpoint) if endpoint else rows
    name = Warehouse.objects.filter(pk=OuterRef("warehouse_id")).values("name")[:1]
    by_endpoint = _grouped(rows.values("endpoint"))
    by_warehouse = _grouped(chosen.annotate(name=Subquery(name)).values("warehouse_id", "name"))
    return CallStatistics(
        is_readable,
        _count_by_hour(chosen, window) if endpoint else sum_by_hour(hours, window),
        [CallSum(row["endpoint"], row["total"], row["client"], row["server"]) for row in by_endpoint],
        [_warehouse_sum(row) for row in by_warehouse],
    )


def _count_by_hour(found: QuerySet[EndpointStatistic], window: Window) -> list[CallsOfAnHour]:
    """Return the sums of rows of one endpoint, one entry for each hour of `window`. One statement."""
    sums = found.values("hour").annotate(
        succeeded=_sum_of(Q(status__lt=CLIENT_ERRORS)),
        client_errors=_sum_of(Q(status__gte=CLIENT_ERRORS, status__lt=SERVER_ERRORS)),
        server_errors=_sum_of(Q(status__gte=SERVER_ERRORS)),
        commits=_sum_of(Q(endpoint__in=COMMIT_ENDPOINTS, status__lt=CLIENT_ERRORS)),
    )
    return list_hours({row["hour"]: CallsOfAnHour(**row) for row in sums}, window)


def _sum_of(condition: Q) -> Coalesce:
    return Coalesce(Sum("count", filter=condition), 0)


def _warehouse_sum(row: dict[str, Any]) -> CallSum:
    warehouse_id: UUID | None = None if row["warehouse_id"] == NO_WAREHOUSE else row["warehouse_id"]
    name = "" if warehouse_id is None else row["name"] or str(warehouse_id)
    return CallSum(name, row["total"], row["client"], row["server"], warehouse_id if row["name"] else None)


def _grouped(rows: QuerySet[EndpointStatistic, Any]) -> list[dict[str, Any]]:
    sums = rows.annotate(
        total=Sum("count"),
        client=_sum_of(Q(status__gte=CLIENT_ERRORS, status__lt=SERVER_ERRORS)),
        server=_sum_of(Q(status__gte=SERVER_ERRORS)),
    )
    return list(sums.order_by("-total")[:MAX_GROUPS])
