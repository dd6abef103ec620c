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
from management.models import EndpointStatistic
from management.models.endpoint_statistic import NO_WAREHOUSE
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.port import require
from tenancy.models import Project, Securable

MOST_ENTRIES: Final = 100_000
"""Of one answer, some 30 MB."""


@dataclass(frozen=True, slots=True)
class Window:
    """From `start` up to and without `end`: windows side by side share no hour and leave none out."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class FoundStatistics:
    """`entries` are all that there are in `window`, the oldest hour first.

    Each has the fields of `EndpointStatistic` and `warehouse_name`, None when there is no such warehouse (any more).
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
    """What was called in the hours that begin in `window`, by hour, endpoint, status code and warehouse.

    `warehouse_id` is None for everything in the project and `NO_WAREHOUSE` for what no warehouse was named in. Of more
    than `MOST_ENTRIES` the newest whole hours are found. Raises `NoSuchWarehouse`, and `BadRequest` when the newest
    hour alone has more.
    """
    if warehouse_id in {None, NO_WAREHOUSE}:
        require(actor, Can.GET_ENDPOINT_STATISTICS, Securable.Type.PROJECT, project.pk)
    else:
        missing = no_such_warehouse(warehouse_id)
        if not Warehouse.objects.filter(pk=warehouse_id, project=project).exists():
            raise missing
        require(actor, Can.GET_ENDPOINT_STATISTICS, Securable.Type.WAREHOUSE, warehouse_id, missing=missing)
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
            : MOST_ENTRIES + 1
        ]
    )
    start = window.start
    if len(entries) > MOST_ENTRIES:
        left_out = entries[-1]["hour"]
        entries = [entry for entry in entries if entry["hour"] > left_out]
        if not entries:
            raise BadRequest(
                f"The hour from {left_out.isoformat()} holds more than {MOST_ENTRIES} entries: ask for one warehouse, "
                "or for some status codes"
            )
        start = entries[-1]["hour"]
    return FoundStatistics(sorted(entries, key=itemgetter("hour")), Window(start, window.end))
