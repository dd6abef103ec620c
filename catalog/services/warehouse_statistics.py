"""Warehouse statistics: hourly counts of tables, views and generic tables, recorded by the queue `statistics`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from catalog.models import Tabular, WarehouseSize, WarehouseStatistic
from catalog.selectors.warehouses import require_on_warehouse
from catalog.services.missing_totals import fill_missing_totals
from catalog.services.slow_tables import measure_slow_tables, record_slow_tables
from catalog.services.warehouse_sizes import delete_old_hours, measure_sizes, record_sizes
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import BATCH
from icekeeper.kernel.db.sql import batches, database_time, execute, fetch_all
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.errors.types import InvalidPageToken
from icekeeper.kernel.http.paging import Page, build_page
from storage.models import Warehouse
from tasks.models import Task
from tasks.queue.enqueue import enqueue_for_projects
from tasks.queue.leases import Lease
from tasks.queue.wake import wake_workers
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import are_allowed
from tenancy.authz.port import authorizer
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class CountsOfAnHour:
    """Counts at the end of the hour that starts at `hour`, or current counts for the current hour.

    They last changed at `updated_at`.
    """

    hour: datetime
    tables: int
    views: int
    generic_tables: int
    updated_at: datetime


def beginning_of_hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def list_warehouse_statistics_for(
    *, actor: Actor, warehouse_id: UUID, page: Page
) -> tuple[list[CountsOfAnHour], str | None]:
    """List the hours in which counts changed, newest first, and the next page's token.

    The first one is the current hour with current counts. Callers without the permission to list everything in the
    warehouse get only this hour, with the counts of what they see. Raises `NoSuchWarehouse`, `Forbidden`.
    """
    (sees_everything,) = require_on_warehouse(actor, warehouse_id, Can.GET_METADATA, [Can.LIST_EVERYTHING])
    before, limit = _before(page), page.sql_limit  # wrong parameters are errors for every caller
    if not sees_everything:
        return ([] if before is not None else [_counts_now(_count_seen(actor, warehouse_id))]), None
    rows = WarehouseStatistic.objects.using(settings.READ_DATABASE).filter(warehouse_id=warehouse_id)
    if before is not None:
        rows = rows.filter(hour__lt=before)
    found = [_counts_of(row) for row in rows.order_by("-hour")[:limit]]
    if before is None:
        current = _counts_now(_count_by_kind(_living(warehouse_id)), found[0] if found else None)
        found = [current, *(each for each in found if each.hour < current.hour)]
    return build_page([(each.hour.isoformat(), each) for each in found], page)


def _before(page: Page) -> datetime | None:
    key = page.after_key()
    if not key:
        return None
    try:
        before = datetime.fromisoformat(key)
    except ValueError:
        before = None
    if before is None or before.tzinfo is None or not 1970 <= before.year < 9000:  # noqa: PLR2004
        raise InvalidPageToken("Invalid page token")
    return before


def _counts_of(row: WarehouseStatistic) -> CountsOfAnHour:
    return CountsOfAnHour(row.hour, row.tables, row.views, row.generic_tables, row.updated_at)


def _living(warehouse_id: UUID) -> QuerySet[Tabular]:
    return Tabular.objects.using(settings.READ_DATABASE).in_warehouse(warehouse_id).live()


def _count_by_kind(tabulars: QuerySet[Tabular]) -> dict[str, int]:
    return dict(tabulars.order_by().values_list("kind").annotate(Count("pk")))


def _count_seen(actor: Actor, warehouse_id: UUID) -> Counter[str]:
    """Count the tabulars of each kind that `actor` sees.

    In namespaces where they may list everything, all tabulars count, elsewhere the visible ones. The number of
    statements does not depend on the number of namespaces; it grows by one for each `BATCH_SIZE` visible tabulars.
    """
    seen, partial = Counter[str](), dict[str, list[ObjectRef]]()
    counted = _living(warehouse_id).order_by().values_list("namespace_id", "kind").annotate(Count("pk"))
    by_namespace: dict[UUID, dict[str, int]] = {}
    for namespace_id, kind, count in counted:
        by_namespace.setdefault(namespace_id, {})[kind] = count
    namespaces: list[ObjectRef] = [ObjectRef(Securable.Type.NAMESPACE, each) for each in by_namespace]
    allowed = are_allowed(actor, Can.LIST_EVERYTHING, namespaces)
    for namespace, counts, is_seen in zip(namespaces, by_namespace.values(), allowed, strict=True):
        if is_seen:
            seen.update(counts)
        else:
            for kind in counts:
                partial.setdefault(kind, []).append(namespace)
    for kind, parents in partial.items():
        shown = authorizer().all_visible_of(actor, parents=parents, child_type=Securable.Type(kind))
        ids = [UUID(int=each) for each in shown]
        for batch in batches(ids, BATCH_SIZE):
            ((count,),) = fetch_all(settings.READ_DATABASE, _COUNT_LIVING, [warehouse_id, kind, batch])
            seen[kind] += count
    return seen


# Soft-deleted tabulars keep their grants: they are visible, but do not count.
_COUNT_LIVING: Final = """
SELECT count(*) FROM catalog_tabular WHERE warehouse_id = %s AND kind = %s AND deleted_at IS NULL AND id = ANY(%s)
"""
BATCH_SIZE: Final = 50_000
"""Ids in one statement."""


def _counts_now(by_kind: Mapping[str, int], last: CountsOfAnHour | None = None) -> CountsOfAnHour:
    at = now()
    tables, views, generic_tables = (by_kind.get(kind.value, 0) for kind in _KINDS)
    is_as_before = last is not None and (last.tables, last.views, last.generic_tables) == (
        tables,
        views,
        generic_tables,
    )
    since = last.updated_at if last is not None and is_as_before else at
    return CountsOfAnHour(beginning_of_hour(at), tables, views, generic_tables, since)


_KINDS = (Tabular.Kind.TABLE, Tabular.Kind.VIEW, Tabular.Kind.GENERIC_TABLE)


# WHERE before ON CONFLICT is needed by SQLite, which would parse the latter as a join condition otherwise.
_RECORD = """
INSERT INTO catalog_warehousestatistic (warehouse_id, hour, tables, views, generic_tables, updated_at)
SELECT c.id, %s, c.tables, c.views, c.generic_tables, %s
  FROM (SELECT w.id,
               count(*) FILTER (WHERE t.kind = 'table') AS tables,
               count(*) FILTER (WHERE t.kind = 'view') AS views,
               count(*) FILTER (WHERE t.kind = 'generic-table') AS generic_tables
          FROM storage_warehouse w
          LEFT JOIN catalog_tabular t ON t.warehouse_id = w.id AND t.deleted_at IS NULL
         WHERE w.project_id = %s
         GROUP BY w.id) c
  LEFT JOIN catalog_warehousestatistic s
    ON s.warehouse_id = c.id
   AND s.hour = (SELECT max(hour) FROM catalog_warehousestatistic WHERE warehouse_id = c.id)
 WHERE s.id IS NULL OR s.tables <> c.tables OR s.views <> c.views OR s.generic_tables <> c.generic_tables
 ORDER BY c.id
    ON CONFLICT (warehouse_id, hour) DO UPDATE SET
       tables = excluded.tables, views = excluded.views, generic_tables = excluded.generic_tables,
       updated_at = excluded.updated_at
