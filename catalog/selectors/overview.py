"""What the overview of the console shows of warehouses: counts of objects, tasks that failed, and drops that expire."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError
from django.db.models import F, OuterRef, Q, Subquery, Window
from django.db.models.functions import RowNumber, TruncDate

from catalog.models import LargeTable, Tabular, WarehouseSize, WarehouseStatistic
from catalog.selectors.overview_operations import LatestChange, QueueHealth, list_latest_changes, list_queue_health
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_uuid, fetch_all
from storage.models import Warehouse
from tasks.models import Task
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef

R = TypeVar("R")

logger = logging.getLogger("icekeeper.console")

MAX_WAREHOUSES: Final = 1_000
"""Warehouses that an overview counts; further ones are left out, and the page says so."""

MAX_COUNTED: Final = 20_000
"""Objects that one page counts, in all warehouses together; numbers of further ones are those recorded last."""

MAX_SHOWN_TASKS: Final = 3
SIZE_HISTORY: Final = timedelta(days=30)
MAX_LARGEST: Final = 10


@dataclass(frozen=True, slots=True)
class WarehouseCounts:
    """Numbers of live objects of one warehouse; None where they are unknown."""

    warehouse: Warehouse
    tables: int | None
    views: int | None
    generic_tables: int | None


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
    """`counts` has the warehouses in which the caller sees everything, `partly_visible` those with only some of it.

    With `has_more` there are further warehouses than those that were looked at.
    """

    counts: tuple[WarehouseCounts, ...]
    partly_visible: tuple[Warehouse, ...]
    has_more: bool
    failed_tasks: tuple[FailedTask, ...]
    expiring_soon: int
    queues: tuple[QueueHealth, ...]
    changes: tuple[LatestChange, ...]
    failed_blocks: frozenset[str]
    """Names of the parts that could not be read; they are empty."""
    sizes: tuple[Size, ...]
    largest: tuple[LargeTable, ...]

    @property
    def warehouses(self) -> int:
        return len(self.counts) + len(self.partly_visible)

    @property
    def tables(self) -> int:
        return sum(each.tables or 0 for each in self.counts)

    @property
    def views(self) -> int:
        return sum(each.views or 0 for each in self.counts)

    @property
    def generic_tables(self) -> int:
        return sum(each.generic_tables or 0 for each in self.counts)


def get_overview_for(*, actor: Actor, projects: Sequence[Project]) -> Overview:
    """Return the overview of the warehouses of `projects` that `actor` may see.

    At most eight statements and one permission check, however many warehouses there are. Counts are those of whole
    warehouses, and so only for callers with the permission to list everything in one; tasks likewise.
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
    ids, failures = [each.pk for each in whole], set[str]()

    def read(block: str, function: Callable[[Sequence[Any]], Sequence[R]], of: Sequence[Any]) -> tuple[R, ...]:
        try:
            return tuple(function(of))
        except DatabaseError:
            logger.exception("a part of the overview could not be read: %s", block)
            failures.add(block)
            return ()

    failed = read("tasks", _failed_tasks, with_tasks)
    queues = read("queues", list_queue_health, with_tasks)
    sizes = read("sizes", _sizes, whole)
    counts, largest = read("counts", _counts, whole), read("largest", _largest, whole)
    changes = read("changes", list_latest_changes, ids)
    return Overview(
        counts=counts,
        partly_visible=tuple(partly),
        has_more=len(found) > MAX_WAREHOUSES,
        failed_tasks=failed[:MAX_SHOWN_TASKS],
        expiring_soon=sum(each.expiring_soon for each in queues),
        queues=queues,
        changes=changes,
        failed_blocks=frozenset(failures),
        sizes=sizes,
        largest=largest,
    )


def _counts(warehouses: Sequence[Warehouse]) -> tuple[WarehouseCounts, ...]:
    """Return current counts of the smallest warehouses, as far as `MAX_COUNTED` allows, and recorded ones of others.

    Warehouses are small or large by their recorded counts; those without any come first. Of a warehouse that was not
    counted to the end, the last recorded counts are returned, or None if there are none.
    """
    newest = WarehouseStatistic.objects.filter(warehouse=OuterRef("pk")).order_by("-hour").values("pk")[:1]
    # By warehouse and not by row: the database looks up the newest row of each warehouse, and reads no other.
    ids = Warehouse.objects.filter(pk__in=[each.pk for each in warehouses]).values_list(Subquery(newest))
    found: dict[UUID, tuple[int | None, ...]] = {}
    sizes = dict.fromkeys((each.pk for each in warehouses), 0)
    for row in WarehouseStatistic.objects.using(settings.READ_DATABASE).filter(pk__in=ids):
        found[row.warehouse_id] = (row.tables, row.views, row.generic_tables)
        sizes[row.warehouse_id] = row.tables + row.views + row.generic_tables
    small, remaining = [], MAX_COUNTED
    for warehouse_id, size in sorted(sizes.items(), key=lambda item: item[1]):
        remaining -= size
        if remaining < 0:
            break
        small.append(warehouse_id)
    found |= _current_counts(small)
    return tuple(WarehouseCounts(each, *found.get(each.pk, (None, None, None))) for each in warehouses)


