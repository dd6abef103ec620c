"""The tables whose scans take longest to plan, by warehouse, recorded each hour from sums of metrics reports."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from catalog.models import SlowTable
from catalog.services.warehouse_sizes import sum_of
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_uuid, fetch_all

SLOWEST: Final = 20
"""Tables of a warehouse that are kept as its slowest."""

DAYS: Final = 7
"""UTC days whose scans count, with today."""

_FIGURES: Final = ("scans", "planning_us", "result_data_files", "result_delete_files", "result_data_bytes")

_SUMS: Final = ", ".join(f"{sum_of(f'd.{name}')} AS {name}" for name in _FIGURES)

_SLOWEST: Final = f"""
SELECT r.warehouse_id, r.tabular_id, {", ".join(f"r.{name}" for name in _FIGURES)}
  FROM (SELECT s.*, row_number() OVER (PARTITION BY s.warehouse_id
                                           ORDER BY s.planning_us / s.scans DESC, s.tabular_id) AS rank
          FROM (SELECT t.warehouse_id, d.tabular_id, {_SUMS}
                  FROM catalog_metricsday d
                  JOIN catalog_tabular t ON t.id = d.tabular_id AND t.kind = 'table' AND t.deleted_at IS NULL
                  JOIN storage_warehouse w ON w.id = t.warehouse_id
                 WHERE w.project_id = %s AND d.day > %s AND d.scans > 0 AND d.planning_us > 0
                 GROUP BY t.warehouse_id, d.tabular_id) s) r
 WHERE r.rank <= %s
 ORDER BY r.warehouse_id, r.rank
"""  # noqa: S608 - constants

_RECORDED: Final = f"""
SELECT s.warehouse_id, s.tabular_id, {", ".join(f"s.{name}" for name in _FIGURES)}
  FROM catalog_slowtable s JOIN storage_warehouse w ON w.id = s.warehouse_id
 WHERE w.project_id = %s
 ORDER BY s.warehouse_id, s.rank
"""  # noqa: S608 - constants

Rankings = dict[UUID, list[tuple[Any, ...]]]
"""The slowest tables of each warehouse: id and figures, the slowest first."""


def measure_slow_tables(project_id: str) -> Rankings:
    """Return the rankings that changed since they were recorded; two statements, which read the sums of some days.

    To be called outside of the transaction of `record_slow_tables`, in which no other client writes to SQLite.
    """
    since = now().date() - timedelta(days=DAYS)
    found = _by_warehouse(_SLOWEST, [project_id, since, SLOWEST])
    recorded = _by_warehouse(_RECORDED, [project_id])
    return {key: found.get(key, []) for key in found.keys() | recorded.keys() if found.get(key) != recorded.get(key)}


def _by_warehouse(statement: str, params: list[object]) -> Rankings:
    found: Rankings = {}
    for warehouse_id, tabular_id, *figures in fetch_all("default", statement, params):
        found.setdefault(as_uuid(warehouse_id), []).append((as_uuid(tabular_id), *figures))
    return found


def record_slow_tables(changed: Rankings) -> None:
    """Replace the rankings of these warehouses; in the caller's transaction."""
    if not changed:
        return
    SlowTable.objects.filter(warehouse_id__in=changed).delete()
    SlowTable.objects.bulk_create(
        SlowTable(warehouse_id=key, rank=rank, tabular_id=table, **dict(zip(_FIGURES, figures, strict=True)))
        for key, tables in changed.items()
        for rank, (table, *figures) in enumerate(tables, start=1)
    )
