"""What overviews in the console show of warehouses: numbers, rankings, tasks, changes, and grants that expire."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError
from django.db.models import Exists, OuterRef, Q, Subquery

from catalog.models import Tabular, WarehouseStatistic
from catalog.selectors.overview_history import History, read_history
from catalog.selectors.overview_operations import LatestChange, QueueHealth, list_latest_changes, list_queue_health
from catalog.selectors.overview_rankings import Rankings, read_rankings
from icekeeper.kernel.db.sql import as_uuid, fetch_all
from icekeeper.kernel.errors.types import Forbidden
from storage.models import Warehouse
from storage.selectors import candidate_warehouses
from tasks.models import NO_ID, Task
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions, is_allowed, visible_objects
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.expiring_grants import ExpiringGrants, find_expiring_grants
from tenancy.selectors.projects import server_ref

R = TypeVar("R")

logger = logging.getLogger("icekeeper.console")

MAX_WAREHOUSES: Final = 1_000
"""With one more visible warehouse, an overview says that further ones are left out."""

MAX_COUNTED: Final = 20_000
"""Objects that one page counts, in all warehouses together; numbers of further ones are those recorded last."""

MAX_SHOWN_TASKS: Final = 3
_ON_PROJECTS: Final = (Can.READ_AUDIT, Can.READ_GRANTS, Can.GET_PROJECT_TASKS)
_ON_WAREHOUSES: Final = (Can.INCLUDE_IN_LIST, Can.LIST_EVERYTHING, Can.GET_ALL_TASKS, Can.CHANGE_OWNERSHIP)


@dataclass(frozen=True, slots=True)
class WarehouseCounts:
    """Numbers of live objects of one warehouse; None where they are unknown."""

    warehouse: Warehouse
    tables: int | None
    views: int | None
    generic_tables: int | None


@dataclass(frozen=True, slots=True)
class FailedTask:
    """`warehouse_id` is `NO_ID` for a task of a project itself, which alone has a `project_name`."""

    id: UUID
    queue: str
    name: tuple[str, ...]
    project_id: str
    project_name: str
    warehouse_id: UUID
    attempt: int
    message: str


@dataclass(frozen=True, slots=True)
class Overview:
    """`counts` has the warehouses in which the caller sees everything, `partly_visible` those with only some of it.

    With `has_more` there are further warehouses that the caller may see.
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
    history: History
    rankings: Rankings
    expiring_grants: ExpiringGrants | None

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


def get_overview_for(*, actor: Actor, projects: Sequence[Project], moments: Sequence[datetime]) -> Overview:
    """Return the overview of the warehouses of `projects` that `actor` may see, with numbers at those moments.

    At most nine statements, two more for more than `MAX_WAREHOUSES`, and one call of the authorizer. Counts are those
    of whole warehouses, and so only for callers with the permission to list everything in one; tasks likewise.
    """
    warehouses = Warehouse.objects.using(settings.READ_DATABASE).filter(project__in=projects).order_by("id")
    found = list(warehouses[: MAX_WAREHOUSES + 1])
    if len(found) > MAX_WAREHOUSES:  # those that the caller may see, which can be others
        found = list(warehouses.filter(candidate_warehouses(visible_objects(actor)))[: MAX_WAREHOUSES + 1])
    visible = _check(actor, found, [each.pk for each in projects])
    return _read(visible, moments, has_more=len(visible.whole) + len(visible.partly) > MAX_WAREHOUSES)


def get_warehouse_overview_for(*, actor: Actor, warehouse: Warehouse, moments: Sequence[datetime]) -> Overview:
    """Return the same of one warehouse, which the caller has read on behalf of `actor`. At most eight statements."""
    return _read(_check(actor, [warehouse], [warehouse.project_id]), moments, has_more=False)


def read_history_of_warehouse_for(*, actor: Actor, warehouse: Warehouse, moments: Sequence[datetime]) -> History:
    """Return the recorded numbers alone, of a warehouse that the caller has read. Raises `Forbidden`."""
    if not is_allowed(actor, Can.LIST_EVERYTHING, Securable.Type.WAREHOUSE, warehouse.pk):
        raise Forbidden("You do not have the permission to list everything in this warehouse")
    return read_history([(warehouse.pk, warehouse.created_at)], [warehouse.project_id], moments)


@dataclass(slots=True)
class _Visible:
    """What a caller may see of warehouses, and the ids of the projects whose own tasks they may see.

    The last two are securables: projects whose own grants may be read, and warehouses in which all grants may be
    managed."""

    whole: list[Warehouse] = field(default_factory=list)
    partly: list[Warehouse] = field(default_factory=list)
    with_tasks: list[UUID] = field(default_factory=list)
    projects_with_tasks: list[str] = field(default_factory=list)
    with_actors: set[UUID] = field(default_factory=set)
    projects_with_grants: list[str] = field(default_factory=list)
    warehouses_with_grants: list[str] = field(default_factory=list)


