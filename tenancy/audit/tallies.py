"""What happens again and again, summed up in memory until a row is written for all of it.

Equal occurrences of one interval make two rows at most: one soon after the first of them, one for all others when the
interval is over. Memory is bounded by forgetting differences, never occurrences.
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
    """`count` occurrences between `first` and `last` that no row tells of yet. `ends` is when the interval does."""

    like: AuditRecord
    ends: float
    first: float
    last: float
    count: int
    is_new: bool = True
    """Whether no row tells of this interval at all."""

    def add(self, at: float) -> None:
        self.first = at if self.count == 0 else self.first
        self.count, self.last = self.count + 1, at

    def row(self) -> AuditRecord:
        """For all of them; counting begins anew."""
        row = copy_of(self.like)
        row.at = datetime.fromtimestamp(self.first, UTC)
        row.count = self.count
        if self.count > 1:
            row.last_at = datetime.fromtimestamp(self.last, UTC)
        if self.count > 1 or not self.is_new:
            row.request_id = None  # of which one?
        self.count, self.is_new = 0, False
        return row


class Tallies:
    def __init__(self, *, most_keys: int) -> None:
        self._tallies: dict[Hashable, Tally] = {}
        self._over: list[AuditRecord] = []
        self._most_keys = most_keys
        self._lock = Lock()

    def count(self, key: Hashable) -> bool:
        """Count one more under `key` if its interval goes on; whether it does."""
        at = time()
        with self._lock:
            known = self._tallies.get(key)
            return known is not None and self._goes_on(known, at)

    def add(self, key: Hashable, make: Callable[[], AuditRecord], *, interval: float, is_told: bool = False) -> bool:
        """Count one more under `key`, in intervals of so many seconds; whether it is the first of its interval.

        `make` gives a row like it, and is called for that one only. With `is_told` a first one is not counted, as the
        caller has written its row. Beyond the bound it counts with others that differ in object and place.
        """
        if self.count(key):
            return False
        at, like = time(), make()
        with self._lock:
            known = self._tallies.get(key)
            if known is not None and self._goes_on(known, at):
                return False
            if known is not None and known.count:  # its interval is over, and what it counted is not written yet
                self._over.append(known.row())
            self._begin(key, like, at, interval, is_told=is_told)
        return True

    def due(self, *, all_of_it: bool = False) -> list[AuditRecord]:
        """The rows that are to be written now."""
        at = time()
        with self._lock:
            rows, self._over = self._over, []
            for key, tally in list(self._tallies.items()):
                is_over = at >= tally.ends or all_of_it
                if tally.count and (tally.is_new or is_over):
                    rows.append(tally.row())
                if is_over:
                    del self._tallies[key]
        return rows

    def _goes_on(self, tally: Tally, at: float) -> bool:
        if at >= tally.ends:
            return False
        tally.add(at)
        return True

    def _begin(self, key: Hashable, like: AuditRecord, at: float, interval: float, *, is_told: bool) -> None:
        if len(self._tallies) >= self._most_keys and key not in self._tallies:
            if is_told:
                return
            like = blurred(like)
            key = ("blurred", like.event, like.action, like.actor, like.object_type, like.outcome, like.reason)
            if len(self._tallies) >= 2 * self._most_keys and key not in self._tallies:
                like.action = like.object_type = like.reason = ""
                like.actor, like.assumed_role, like.access_token_id = "*", None, None
                key = ("blurred", like.event, like.outcome)
            known = self._tallies.get(key)
            if known is not None:
                known.add(at)
                return
        self._tallies[key] = Tally(like, at + interval, at, at, 0 if is_told else 1, is_new=not is_told)


def copy_of(record: AuditRecord) -> AuditRecord:
    """The same under an id of its own."""
    fields = [field.attname for field in AuditRecord._meta.concrete_fields]  # noqa: SLF001 - Django's own name
    return AuditRecord(**{name: getattr(record, name) for name in fields} | {"id": new_id()})


def blurred(record: AuditRecord) -> AuditRecord:
    """Without what tells one of many apart: it stands for several."""
    blurry = copy_of(record)
    blurry.object_id = blurry.project_id = blurry.address = blurry.forwarded_for = blurry.user_agent = ""
    blurry.request_id, blurry.details = None, '{"several":true}'
    return blurry
