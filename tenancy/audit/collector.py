"""Collects audit records that are not part of a change: denials, sign-ins, token uses and reads.

The denied request itself writes its record, before the 401 or 403 is sent and after its transaction is rolled back; the
limits below keep a client that is denied repeatedly from filling the disk. Everything else is kept in memory until
`write_and_seal`: aggregated records, denials that the response hides, and records of failed writes.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from threading import Lock
from time import monotonic, time
from typing import Final
from uuid import UUID

from django.db import DatabaseError, InterfaceError, OperationalError, connection

from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.request_context import current_context, deadline
from tasks.runtime.write_behind import WriteBehind
from tenancy.actor import INTERNAL
from tenancy.audit.chain import seal_records
from tenancy.audit.recording import Event, build_record, set_projects
from tenancy.maintenance import is_read_only
from tenancy.models import AuditRecord


@dataclass(slots=True)
class Tally:
    """`count` occurrences between `first` and `last` that have no record yet; their interval ends at `ends_at`."""

    template: AuditRecord
    ends_at: float
    first: float
    last: float
    count: int
    is_new: bool = True
    """Whether this interval has no record at all yet."""

    def add(self, at: float) -> None:
        self.first = at if self.count == 0 else self.first
        self.count, self.last = self.count + 1, at

    def take_record(self) -> AuditRecord:
        """Return a record of all counted occurrences and reset the count."""
        row = copy_record(self.template)
        row.at = datetime.fromtimestamp(self.first, UTC)
        row.count = self.count
        if self.count > 1:
            row.last_at = datetime.fromtimestamp(self.last, UTC)
        if self.count > 1 or not self.is_new:
            row.request_id = None  # the record stands for several requests
        self.count, self.is_new = 0, False
        return row


class Tallies:
    """Tallies by key, thread-safe, at most about `2 * max_keys` of them."""

    def __init__(self, *, max_keys: int) -> None:
        self._tallies: dict[Hashable, Tally] = {}
        self._finished: list[AuditRecord] = []
        self._max_keys = max_keys
        self._lock = Lock()

    def count(self, key: Hashable) -> bool:
        """Count an occurrence of `key` if its interval has not ended; return whether it was counted."""
        at = time()
        with self._lock:
            known = self._tallies.get(key)
            return known is not None and self._count_in_interval(known, at)

    def add(
        self, key: Hashable, build: Callable[[], AuditRecord], *, interval: float, is_recorded: bool = False
    ) -> bool:
        """Count an occurrence of `key` in intervals of `interval` seconds; return whether it is the first of one.

        `build` returns its record and is called for the first occurrence only. With `is_recorded` the first one is not
        counted, as the caller writes its record. Above the maximum of keys, occurrences that differ only in object and
        origin are counted together.
        """
        if self.count(key):
            return False
        at, template = time(), build()
        with self._lock:
            known = self._tallies.get(key)
            if known is not None and self._count_in_interval(known, at):
                return False
            if known is not None and known.count:  # the interval has ended and its count is not written yet
                self._finished.append(known.take_record())
            self._start_interval(key, template, at, interval, is_recorded=is_recorded)
        return True

    def take_due(self, *, is_last: bool) -> list[AuditRecord]:
        """Return the records to write now; with `is_last` also those of intervals that have not ended."""
        at = time()
        with self._lock:
            rows, self._finished = self._finished, []
            for key, tally in list(self._tallies.items()):
                has_ended = at >= tally.ends_at or is_last
                if tally.count and (tally.is_new or has_ended):
                    rows.append(tally.take_record())
                if has_ended:
                    del self._tallies[key]
        return rows

    def _count_in_interval(self, tally: Tally, at: float) -> bool:
        if at >= tally.ends_at:
            return False
        tally.add(at)
        return True

    def _start_interval(
        self, key: Hashable, template: AuditRecord, at: float, interval: float, *, is_recorded: bool
    ) -> None:
        if len(self._tallies) >= self._max_keys and key not in self._tallies:
            if is_recorded:
                return
            template = generalize_record(template)
            key = (
                "merged", template.event, template.action, template.actor, template.object_type, template.outcome,
                template.reason,
            )  # fmt: skip
            if len(self._tallies) >= 2 * self._max_keys and key not in self._tallies:
                template.action = template.object_type = template.reason = ""
                template.actor, template.assumed_role, template.access_token_id = "*", None, None
                key = ("merged", template.event, template.outcome)
            known = self._tallies.get(key)
            if known is not None:
                known.add(at)
                return
        count = 0 if is_recorded else 1
        self._tallies[key] = Tally(template, at + interval, at, at, count, is_new=not is_recorded)


def copy_record(record: AuditRecord) -> AuditRecord:
    """Return a copy with a new id."""
    fields = [field.attname for field in AuditRecord._meta.concrete_fields]  # noqa: SLF001 - Django's own name
    return AuditRecord(**{name: getattr(record, name) for name in fields} | {"id": new_id()})


def generalize_record(record: AuditRecord) -> AuditRecord:
    """Return a copy without object, project, request and origin, which stands for several different occurrences."""
    general = copy_record(record)
    general.object_id = general.project_id = general.address = general.forwarded_for = general.user_agent = ""
    general.request_id, general.details = None, '{"several":true}'
    return general


logger = logging.getLogger("icekeeper.audit")

INTERVAL_SECONDS: Final = 60.0
"""Seconds within which equal denials, and equal reads, are aggregated."""

MAX_IMMEDIATE_ROWS_PER_CALLER: Final = 20
MAX_IMMEDIATE_ROWS: Final = 120
"""Records that the requests of one caller, and of all callers, write themselves in an interval and a process.

