"""Sizes of warehouses and their largest tables, recorded once an hour from the totals that commits keep."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import Exists, OuterRef

from catalog.models import WarehouseSize
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import BATCH, delete_in_batches
from icekeeper.kernel.db.sql import execute
from tenancy.actor import Actor

LARGEST: Final = 50
"""Tables of a warehouse that are kept as its largest."""


def _sum(column: str) -> str:
    """Return the sum of a column as a bigint. Writers may claim any number: sums stop at 4 * 10^18."""
    total = f"coalesce(sum(CAST({column} AS double precision)), 0)"
    return f"CAST(CASE WHEN {total} < 4e18 THEN {total} ELSE 4e18 END AS bigint)"


# WHERE before ON CONFLICT is needed by SQLite, which would parse the latter as a join condition otherwise.
_RECORD: Final = f"""
INSERT INTO catalog_warehousesize (warehouse_id, hour, records, files_size, data_files)
SELECT c.id, %s, c.records, c.files_size, c.data_files
  FROM (SELECT w.id,
               {_sum("m.records")} AS records,
               {_sum("m.files_size")} AS files_size,
               {_sum("m.data_files")} AS data_files
          FROM storage_warehouse w
          LEFT JOIN catalog_tabular t ON t.warehouse_id = w.id AND t.kind = 'table' AND t.deleted_at IS NULL
          LEFT JOIN catalog_tabletotals m ON m.tabular_id = t.id
         WHERE w.project_id = %s
         GROUP BY w.id) c
  LEFT JOIN catalog_warehousesize s
    ON s.warehouse_id = c.id
   AND s.hour = (SELECT max(hour) FROM catalog_warehousesize WHERE warehouse_id = c.id)
 WHERE s.id IS NULL OR s.records <> c.records OR s.files_size <> c.files_size OR s.data_files <> c.data_files
 ORDER BY c.id
    ON CONFLICT (warehouse_id, hour) DO UPDATE SET
       records = excluded.records, files_size = excluded.files_size, data_files = excluded.data_files
"""  # noqa: S608 - constants

_CLEAR_LARGEST: Final = """
DELETE FROM catalog_largetable WHERE warehouse_id IN (SELECT id FROM storage_warehouse WHERE project_id = %s)
"""

_RECORD_LARGEST: Final = """
INSERT INTO catalog_largetable (warehouse_id, rank, tabular_id, records, files_size, data_files)
SELECT r.warehouse_id, r.rank, r.id, r.records, r.files_size, r.data_files
  FROM (SELECT t.warehouse_id, t.id, m.records, m.files_size, m.data_files,
               row_number() OVER (PARTITION BY t.warehouse_id ORDER BY m.files_size DESC, t.id) AS rank
          FROM storage_warehouse w
          JOIN catalog_tabular t ON t.warehouse_id = w.id AND t.kind = 'table' AND t.deleted_at IS NULL
          JOIN catalog_tabletotals m ON m.tabular_id = t.id
         WHERE w.project_id = %s AND m.files_size > 0) r
 WHERE r.rank <= %s
"""


def record_sizes(project_id: str, hour: datetime) -> None:
    """Record the sizes of a project's warehouses for `hour` where they changed, and replace their largest tables.

    Three statements in the caller's transaction, which read the totals of all tables of the project.
    """
    execute(_RECORD, [hour, project_id])
    execute(_CLEAR_LARGEST, [project_id])
    execute(_RECORD_LARGEST, [project_id, LARGEST])


def delete_old_warehouse_sizes(*, actor: Actor, batch: int = BATCH) -> int:
    """Delete the rows that are older than the retention of endpoint statistics; return their number.

    The newest of them is kept for each warehouse: it is the size until the next change, which may still be to come.
    """
    oldest = now() - timedelta(seconds=settings.ICEKEEPER.endpoint_stat_retention)
    newer = WarehouseSize.objects.filter(warehouse=OuterRef("warehouse"), hour__gt=OuterRef("hour"), hour__lt=oldest)
    return delete_in_batches(WarehouseSize.objects.filter(Exists(newer), hour__lt=oldest), batch=batch)