def _check(actor: Actor, warehouses: Sequence[Warehouse], project_ids: Sequence[str]) -> _Visible:
    of_projects = [ObjectRef(Securable.Type.PROJECT, each) for each in project_ids]
    of_warehouses = [ObjectRef(Securable.Type.WAREHOUSE, each.pk) for each in warehouses]
    checks = [
        (Can.READ_AUDIT, server_ref()),
        *((action, ref) for ref in of_projects for action in _ON_PROJECTS),
        *((action, ref) for ref in of_warehouses for action in _ON_WAREHOUSES),
    ]
    decisions = iter(check_permissions(actor, checks))
    audits_all = next(decisions)
    audited = set[str]()
    visible = _Visible()
    for project_id in project_ids:
        is_audited, reads_grants, sees_tasks = (next(decisions) for _ in _ON_PROJECTS)
        if is_audited or audits_all:
            audited.add(project_id)
        if sees_tasks:
            visible.projects_with_tasks.append(project_id)
        if reads_grants:
            visible.projects_with_grants.append(securable_id(Securable.Type.PROJECT, project_id))
    for warehouse in warehouses:
        is_visible, sees_everything, sees_tasks, manages_grants = (next(decisions) for _ in _ON_WAREHOUSES)
        if sees_everything:
            visible.whole.append(warehouse)
        elif is_visible:
            visible.partly.append(warehouse)
        if sees_tasks:
            visible.with_tasks.append(warehouse.pk)
        if warehouse.project_id in audited:
            visible.with_actors.add(warehouse.pk)
        if manages_grants and warehouse.status == Warehouse.Status.ACTIVE:
            visible.warehouses_with_grants.append(securable_id(Securable.Type.WAREHOUSE, warehouse.pk))
    return visible


def _read(visible: _Visible, moments: Sequence[datetime], *, has_more: bool) -> Overview:
    whole, ids, failures = visible.whole, [each.pk for each in visible.whole], set[str]()

    def read(block: str, function: Callable[[], R], empty: R) -> R:
        try:
            return function()
        except DatabaseError:
            logger.exception("a part of the overview could not be read: %s", block)
            failures.add(block)
            return empty

    ages = [(each.pk, each.created_at) for each in whole]
    project_ids = sorted({each.project_id for each in whole})
    failed = read("tasks", lambda: _failed_tasks(visible.with_tasks, visible.projects_with_tasks), list[FailedTask]())
    queues = read("queues", lambda: list_queue_health(visible.with_tasks), list[QueueHealth]())
    return Overview(
        counts=read("counts", lambda: _counts(whole), ()),
        partly_visible=tuple(visible.partly),
        has_more=has_more,
        failed_tasks=tuple(failed[:MAX_SHOWN_TASKS]),
        expiring_soon=sum(each.expiring_soon for each in queues),
        queues=tuple(queues),
        changes=tuple(read("changes", lambda: list_latest_changes(ids, visible.with_actors), [])),
        history=read("history", lambda: read_history(ages, project_ids, moments), History()),
        rankings=read("rankings", lambda: read_rankings(ids), Rankings()),
        expiring_grants=read(
            "grants",
            lambda: find_expiring_grants(visible.projects_with_grants, visible.warehouses_with_grants),
            None,
        ),
        failed_blocks=frozenset(failures),
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


def _failed_tasks(warehouse_ids: Sequence[UUID], project_ids: Sequence[str]) -> list[FailedTask]:
    """Return failed tasks of those warehouses and projects, newest first. One statement.

    A task of a project that failed is replaced by a new one: when that has succeeded, nothing needs attention any more.
    """
    of_project = Task.objects.filter(warehouse_id=NO_ID, project_id=OuterRef("project_id"), queue=OuterRef("queue"))
    recovered = Exists(of_project.filter(status=Task.Status.SUCCESS, created_at__gt=OuterRef("created_at")))
    # The index `task_by_status` finds both kinds by their warehouse.
    failed = Task.objects.using(settings.READ_DATABASE).filter(
        ~Q(warehouse_id=NO_ID) | (Q(project_id__in=project_ids) & ~recovered),
        warehouse_id__in=[*warehouse_ids, *([NO_ID] if project_ids else [])],
        status=Task.Status.FAILED,
    )
    name = Subquery(Project.objects.filter(pk=OuterRef("project_id")).values("name")[:1])
    return [
        FailedTask(
            row.pk, row.queue, tuple(row.entity_name), row.project_id,
            (row.project_name or "") if row.warehouse_id == NO_ID else "",  # type: ignore[attr-defined]  # annotated
            row.warehouse_id, row.attempt, row.message,
        )
        for row in failed.annotate(project_name=name).order_by("-created_at", "-id")[: MAX_SHOWN_TASKS + 1]
    ]  # fmt: skip
