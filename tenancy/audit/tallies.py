"""Aggregates repeated occurrences in memory, so that one audit record stands for many of them.

Equal occurrences within an interval become two records at most: one soon after the first occurrence, one for all others
at the end of the interval. Memory is bounded by merging different occurrences, never by dropping any.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from time import time

from icekeeper.kernel.ids import new_id
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