"""


LEAD_TIME: Final = timedelta(seconds=30)
"""The time before the end of an hour at which its row is recorded: the row has the counts at that end."""

SOON: Final = timedelta(minutes=1)
"""The time from the first commits in a warehouse to the record of its size."""

MAX_DELAY: Final = timedelta(minutes=15)
"""A task that runs later than this after the end of its hour records the current hour instead."""


def record_statistics(lease: Lease, checkpoint: Callable[[], object]) -> None:
    """Execute a task of the queue `statistics`, and enqueue the next one of the project.

    The clock is that of the database, which also decides when tasks are due. `checkpoint` is called before each step
    of long work. Raises `LeaseLost`, and records nothing, if another worker has taken over.
    """
    fill_missing_totals(lease.project_id, checkpoint)
    measured, slowest = measure_sizes(lease.project_id), measure_slow_tables(lease.project_id)
    checkpoint()
    at = database_time()
    following = next_recording(at)
    with write_transaction():
        hour = hour_to_record(lease.payload.get("hour"), at)
        lease.execution_details["recorded-warehouses"] = record_hour(lease.project_id, hour, at)
        record_sizes(measured, hour)
        record_slow_tables(slowest)
        lease.finish()
        payload = {"hour": beginning_of_hour(following).isoformat()}
        enqueue_for_projects(lease.queue, [lease.project_id], scheduled_for=following, payload=payload)


def record_soon(warehouse_ids: Collection[UUID]) -> None:
    """Let the statistics of those of the warehouses that have no data recorded be recorded within a minute.

    Else the console would show no data of a new warehouse until the end of the hour. Two statements.
    """
    with_data = WarehouseSize.objects.filter(warehouse=OuterRef("pk"), files_size__gt=0)
    projects = Warehouse.objects.filter(~Exists(with_data), pk__in=warehouse_ids).values("project")
    soon = Now() + SOON
    scheduled = Task.objects.filter(queue=Task.Queue.STATISTICS, status=Task.Status.SCHEDULED, project_id__in=projects)
    if scheduled.filter(scheduled_for__gt=soon).update(scheduled_for=soon):
        wake_workers(Task.Queue.STATISTICS)


def record_hour(project_id: str, hour: datetime, at: datetime) -> int:
    """Insert a row of `hour`, with the counts at `at`, for each warehouse of a project whose last row differs.

    One statement, in the caller's transaction; it is safe to run concurrently. Returns the number of rows.
    """
    return execute(_RECORD, [hour, at, project_id])


def next_recording(at: datetime) -> datetime:
    """Return the first time after `at` at which an hour is recorded."""
    return beginning_of_hour(at + LEAD_TIME) + HOUR - LEAD_TIME


def hour_to_record(planned: str | None, at: datetime) -> datetime:
    """Return the hour of `at`, or the `planned` one if that ended less than `MAX_DELAY` before."""
    hour = None if planned is None else datetime.fromisoformat(planned)
    return hour if hour is not None and HOUR <= at - hour < HOUR + MAX_DELAY else beginning_of_hour(at)


def delete_old_warehouse_statistics(*, actor: Actor, batch: int = BATCH) -> int:
    """Delete the rows that are older than the retention of endpoint statistics; return their number.

    The newest of them is kept for each warehouse: its counts hold until the next change, which may still be to come.
    """
    return delete_old_hours(WarehouseStatistic, batch=batch)
