"""Reads of the outbox in the order of positions: filters, and batches of bounded size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import connections

from events.cloud_events import Payload, StoredEvent
from icekeeper.kernel.db.sql import as_datetime, fetch_all, fetch_one

MAX_SCANNED: Final = 20_000
"""Events that one batch compares with filters that no index has."""

MAX_BATCH_BYTES: Final = 8 * 2**20
"""Bytes of data of one batch; a single event can have more."""

_IN_NAMESPACES: Final = ("namespace:", "table:", "view:", "generic-table:")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Events that match one value of each given kind. Without values all match.

    `namespaces` are lists of levels: they match the namespace and everything in it. Names are compared as they are
    spelled in the catalog.
    """

    projects: tuple[str, ...] = ()
    warehouses: tuple[UUID, ...] = ()
    namespaces: tuple[tuple[str, ...], ...] = ()
    types: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    """Ids that clients see."""

    @property
    def is_indexed(self) -> bool:
        """Whether an index finds exactly the matching events."""
        return (
            not (self.types or self.namespaces or self.objects)
            and len(self.warehouses) + len(self.projects) <= 1
        )  # fmt: skip


class Batch(NamedTuple):
    """Matching events, and the position through which all matching ones are among them."""

    events: list[StoredEvent]
    through: int


def read_batch(
    alias: str,
    *,
    after: int,
    through: int,
    event_filter: EventFilter,
    payload: Payload,
    limit: int,
    max_bytes: int | None = None,
) -> Batch:
    """Return at most `limit` matching events with positions above `after`, at most `through`, in their order.

    Their data, which only `Payload.FULL` reads, has at most `max_bytes`, by default `MAX_BATCH_BYTES`. One statement,
    one more if an event has more than its share of these bytes, and one more if no index has the filter; then
    `MAX_SCANNED` events are compared, so that a batch can be empty before `through`.
    """
    if after >= through:
        return Batch([], through)
    if not event_filter.is_indexed:
        through = _last_scanned(alias, after, through, event_filter)
    vendor = connections[alias].vendor
    where, order, params = _conditions(vendor, after, through, event_filter)
    max_bytes = MAX_BATCH_BYTES if max_bytes is None else max_bytes
    data, share = (_DATA[vendor], [max_bytes // limit]) if payload is Payload.FULL else ("NULL", [])
    statement = _PAGE.format(fields=_FIELDS[vendor], data=data, where=where, order=order, direction="ASC")
    events = [StoredEvent(*row) for row in fetch_all(alias, statement, [*share, *params, limit])]
    is_complete = len(events) < limit
    if any(event.data == _LARGE for event in events):
        statement = _MEASURED_PAGE.format(fields=_FIELDS[vendor], size=_SIZE[vendor], where=where, order=order)
        rows = fetch_all(alias, statement, [*params, limit, max_bytes])
        events = [StoredEvent(*row[:-1]) for row in rows]
        is_complete = len(rows) < limit and not (rows and rows[-1][-1] >= max_bytes)
    return Batch(events, through if is_complete else events[-1].position)


_AT: Final = "SELECT position, at FROM tenancy_outboxevent WHERE position > %s ORDER BY position LIMIT 1"
TIME_MARGIN: Final = timedelta(minutes=1)
"""Events are in the order of positions; their times can differ from it by the duration of a change."""


def position_at(alias: str, at: datetime, *, after: int, through: int) -> int:
    """Return a position from `after` to `through` after which all events since `at` are found, and few earlier ones.

    A binary search: about one statement for each doubling of the number of events.
    """
    at -= TIME_MARGIN
    while after < through:
        middle = (after + through) // 2
        row = fetch_one(alias, _AT, [middle])
        if row is not None and row[0] <= through and as_datetime(row[1]) < at:
            after = int(row[0])
        else:
            through = middle
    return after


def read_newest(
    alias: str, *, after: int, through: int, event_filter: EventFilter, limit: int
) -> tuple[list[StoredEvent], int]:
    """Return at most `limit` matching events, without data, the newest first, and a position: all matching events
    after it are among them.

    One statement, two if no index has the filter; then `MAX_SCANNED` events are compared.
    """
    if after >= through:
        return [], after
    if not event_filter.is_indexed:
        after = _first_scanned(alias, after, through, event_filter)
    vendor = connections[alias].vendor
    where, order, params = _conditions(vendor, after, through, event_filter)
    statement = _PAGE.format(fields=_FIELDS[vendor], data="NULL", where=where, order=_reverse(order), direction="DESC")
    events = [StoredEvent(*row) for row in fetch_all(alias, statement, [*params, limit])]
    return events, after if len(events) < limit else events[-1].position - 1


_COLUMNS: Final = ", ".join("at" if name == "time" else name for name in StoredEvent._fields[:-1])
_IDS: Final = ("event_id", "warehouse_id", "assumed_role")
_ID_TEXT: Final = {
    "postgresql": "{0}::text",
    "sqlite": "substr({0}, 1, 8) || '-' || substr({0}, 9, 4) || '-' || substr({0}, 13, 4) || '-' || "
    "substr({0}, 17, 4) || '-' || substr({0}, 21)",  # stored as 32 digits
}
_TIME_TEXT: Final = {
    "postgresql": """to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')""",
    # Stored as 2026-01-31 12:00:00.001500, or without a fraction.
    "sqlite": "substr(at, 1, 10) || 'T' || substr(at, 12, 8) || '.' || substr(substr(at, 21) || '000000', 1, 6) || 'Z'",
}


def _fields(vendor: str) -> str:
    """Return the expressions of the fields of a `StoredEvent`, except its data."""
    texts = {name: _ID_TEXT[vendor].format(name) for name in _IDS} | {"time": _TIME_TEXT[vendor]}
    return ", ".join(texts.get(name, name) for name in StoredEvent._fields[:-1])


_FIELDS: Final = {vendor: _fields(vendor) for vendor in ("postgresql", "sqlite")}
_SIZE: Final = {"postgresql": "coalesce(octet_length(data), 0)", "sqlite": "coalesce(length(data), 0)"}
_LARGE: Final = ""
"""Replaces the data of an event that has more than its share of the bytes of a batch; it is no JSON."""
_DATA: Final = {vendor: f"CASE WHEN {size} > %s THEN '{_LARGE}' ELSE data END" for vendor, size in _SIZE.items()}
_PAGE: Final = f"""
SELECT {{fields}}, data FROM (
  SELECT {_COLUMNS}, {{data}} AS data FROM tenancy_outboxevent WHERE {{where}} ORDER BY {{order}} LIMIT %s) AS page
 ORDER BY position {{direction}}
"""  # noqa: S608 - constants

_MEASURED_PAGE: Final = f"""
SELECT {{fields}}, data, total FROM (
  SELECT *, CAST(sum(size) OVER (ORDER BY position) AS bigint) AS total FROM (
    SELECT {_COLUMNS}, data, {{size}} AS size
      FROM tenancy_outboxevent WHERE {{where}} ORDER BY {{order}} LIMIT %s) AS page) AS measured
 WHERE total - size < %s ORDER BY position
"""  # noqa: S608 - constants
"""A page whose data has a limited total. The sums take a third of its time, so they are for large events."""
_FIRST_SCANNED: Final = """
SELECT min(position), count(*)
  FROM (SELECT position FROM tenancy_outboxevent WHERE {where} ORDER BY {order} LIMIT %s) AS scanned
"""
_LAST_SCANNED: Final = """
SELECT max(position), count(*)
  FROM (SELECT position FROM tenancy_outboxevent WHERE {where} ORDER BY {order} LIMIT %s) AS scanned
"""


def _last_scanned(alias: str, after: int, through: int, event_filter: EventFilter) -> int:
    """Return the position of the last event that a batch compares with its filter; `through` if it compares all."""
    where, order, params = _conditions(connections[alias].vendor, after, through, _indexed_part(event_filter))
    statement = _LAST_SCANNED.format(where=where, order=order)
    ((last, count),) = fetch_all(alias, statement, [*params, MAX_SCANNED])
    return through if count < MAX_SCANNED else int(last)


def _first_scanned(alias: str, after: int, through: int, event_filter: EventFilter) -> int:
    """Return the position before the first event that is compared when the newest are read; `after` for all of them."""
    where, order, params = _conditions(connections[alias].vendor, after, through, _indexed_part(event_filter))
    statement = _FIRST_SCANNED.format(where=where, order=_reverse(order))
    ((first, count),) = fetch_all(alias, statement, [*params, MAX_SCANNED])
    return after if count < MAX_SCANNED else int(first) - 1


def _reverse(order: str) -> str:
    return ", ".join(f"{column} DESC" for column in order.split(", "))


def _indexed_part(event_filter: EventFilter) -> EventFilter:
    if len(event_filter.warehouses) == 1:
        return EventFilter(warehouses=event_filter.warehouses)
    if len(event_filter.projects) == 1 and not event_filter.warehouses:
        return EventFilter(projects=event_filter.projects)
    return EventFilter()


def _conditions(vendor: str, after: int, through: int, event_filter: EventFilter) -> tuple[str, str, list[Any]]:
    """Return the conditions, the order by which an index finds the events, and the parameters.

    PostgreSQL would read the events of a single warehouse or project by position, and discard all others, because it
    takes the index of warehouses or projects for one in random order. Comparisons of rows, and their order, are in no
    other index.
    """
    leading, only = _leading_column(event_filter) if vendor == "postgresql" else ("", None)
    if leading:
        order = f"{leading}, position"
        conditions = [f"{leading} IS NOT NULL", f"({order}) > (%s, %s)", f"({order}) <= (%s, %s)"]
        params: list[Any] = [only, after, only, through]
    else:
        order, conditions, params = "position", ["position > %s", "position <= %s"], [after, through]
    for column, wanted in (
        ("project_id", event_filter.projects),
        ("warehouse_id", event_filter.warehouses),
        ("type", event_filter.types),
        ("public_id", event_filter.objects),
    ):
        if column != leading:
            _add_column(conditions, params, column, wanted)
    if event_filter.namespaces:
        of_namespaces = []
        for levels in event_filter.namespaces:
            beginning = json.dumps(levels)[:-1]
            of_namespaces.append(
                f"(substr(names, 1, {len(beginning)}) = %s AND substr(names, {len(beginning) + 1}, 1) IN (',', ']'))"
            )
            params.append(beginning)
        types = " OR ".join(f"object_key LIKE '{each}%%'" for each in _IN_NAMESPACES)
        conditions += [f"({' OR '.join(of_namespaces)})", f"({types})"]
    return " AND ".join(conditions), order, params


def _leading_column(event_filter: EventFilter) -> tuple[str, Any]:
    """Return the column of an index that ends with the position, and its only value; an empty name without one."""
    indexed = _indexed_part(event_filter)
    if indexed.warehouses:
        return "warehouse_id", indexed.warehouses[0]
    return ("project_id", indexed.projects[0]) if indexed.projects else ("", None)


def _add_column(conditions: list[str], params: list[Any], column: str, wanted: Sequence[Any]) -> None:
    if len(wanted) == 1:
        conditions.append(f"{column} = %s")
        params.append(wanted[0])
    elif wanted:
        conditions.append(f"{column} = ANY(%s)")
        params.append(list(wanted))