`write_due` writes the others, unchanged. Authenticated and unauthenticated callers have separate limits."""

MAX_DENIALS_PER_CALLER: Final = 100
"""Distinct denials of one caller in an interval; further ones are aggregated without their object."""

MAX_DISTINCT_DENIALS: Final = 500
MAX_DISTINCT_USES: Final = 10_000
MAX_UNWRITTEN: Final = 10_000
"""Records kept while the database is unavailable; of further ones only the number of occurrences is kept."""

MAX_WAIT_SECONDS: Final = 0.5
"""Seconds that a request waits for other SQLite writers before it leaves its record to `write_due`."""

BACKOFF_SECONDS: Final = 5.0
"""Seconds after a failed write in which requests leave their records to `write_due` without trying."""

BATCH: Final = 500


class _Handling(Enum):
    """How a denial is recorded, depending on the limits that its caller has reached."""

    IMMEDIATE = auto()
    DEFERRED = auto()
    WITHOUT_OBJECT = auto()


class Collector:
    """Audit records of this process that wait for the end of their request or for `write_due`."""

    def __init__(self) -> None:
        self._denials = {is_authenticated: Tallies(max_keys=MAX_DISTINCT_DENIALS) for is_authenticated in (True, False)}
        self._uses = Tallies(max_keys=MAX_DISTINCT_USES)
        # Each record has a key of its own: there is nothing to merge.
        self._unwritten = WriteBehind[UUID, AuditRecord](
            lambda row, _: row, max_keys=MAX_UNWRITTEN, weigh=lambda row: row.count
        )
        self._recorded: Counter[tuple[bool, str]] = Counter()
        self._immediate: Counter[bool] = Counter()
        self._interval_ends = 0.0
        self._backoff_until = 0.0
        self._lock = Lock()

    def add(self, record: AuditRecord) -> None:
        """Add a record: the first one of an interval is written at the end of the current request if the limits allow
        it; equal ones are aggregated."""
        pending = current_context().audit_rows
        if pending is None:
            current_context().audit_rows = pending = []
        denials = self._denials[_is_authenticated(record)]
        if denials.count(aggregation_key(record)):
            return
        handling = self._limit_denial(record)
        if handling is _Handling.WITHOUT_OBJECT:
            record = _without_object(record)
        is_recorded = handling is _Handling.IMMEDIATE
        if (
            denials.add(aggregation_key(record), lambda: record, interval=INTERVAL_SECONDS, is_recorded=is_recorded)
            and is_recorded
        ):
            pending.append(record)
            if current_context().request_id is None and not connection.in_atomic_block:
                self.write_pending()

    def aggregate(self, key: Hashable, build: Callable[[], AuditRecord], *, interval: float = INTERVAL_SECONDS) -> None:
        """Count a frequent occurrence; `build` returns its record and is called once in an interval."""
        self._uses.add(key, build, interval=interval)

    def has_pending(self) -> bool:
        """Return whether the current request has added a record."""
        return current_context().audit_rows is not None

    def defer_denials(self) -> None:
        """Leave the denials of the current request to `write_due`."""
        pending = current_context().audit_rows
        if pending is None:
            return
        self._keep([row for row in pending if row.event == Event.ACCESS_DENIED])
        current_context().audit_rows = [row for row in pending if row.event != Event.ACCESS_DENIED]

    def write_pending(self) -> None:
        """Write the records of the current request, outside of its transactions; keep what cannot be written now."""
        rows = current_context().audit_rows
        if rows is None:
            return
        current_context().audit_rows = None
        if not rows:
            return
        if is_read_only() or monotonic() < self._backoff_until:
            self._keep(rows)
            return
        try:
            with _bounded_wait():
                set_projects(rows)
                for row in rows:
                    row.save(force_insert=True)
        except Exception as error:  # noqa: BLE001 - a failed audit write must not change the response
            logger.warning("an audit record could not be written, retrying: %s", error)
            self._backoff_until = monotonic() + BACKOFF_SECONDS
            self._keep(rows)

    def write_due(self, *, is_last: bool = False) -> None:
        """Write due records, with `is_last` all; keep those that cannot be written, as in maintenance mode."""
        if is_read_only():
            return
        rows = list(self._unwritten.take().values())
        lost = self._unwritten.take_dropped()
        for tallies in (*self._denials.values(), self._uses):
            rows += tallies.take_due(is_last=is_last)
        if lost:
            rows.append(_lost_records(lost))
        for start in range(0, len(rows), BATCH):
            self._write(rows[start : start + BATCH])

    def clear(self) -> None:
        """Discard everything, for tests."""
        current_context().audit_rows = None
        self.__init__()  # type: ignore[misc]

    def _write(self, rows: Sequence[AuditRecord]) -> None:
        """Write records; after a commit with unknown result they are written again, under the same ids."""
        try:
            with write_transaction():
                set_projects(rows)
                AuditRecord.objects.bulk_create(rows, ignore_conflicts=True)
        except (OperationalError, InterfaceError, CatalogError) as error:
            logger.warning("%d audit records could not be written, retrying: %s", len(rows), error)
            self._keep(rows)
        except DatabaseError as error:
            if len(rows) > 1:  # find the record that cannot be written
                for row in rows:
                    self._write([row])
            else:
                logger.error("an audit record cannot be written: %s", error)  # noqa: TRY400 - the message is complete
                self._unwritten.drop(rows[0].count)

    def _keep(self, rows: Sequence[AuditRecord]) -> None:
        self._unwritten.put_back({row.id: row for row in rows})

    def _limit_denial(self, record: AuditRecord) -> _Handling:
        is_authenticated, at = _is_authenticated(record), monotonic()
        caller = (is_authenticated, f"{record.actor} {record.address}")
        with self._lock:
            if at >= self._interval_ends:
                self._recorded.clear()
                self._immediate.clear()
                self._interval_ends = at + INTERVAL_SECONDS
            if self._recorded[caller] >= MAX_DENIALS_PER_CALLER:
                return _Handling.WITHOUT_OBJECT
            self._recorded[caller] += 1
            if (
                self._recorded[caller] > MAX_IMMEDIATE_ROWS_PER_CALLER
                or self._immediate[is_authenticated] >= MAX_IMMEDIATE_ROWS
            ):
                return _Handling.DEFERRED
            self._immediate[is_authenticated] += 1
            return _Handling.IMMEDIATE


collector: Final = Collector()


def aggregation_key(record: AuditRecord) -> Hashable:
    """Return a key that is equal for records that are aggregated."""
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


def _is_authenticated(record: AuditRecord) -> bool:
    """Return whether the caller was authenticated."""
    return record.event != Event.SIGN_IN_REFUSED and record.actor != "anonymous"


def _without_object(record: AuditRecord) -> AuditRecord:
    """Clear object and origin in place: the record stands for several denials."""
    record.object_id = record.forwarded_for = ""
    record.details = '{"several":true}'
    return record


def _bounded_wait() -> AbstractContextManager[None]:
    """Limit the wait for other writers on SQLite; on PostgreSQL they do not block each other."""
    return deadline(monotonic() + MAX_WAIT_SECONDS) if connection.vendor == "sqlite" else nullcontext()


def _lost_records(count: int) -> AuditRecord:
    row = build_record(
        Event.AUDIT_RECORDS_LOST.value,
        actor=INTERNAL,
        object_type="audit",
        object_id="",
        outcome=AuditRecord.Outcome.FAILED,
    )
    row.count = count
    return row


def write_and_seal() -> None:
    """Write due records, and seal (`PERIODIC_JOBS`)."""
    collector.write_due()
    seal_records(actor=INTERNAL)


def write_all_and_seal() -> None:
    """Write all records, also of intervals that have not ended, and seal: when the process stops."""
    collector.write_due(is_last=True)
    seal_records(actor=INTERNAL)
