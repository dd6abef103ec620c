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
from management.endpoint_statistics import CallsOfAnHour, Window, count_calls_of
from management.models import NO_WAREHOUSE, EndpointStatistic
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
    return _sums(EndpointStatistic.objects.filter(project__in=readable), window, endpoint, is_readable=bool(readable))


def sum_calls_of_warehouse_for(
    *, actor: Actor, warehouse_id: UUID, window: Window, endpoint: str = ""
) -> CallStatistics:
    """As `sum_calls_for`, of one warehouse. Raises `NoSuchWarehouse`, `Forbidden`."""
    warehouse = get_warehouse_for(actor=actor, action=Can.GET_METADATA, warehouse_id=warehouse_id)
    if not is_allowed(actor, Can.GET_ENDPOINT_STATISTICS, Securable.Type.WAREHOUSE, warehouse_id):
        raise Forbidden("You do not have the permission to read the statistics of this warehouse")
    found = EndpointStatistic.objects.filter(project=warehouse.project_id, warehouse_id=warehouse_id)
    return _sums(found, window, endpoint, is_readable=True)


def _sums(found: QuerySet[EndpointStatistic], window: Window, endpoint: str, *, is_readable: bool) -> CallStatistics:
    if not is_readable:
        return CallStatistics(is_readable, [], [], [])
    rows = found.using(settings.READ_DATABASE).filter(hour__gte=window.start, hour__lt=window.end)
    chosen = rows.filter(endpoint=endpoint) if endpoint else rows
    name = Warehouse.objects.filter(pk=OuterRef("warehouse_id")).values("name")[:1]
    by_endpoint = _grouped(rows.values("endpoint"))
    by_warehouse = _grouped(chosen.annotate(name=Subquery(name)).values("warehouse_id", "name"))
    return CallStatistics(
        is_readable,
        count_calls_of(chosen, window),
        [CallSum(row["endpoint"], row["total"], row["client"], row["server"]) for row in by_endpoint],
        [_warehouse_sum(row) for row in by_warehouse],
    )


def _warehouse_sum(row: dict[str, Any]) -> CallSum:
    warehouse_id: UUID | None = None if row["warehouse_id"] == NO_WAREHOUSE else row["warehouse_id"]
    name = "" if warehouse_id is None else row["name"] or str(warehouse_id)
    return CallSum(name, row["total"], row["client"], row["server"], warehouse_id if row["name"] else None)


def _grouped(rows: QuerySet[EndpointStatistic, Any]) -> list[dict[str, Any]]:
    sums = rows.annotate(
        total=Sum("count"),
        client=Coalesce(Sum("count", filter=Q(status__gte=400, status__lt=500)), 0),
        server=Coalesce(Sum("count", filter=Q(status__gte=500)), 0),
    )
    return list(sums.order_by("-total")[:MAX_GROUPS])
