"""Rows that no transaction writes: of denials, sign-ins, uses of tokens, reads.

A denial is written by the request that is denied, before a 401 or 403 is sent and outside of whatever was rolled back;
the bounds below keep who is denied all the time from filling the disk. Everything else waits in memory for `flush`
(`tenancy.audit.flusher`): sums, denials behind other responses, and rows that could not be written.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum, auto
from threading import Lock
from time import monotonic
from typing import Final

from django.db import DatabaseError, InterfaceError, OperationalError, connection

from icekeeper.kernel.db.write_transaction import write_transaction
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.request.context import current_context
from icekeeper.kernel.request.deadline import deadline
from tenancy.actor import INTERNAL
from tenancy.audit.entries import make_entry
from tenancy.audit.log import Event
from tenancy.audit.projects import set_projects
from tenancy.audit.tallies import Tallies
from tenancy.maintenance import is_read_only
from tenancy.models import AuditRecord

logger = logging.getLogger("icekeeper.audit")

INTERVAL_SECONDS: Final = 60.0
"""Seconds in which equal denials, and equal reads, are one."""

MAX_IMMEDIATE_ROWS_PER_CALLER: Final = 20
MAX_IMMEDIATE_ROWS: Final = 120
"""Rows that requests of one caller, and of all callers, write by themselves in an interval, in one process. Further
ones are written by `flush`, as they are. Who has not shown who they are takes nothing of what the others have."""

MAX_DENIALS_PER_CALLER: Final = 100
"""Different denials of one caller in an interval; further ones are summed up without what they are about."""

MAX_DISTINCT_DENIALS: Final = 500
MAX_DISTINCT_USES: Final = 10_000
MAX_UNWRITTEN: Final = 10_000
"""Rows that wait for the database. Of more it is kept only how many occurrences they stood for."""

MAX_WAIT_SECONDS: Final = 0.5
"""Seconds that a request waits for SQLite's other writers before it leaves its row to `flush`."""

BACKOFF_SECONDS: Final = 5.0
"""Seconds in which no request tries again after one that could not: each would wait for a database that is away."""

BATCH: Final = 500


class _Bound(Enum):
    """How much of a denial there is room for."""

    AT_ONCE = auto()
    LATER = auto()
    WITHOUT_OBJECT = auto()


