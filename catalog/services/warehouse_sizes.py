"""Sizes of warehouses and their largest tables, recorded once an hour from the totals that commits keep."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, Model, OuterRef

from catalog.models import LargeTable, WarehouseSize
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import BATCH, delete_in_batches
from icekeeper.kernel.db.sql import as_uuid, fetch_all
from tenancy.actor import Actor

LARGEST: Final = 50
"""Tables of a warehouse that are kept as its largest."""


class MeasuredSizes(NamedTuple):
    """What is to be recorded of a project: sizes of warehouses that changed, and their largest tables if those did."""

    sizes: list[tuple[UUID, int, int, int, int]]
    largest: dict[UUID, list[tuple[UUID, int | None, int, int | None]]]


def sum_of(column: str) -> str:
    """Return the sum of a column as a bigint. Writers may claim any number: sums stop at 4 * 10^18."""
    total = f"coalesce(sum(CAST({column} AS double precision)), 0)"
    return f"CAST(CASE WHEN {total} < 4e18 THEN {total} ELSE 4e18 END AS bigint)"


_CHANGED_SIZES: Final = f"""
SELECT c.id, c.records, c.files_size, c.data_files, c.snapshots
  FROM (SELECT w.id,
               {sum_of("m.records")} AS records,
               {sum_of("m.files_size")} AS files_size,
               {sum_of("m.data_files")} AS data_files,
               {sum_of("m.snapshot_count")} AS snapshots
          FROM storage_warehouse w
          LEFT JOIN catalog_tabular t ON t.warehouse_id = w.id AND t.kind = 'table' AND t.deleted_at IS NULL
          LEFT JOIN catalog_tabletotals m ON m.tabular_id = t.id
         WHERE w.project_id = %s
         GROUP BY w.id) c
  LEFT JOIN catalog_warehousesize s
    ON s.warehouse_id = c.id
   AND s.hour = (SELECT max(hour) FROM catalog_warehousesize WHERE warehouse_id = c.id)
 WHERE s.id IS NULL OR s.records <> c.records OR s.files_size <> c.files_size OR s.data_files <> c.data_files
    OR coalesce(s.snapshots, -1) <> c.snapshots
 ORDER BY c.id
"""  # noqa: S608 - constants

_LARGEST: Final = """
SELECT r.warehouse_id, r.id, r.records, r.files_size, r.data_files
  FROM (SELECT t.warehouse_id, t.id, m.records, m.files_size, m.data_files,
               row_number() OVER (PARTITION BY t.warehouse_id ORDER BY m.files_size DESC, t.id) AS rank
          FROM storage_warehouse w
          JOIN catalog_tabular t ON t.warehouse_id = w.id AND t.kind = 'table' AND t.deleted_at IS NULL
          JOIN catalog_tabletotals m ON m.tabular_id = t.id
         WHERE w.project_id = %s AND m.files_size > 0) r
 WHERE r.rank <= %s
 ORDER BY r.warehouse_id, r.rank
"""

_RECORDED_LARGEST: Final = """
SELECT l.warehouse_id, l.tabular_id, l.records, l.files_size, l.data_files
  FROM catalog_largetable l JOIN storage_warehouse w ON w.id = l.warehouse_id
 WHERE w.project_id = %s
 ORDER BY l.warehouse_id, l.rank
"""


def measure_sizes(project_id: str) -> MeasuredSizes:
    """Return what changed since the last recorded hour; three statements, which read the totals of all tables.

    To be called outside of the transaction of `record_sizes`, in which no other client writes to SQLite.
    """
    sizes = [(as_uuid(key), *numbers) for key, *numbers in fetch_all("default", _CHANGED_SIZES, [project_id])]
    found = _by_warehouse(_LARGEST, [project_id, LARGEST])
    recorded = _by_warehouse(_RECORDED_LARGEST, [project_id])
    changed = {key: found.get(key, []) for key in found.keys() | recorded.keys() if found.get(key) != recorded.get(key)}
    return MeasuredSizes(sizes, changed)


def _by_warehouse(statement: str, params: list[object]) -> dict[UUID, list[tuple[UUID, int | None, int, int | None]]]:
    found: dict[UUID, list[tuple[UUID, int | None, int, int | None]]] = {}
    for warehouse, table, records, files_size, data_files in fetch_all("default", statement, params):
        found.setdefault(as_uuid(warehouse), []).append((as_uuid(table), records, files_size, data_files))
    return found


def record_sizes(measured: MeasuredSizes, hour: datetime) -> None:
    """Record the measured sizes for `hour`, and replace the largest tables; in the caller's transaction."""
    columns = ["records", "files_size", "data_files", "snapshots"]
    WarehouseSize.objects.bulk_create(
        [
            WarehouseSize(warehouse_id=key, hour=hour, **dict(zip(columns, numbers, strict=True)))
            for key, *numbers in measured.sizes
        ],
        update_conflicts=True,
        unique_fields=["warehouse", "hour"],
        update_fields=columns,
    )
    if not measured.largest:
        return
    LargeTable.objects.filter(warehouse_id__in=measured.largest).delete()
    LargeTable.objects.bulk_create(
        LargeTable(
            warehouse_id=key, rank=rank, tabular_id=table, records=records, files_size=files_size, data_files=data_files
        )
        for key, tables in measured.largest.items()
        for rank, (table, records, files_size, data_files) in enumerate(tables, start=1)
    )


def delete_old_warehouse_sizes(*, actor: Actor, batch: int = BATCH) -> int:
    """Delete the rows that are older than the retention of endpoint statistics; return their number.

    The newest of them is kept for each warehouse: it is the size until the next change, which may still be to come.
    """
    return delete_old_hours(WarehouseSize, batch=batch)


def delete_old_hours(model: type[Model], *, batch: int) -> int:
    """Delete hourly rows of warehouses that are older than the retention, but for the newest of each warehouse."""
    rows = model._default_manager  # noqa: SLF001 - Django's own name for it
    oldest = now() - timedelta(seconds=settings.ICEKEEPER.endpoint_stat_retention)
    newer = rows.filter(warehouse=OuterRef("warehouse"), hour__gt=OuterRef("hour"), hour__lt=oldest)
    return delete_in_batches(rows.filter(Exists(newer), hour__lt=oldest), batch=batch)
