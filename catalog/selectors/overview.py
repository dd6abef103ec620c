"""What the overview of the console shows of warehouses: counts of objects, tasks that failed, and drops that expire."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Max, OuterRef, Q, Subquery

from catalog.models import LargeTable, Tabular, WarehouseSize, WarehouseStatistic
from icekeeper.kernel.clock import now
from storage.models import Warehouse
from tasks.models import Task
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef

MAX_WAREHOUSES: Final = 1_000
"""Warehouses that an overview counts; further ones are left out, and the page says so."""

MAX_COUNTED: Final = 20_000
"""Objects in a warehouse whose objects are counted for each page."""

MAX_SHOWN_TASKS: Final = 3
EXPIRES_SOON: Final = timedelta(hours=24)
SIZE_HISTORY: Final = timedelta(days=30)
MAX_LARGEST: Final = 10


@dataclass(frozen=True, slots=True)
class WarehouseCounts:
    """Numbers of live objects of one warehouse, as its last statistics recorded them."""

    warehouse: Warehouse
    tables: int
    views: int
    generic_tables: int


@dataclass(frozen=True, slots=True)
class FailedTask:
    id: UUID
    queue: str
    name: tuple[str, ...]
    warehouse_id: UUID
    attempt: int
    message: str


@dataclass(frozen=True, slots=True)
class Size:
    """The sum over warehouses at the end of an hour."""

    hour: datetime
    records: int
    files_size: int


@dataclass(frozen=True, slots=True)
class Overview:
    """`counts` are of the warehouses in which the caller sees everything; of `partly_visible` ones only some objects.

    With `has_more` there are further warehouses than those that were looked at.
    """

    counts: tuple[WarehouseCounts, ...]
    partly_visible: tuple[Warehouse, ...]
    has_more: bool
    failed_tasks: tuple[FailedTask, ...]
    has_more_failed_tasks: bool
    expiring_soon: int
    sizes: tuple[Size, ...]
    largest: tuple[LargeTable, ...]

    @property
    def warehouses(self) -> int:
        return len(self.counts) + len(self.partly_visible)

    @property
    def tables(self) -> int:
        return sum(each.tables for each in self.counts)

    @property
    def views(self) -> int:
        return sum(each.views for each in self.counts)

    @property
    def generic_tables(self) -> int:
        return sum(each.generic_tables for each in self.counts)


def get_overview_for(*, actor: Actor, projects: Sequence[Project]) -> Overview:
    """Return the overview of the warehouses of `projects` that `actor` may see.

    Seven statements and one permission check, however many warehouses there are. Counts are those of whole warehouses,
    and so only for callers who may list everything in one; tasks likewise.
    """
    found = list(
        Warehouse.objects.using(settings.READ_DATABASE)
        .filter(project__in=projects)
        .order_by("id")[: MAX_WAREHOUSES + 1]
    )
    refs = [ObjectRef(Securable.Type.WAREHOUSE, each.pk) for each in found[:MAX_WAREHOUSES]]
    wanted = (Can.INCLUDE_IN_LIST, Can.LIST_EVERYTHING, Can.GET_ALL_TASKS)
    decisions = check_permissions(actor, [(action, ref) for ref in refs for action in wanted])
    whole, partly, with_tasks = [], [], []
    for number, warehouse in enumerate(found[:MAX_WAREHOUSES]):
        is_visible, sees_everything, sees_tasks = decisions[number * len(wanted) : (number + 1) * len(wanted)]
        if sees_everything:
            whole.append(warehouse)
        elif is_visible:
            partly.append(warehouse)
        if sees_tasks:
            with_tasks.append(warehouse.pk)
    failed = _failed_tasks(with_tasks)
    return Overview(
        counts=_counts(whole),
        partly_visible=tuple(partly),
        has_more=len(found) > MAX_WAREHOUSES,
        failed_tasks=tuple(failed[:MAX_SHOWN_TASKS]),
        has_more_failed_tasks=len(failed) > MAX_SHOWN_TASKS,
        expiring_soon=_expiring_soon(with_tasks),
        sizes=_sizes(whole),
        largest=_largest(whole),
    )


def _counts(warehouses: Sequence[Warehouse]) -> tuple[WarehouseCounts, ...]:
    """Return the current counts of small warehouses, and those of the last recorded hour of large ones."""
    rows = WarehouseStatistic.objects.using(settings.READ_DATABASE).filter(warehouse__in=warehouses)
    newest = WarehouseStatistic.objects.filter(warehouse=OuterRef("warehouse")).order_by("-hour").values("hour")[:1]
    found = {
        row.warehouse_id: (row.tables, row.views, row.generic_tables) for row in rows.filter(hour=Subquery(newest))
    }
    if small := [each.pk for each in warehouses if sum(found.get(each.pk, ())) <= MAX_COUNTED]:
        found |= _current_counts(small)
    return tuple(WarehouseCounts(each, *found[each.pk]) for each in warehouses)


def _current_counts(warehouse_ids: Sequence[UUID]) -> dict[UUID, tuple[int, int, int]]:
    rows = Tabular.objects.using(settings.READ_DATABASE).live().filter(warehouse__in=warehouse_ids)
    counts = Counter[tuple[UUID, str]]()
    for warehouse_id, kind, number in rows.values_list("warehouse_id", "kind").annotate(number=Count("pk")):
        counts[warehouse_id, kind] = number
    kinds = (Tabular.Kind.TABLE, Tabular.Kind.VIEW, Tabular.Kind.GENERIC_TABLE)
    return {each: tuple(counts[each, kind.value] for kind in kinds) for each in warehouse_ids}  # type: ignore[misc]


def _failed_tasks(warehouse_ids: Sequence[UUID]) -> list[FailedTask]:
    rows = Task.objects.using(settings.READ_DATABASE).filter(warehouse_id__in=warehouse_ids, status=Task.Status.FAILED)
    return [
        FailedTask(row.pk, row.queue, tuple(row.entity_name), row.warehouse_id, row.attempt, row.message)
        for row in rows.order_by("-created_at", "-id")[: MAX_SHOWN_TASKS + 1]
    ]


def _expiring_soon(warehouse_ids: Sequence[UUID]) -> int:
    """Return how many dropped objects can only be restored for another day, at most 1,000."""
    rows = Task.objects.using(settings.READ_DATABASE).filter(
        queue=Task.Queue.SOFT_DELETION,
        status=Task.Status.SCHEDULED,
        scheduled_for__lt=now() + EXPIRES_SOON,
        warehouse_id__in=warehouse_ids,
    )
    return len(rows.values_list("pk")[:1000])


def _sizes(warehouses: Sequence[Warehouse]) -> tuple[Size, ...]:
    """Return the sums at the end of each of the last 30 days, and the last ones recorded.

    An hour is recorded only for warehouses that changed in it: each sum has the last row of each warehouse until then.
    """
    rows = WarehouseSize.objects.using(settings.READ_DATABASE).filter(warehouse__in=warehouses)
    first = now() - SIZE_HISTORY
    older = rows.filter(hour__lt=first).values("warehouse_id").annotate(newest=Max("hour")).values("newest")
    wanted = rows.filter(Q(hour__gte=first) | Q(hour__in=older)).order_by("hour")
    last: dict[UUID, tuple[int, int]] = {}
    by_day: dict[date, Size] = {}
    for warehouse_id, hour, records, size in wanted.values_list("warehouse_id", "hour", "records", "files_size"):
        last[warehouse_id] = (records, size)
        total_records, total_size = (sum(values) for values in zip(*last.values(), strict=True))
        by_day[hour.date()] = Size(hour, total_records, total_size)
    return tuple(by_day.values())


def _largest(warehouses: Sequence[Warehouse]) -> tuple[LargeTable, ...]:
    rows = LargeTable.objects.using(settings.READ_DATABASE).filter(
        warehouse__in=warehouses, rank__lte=MAX_LARGEST, tabular__deleted_at=None
    )
    return tuple(rows.select_related("tabular__namespace", "warehouse").order_by("-files_size", "pk")[:MAX_LARGEST])