class Collector:
    def __init__(self) -> None:
        self._denials = {is_known: Tallies(most_keys=MAX_DISTINCT_DENIALS) for is_known in (True, False)}
        self._uses = Tallies(most_keys=MAX_DISTINCT_USES)
        self._unwritten: list[AuditRecord] = []
        self._lost = 0
        self._told: Counter[tuple[bool, str]] = Counter()
        self._at_once: Counter[bool] = Counter()
        self._interval_ends = 0.0
        self._rests_until = 0.0
        self._lock = Lock()

    def add(self, record: AuditRecord) -> None:
        """Of a denial, say: the first of an interval is written before the request at hand is answered, if the bounds
        allow it; its like are summed up."""
        pending = current_context().audit_rows
        if pending is None:
            current_context().audit_rows = pending = []
        denials = self._denials[_is_known(record)]
        if denials.count(key_of(record)):
            return
        bound = self._bound_of(record)
        if bound is _Bound.WITHOUT_OBJECT:
            record = _without_object(record)
        is_told = bound is _Bound.AT_ONCE
        if denials.add(key_of(record), lambda: record, interval=INTERVAL_SECONDS, is_told=is_told) and is_told:
            pending.append(record)
            if current_context().request_id is None and not connection.in_atomic_block:
                self.write_pending()

    def aggregate(self, key: Hashable, make: Callable[[], AuditRecord], *, interval: float = INTERVAL_SECONDS) -> None:
        """Count something that happens often; `make` gives its row, and is called once an interval."""
        self._uses.add(key, make, interval=interval)

    def has_pending(self) -> bool:
        """Whether anything was told of the request at hand."""
        return current_context().audit_rows is not None

    def defer_denials(self) -> None:
        """Leave the denials of the request at hand to `flush`."""
        pending = current_context().audit_rows
        if pending is None:
            return
        self._keep([row for row in pending if row.event == Event.ACCESS_DENIED])
        current_context().audit_rows = [row for row in pending if row.event != Event.ACCESS_DENIED]

    def write_pending(self) -> None:
        """At the end of a request, outside its transactions: write its rows; what cannot be written now waits."""
        rows = current_context().audit_rows
        if rows is None:
            return
        current_context().audit_rows = None
        if not rows:
            return
        if is_read_only() or monotonic() < self._rests_until:
            self._keep(rows)
            return
        try:
            with _bounded_wait():
                set_projects(rows)
                for row in rows:
                    row.save(force_insert=True)
        except Exception as error:  # noqa: BLE001 - whatever it is, the answer is the request's own
            logger.warning("an audit record waits: %s", error)
            self._rests_until = monotonic() + BACKOFF_SECONDS
            self._keep(rows)

    def flush(self, *, is_last: bool = False) -> None:
        """Write what is due; `is_last`: everything. What cannot be written, as in maintenance mode, waits."""
        if is_read_only():
            return
        with self._lock:
            rows, self._unwritten = self._unwritten, []
            lost, self._lost = self._lost, 0
        for tallies in (*self._denials.values(), self._uses):
            rows += tallies.due(all_of_it=is_last)
        if lost:
            rows.append(_of_lost(lost))
        for start in range(0, len(rows), BATCH):
            self._write(rows[start : start + BATCH])

    def clear(self) -> None:
        """Forget everything, in tests."""
        current_context().audit_rows = None
        self.__init__()  # type: ignore[misc]

    def _write(self, rows: Sequence[AuditRecord]) -> None:
        """A row may have been written before, when the database was lost while it committed: it keeps its id."""
        try:
            with write_transaction():
                set_projects(rows)
                AuditRecord.objects.bulk_create(rows, ignore_conflicts=True)
        except (OperationalError, InterfaceError, CatalogError) as error:
            logger.warning("%d audit records wait: %s", len(rows), error)
            self._keep(rows)
        except DatabaseError as error:
            if len(rows) > 1:  # one of them cannot be written at all
                for row in rows:
                    self._write([row])
            else:
                logger.error("an audit record cannot be written: %s", error)  # noqa: TRY400 - it says it all
                self._lose(rows[0].count)

    def _keep(self, rows: Sequence[AuditRecord]) -> None:
        with self._lock:
            room = max(0, MAX_UNWRITTEN - len(self._unwritten))
            self._unwritten += rows[:room]
        self._lose(sum(row.count for row in rows[room:]))

    def _lose(self, count: int) -> None:
        with self._lock:
            self._lost += count

    def _bound_of(self, record: AuditRecord) -> _Bound:
        is_known, at = _is_known(record), monotonic()
        caller = (is_known, f"{record.actor} {record.address}")
        with self._lock:
            if at >= self._interval_ends:
                self._told.clear()
                self._at_once.clear()
                self._interval_ends = at + INTERVAL_SECONDS
            if self._told[caller] >= MAX_DENIALS_PER_CALLER:
                return _Bound.WITHOUT_OBJECT
            self._told[caller] += 1
            if self._told[caller] > MAX_IMMEDIATE_ROWS_PER_CALLER or self._at_once[is_known] >= MAX_IMMEDIATE_ROWS:
                return _Bound.LATER
            self._at_once[is_known] += 1
            return _Bound.AT_ONCE


collector: Final = Collector()


def key_of(record: AuditRecord) -> Hashable:
    """Equal for what is told as one."""
    return (
        record.event,
        record.action,
        record.outcome,
        record.reason,
        record.actor,
        record.assumed_role,
        record.access_token_id,
        record.object_type,
        record.object_id,
        record.address,
        record.forwarded_for,
        record.details,
    )


def _is_known(record: AuditRecord) -> bool:
    """Whether it is of somebody who has shown who they are."""
    return record.event != Event.SIGN_IN_REFUSED and record.actor != "anonymous"


def _without_object(record: AuditRecord) -> AuditRecord:
    record.object_id = record.forwarded_for = ""
    record.details = '{"several":true}'
    return record


def _bounded_wait() -> AbstractContextManager[None]:
    """PostgreSQL's writers do not wait for each other."""
    return deadline(monotonic() + MAX_WAIT_SECONDS) if connection.vendor == "sqlite" else nullcontext()


def _of_lost(count: int) -> AuditRecord:
    row = make_entry(
        Event.AUDIT_RECORDS_LOST.value,
        actor=INTERNAL,
        object_type="audit",
        object_id="",
        outcome=AuditRecord.Outcome.FAILED,
    )
    row.count = count
    return row
