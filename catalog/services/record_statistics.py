"""Warehouse statistics: hourly counts of tables, views and generic tables."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings

from catalog.models import WarehouseStatistic
from catalog.selectors.warehouse_statistics import beginning_of_hour
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import BATCH, delete_in_batches
from icekeeper.kernel.db.sql import execute
from icekeeper.kernel.db.transactions import write_transaction
from tenancy.actor import Actor

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


def record_warehouse_statistics(*, actor: Actor) -> int:
    """Insert the current hour for each warehouse whose counts differ from its last row; return the number of rows.

    One statement for all warehouses, atomic, and safe to run in several workers concurrently.
    """
    at = now()
    with write_transaction():
        return execute(_RECORD, [beginning_of_hour(at), at])


def delete_old_warehouse_statistics(*, actor: Actor, batch: int = BATCH) -> int:
    """Delete the rows that are older than the retention of endpoint statistics; return their number."""
    oldest = now() - timedelta(seconds=settings.ICEKEEPER.endpoint_stat_retention)
    return delete_in_batches(WarehouseStatistic.objects.filter(hour__lt=oldest), batch=batch)
