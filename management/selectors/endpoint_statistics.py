from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db.models import OuterRef, Subquery

from icekeeper.kernel.errors.types import BadRequest
from management.models import NO_WAREHOUSE, EndpointStatistic
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Project, Securable

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
