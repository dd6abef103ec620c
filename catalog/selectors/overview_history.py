"""Numbers of warehouses over time, from the rows that are recorded each hour in which they changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connections

from icekeeper.kernel.db.sql import as_datetime, fetch_all

DAY: Final = timedelta(days=1)
HISTORY: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """Sums over warehouses at a time; None where nothing was recorded before it."""

    at: datetime
    records: int | None = None
    files_size: int | None = None
    snapshots: int | None = None
    tables: int | None = None
    views: int | None = None
    generic_tables: int | None = None


@dataclass(frozen=True, slots=True)
class History:
    """`recorded_at` is when the numbers of all projects were last recorded: the oldest of these times."""

    points: tuple[HistoryPoint, ...] = ()
    recorded_at: datetime | None = None

    def at(self, moments: Sequence[datetime]) -> list[HistoryPoint]:
        """Return the points at those of the `moments` that were read."""
        wanted = set(moments)
        return [each for each in self.points if each.at in wanted]


def list_moments(end: datetime, period: timedelta = HISTORY, step: timedelta = DAY) -> list[datetime]:
    """Return the ends of the steps of a period up to `end`, in UTC, and `end`. A step is part of a day, or a day."""
    midnight = end.replace(hour=0, minute=0, second=0, microsecond=0)
    last = midnight + (end - midnight) // step * step
    return [*(last - number * step for number in reversed(range(period // step))), end]


_FIELDS: Final = ("records", "files_size", "snapshots", "tables", "views", "generic_tables")

# Hours are recorded only for warehouses that changed in them: each sum has the last row of each warehouse until then.
# With LATERAL, PostgreSQL looks it up by the index of warehouse and hour, and does not read the whole table.
_LAST_ROW: Final = {
    "postgresql": """
  LEFT JOIN LATERAL (SELECT * FROM {table} WHERE warehouse_id = w.value AND hour < p.value ORDER BY hour DESC LIMIT 1)
       {alias} ON true""",
    "sqlite": """
  LEFT JOIN {table} {alias} ON {alias}.id = (
       SELECT id FROM {table} WHERE warehouse_id = w.value AND hour < p.value ORDER BY hour DESC LIMIT 1)""",
}


def _history(vendor: str) -> str:
    """Return the statement. Writers may claim any number of rows and bytes: sums of them are floating."""
    last_row = _LAST_ROW[vendor]
    return f"""
SELECT p.value, sum(CAST(s.records AS double precision)), sum(CAST(s.files_size AS double precision)),
       sum(CAST(s.snapshots AS double precision)), sum(c.tables), sum(c.views), sum(c.generic_tables),
       (SELECT min(created_at) FROM tasks_task
         WHERE queue = 'statistics' AND finished_at IS NULL AND project_id = ANY(%s))
  FROM unnest(%s::timestamptz[]) AS p(value)
 CROSS JOIN unnest(%s::uuid[]) AS w(value)
  {last_row.format(table="catalog_warehousesize", alias="s")}
  {last_row.format(table="catalog_warehousestatistic", alias="c")}
 GROUP BY p.value
 ORDER BY p.value
"""  # noqa: S608 - constants


_HISTORY: Final = {vendor: _history(vendor) for vendor in _LAST_ROW}


def read_history(
    warehouses: Sequence[tuple[UUID, datetime]], project_ids: Sequence[str], moments: Sequence[datetime]
) -> History:
    """Return the sums over warehouses, given with the times of their creation, at each of the moments. One statement.

    Requires the permission to list everything in each. Before anything was recorded, they are zero if all of the
    warehouses are younger than the first moment, else None. Numbers were recorded when the project's next task of the
    queue `statistics` was created.
    """
    if not warehouses or not moments:
        return History()
    ids = [warehouse_id for warehouse_id, _ in warehouses]
    statement = _HISTORY[connections[settings.READ_DATABASE].vendor]
    rows = fetch_all(settings.READ_DATABASE, statement, [list(project_ids), sorted(moments), ids])
    is_new = min(created_at for _, created_at in warehouses) > min(moments)
    points: list[HistoryPoint] = []
    known: set[str] = set()
    for at, *numbers, _recorded_at in rows:
        values: dict[str, int | None] = {}
        for name, number in zip(_FIELDS, numbers, strict=True):
            if number is not None:
                known.add(name)
            values[name] = int(number) if number is not None else 0 if is_new and name not in known else None
        points.append(HistoryPoint(as_datetime(at), **values))
    return History(tuple(points), _recorded_at_of(rows, known))


def _recorded_at_of(rows: Sequence[tuple[Any, ...]], known: set[str]) -> datetime | None:
    recorded_at = rows[-1][-1] if rows and known else None
    return None if recorded_at is None else as_datetime(recorded_at)