# The order is that of the index `tabular_by_kind`, so that at most LIMIT rows of it are read.
_COUNT_CURRENT: Final = """
SELECT warehouse_id, kind, count(*)
  FROM (SELECT warehouse_id, kind
          FROM catalog_tabular
         WHERE warehouse_id = ANY(%s) AND deleted_at IS NULL
         ORDER BY warehouse_id, kind
         LIMIT %s) t
 GROUP BY warehouse_id, kind
"""


def _current_counts(warehouse_ids: Sequence[UUID]) -> dict[UUID, tuple[int, ...]]:
    """Count the first `MAX_COUNTED` objects in the order of warehouses; leave out those not counted to the end."""
    if not warehouse_ids:
        return {}
    counts = Counter[tuple[UUID, str]]()
    for warehouse_id, kind, number in fetch_all(
        settings.READ_DATABASE, _COUNT_CURRENT, [list(warehouse_ids), MAX_COUNTED + 1]
    ):
        counts[as_uuid(warehouse_id), kind] = number
    complete = warehouse_ids
    if counts.total() > MAX_COUNTED:
        last = max(warehouse_id for warehouse_id, _ in counts)
        complete = [each for each in warehouse_ids if each < last]
    kinds = (Tabular.Kind.TABLE, Tabular.Kind.VIEW, Tabular.Kind.GENERIC_TABLE)
    return {each: tuple(counts[each, kind.value] for kind in kinds) for each in complete}


def _failed_tasks(warehouse_ids: Sequence[UUID]) -> list[FailedTask]:
    rows = Task.objects.using(settings.READ_DATABASE).filter(warehouse_id__in=warehouse_ids, status=Task.Status.FAILED)
    return [
        FailedTask(row.pk, row.queue, tuple(row.entity_name), row.warehouse_id, row.attempt, row.message)
        for row in rows.order_by("-created_at", "-id")[: MAX_SHOWN_TASKS + 1]
    ]


def _sizes(warehouses: Sequence[Warehouse]) -> tuple[Size, ...]:
    """Return the sums at the start of the last 30 days, at the end of each day with a change, and now.

    An hour is recorded only for warehouses that changed in it: each sum has the last row of each warehouse until then.
    The period starts at midnight, so that a day has no rows both before it and in it.
    """
    end = now()
    first = end.replace(hour=0, minute=0, second=0, microsecond=0) - SIZE_HISTORY
    older = WarehouseSize.objects.filter(warehouse=OuterRef("pk"), hour__lt=first).order_by("-hour").values("pk")[:1]
    seeds = Warehouse.objects.filter(pk__in=[each.pk for each in warehouses]).values_list(Subquery(older))
    by_age = Window(
        RowNumber(), partition_by=[F("warehouse"), TruncDate("hour", tzinfo=UTC)], order_by=F("hour").desc()
    )
    rows = (
        WarehouseSize.objects.using(settings.READ_DATABASE)
        .filter(Q(hour__gte=first) | Q(pk__in=seeds), warehouse__in=warehouses)
        .annotate(by_age=by_age)
        .filter(by_age=1)
        .order_by("hour")
    )
    last: dict[UUID, tuple[int, int]] = {}
    total_records, total_size = 0, 0
    by_day: dict[date | None, Size] = {}
    columns = ("warehouse_id", "hour", "records", "files_size")
    for warehouse_id, hour, records, size in rows.values_list(*columns):
        old_records, old_size = last.get(warehouse_id, (0, 0))
        last[warehouse_id] = (records, size)
        total_records += records - old_records
        total_size += size - old_size
        day = hour.date() if hour >= first else None
        by_day[day] = Size(max(hour, first), total_records, total_size)
    if by_day and end.date() not in by_day:
        by_day[end.date()] = Size(end, total_records, total_size)
    return tuple(by_day.values())


def _largest(warehouses: Sequence[Warehouse]) -> tuple[LargeTable, ...]:
    """Return the largest tables that exist: the inner join leaves out rows whose table was deleted meanwhile."""
    rows = LargeTable.objects.using(settings.READ_DATABASE).filter(
        warehouse__in=warehouses, rank__lte=MAX_LARGEST, tabular__deleted_at=None
    )
    return tuple(rows.select_related("tabular__namespace", "warehouse").order_by("-files_size", "pk")[:MAX_LARGEST])
