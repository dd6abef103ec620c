"""Publication of events: how far the outbox is complete, so that a reader that continues from there misses nothing.

Positions are assigned before commits: a transaction that is still running can have a lower position than one that has
committed. Events are published up to the first missing position. A missing position belongs to a running transaction,
or to none any more, after a rollback or a crash. Which one it is follows from transaction ids on PostgreSQL: a new id
is greater than that of each transaction that has a position so far; once all lower ids have ended, the position stays
missing. SQLite has one writer at a time, so nothing is missing there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from django.db import connection

from icekeeper.kernel.db.sql import execute, fetch_all, fetch_one_as
from tenancy.models import OutboxState

MAX_POSITIONS: Final = 5000
"""Positions that one statement reads."""

_STATE: Final = """
SELECT s.published_through, s.deleted_through, coalesce((SELECT max(position) FROM tenancy_outboxevent), 0)
  FROM tenancy_outboxstate AS s
"""
_POSITIONS: Final = "SELECT position FROM tenancy_outboxevent WHERE position > %s ORDER BY position LIMIT %s"
_PUBLISH: Final = "UPDATE tenancy_outboxstate SET published_through = %s WHERE published_through < %s"

_NEW_TRANSACTION_ID: Final = "SELECT pg_current_xact_id()::text::bigint"
_OLDEST_RUNNING: Final = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


class State(NamedTuple):
    """Positions: all events through `published` are there, those through `deleted` are not kept any more."""

    published: int
    deleted: int
    newest: int


def read_state(alias: str = "default") -> State:
    """Return the state of the outbox; one statement."""
    found = fetch_one_as(State, alias, _STATE, [])
    if found is None:
        OutboxState.objects.get_or_create(pk=OutboxState.ONLY)
        found = fetch_one_as(State, alias, _STATE, [])
    return State(0, 0, 0) if found is None else found


class Publisher:
    """Publishes events. Several processes may do so at the same time: the published position never decreases."""

    def __init__(self) -> None:
        self._gap = 0
        """The first missing position that was found, 0 without one."""
        self._later_transaction = 0
        """An id of a transaction that began after the gap was found."""

    def publish(self) -> State:
        """Publish what is complete, and return the state then. One statement without new events."""
        state = read_state()
        if state.newest <= state.published:
            return state
        published = state.newest if connection.vendor == "sqlite" else self._complete_through(state.published)
        if published > state.published:
            execute(_PUBLISH, [published, published])
        return state._replace(published=max(published, state.published))

    def _complete_through(self, published: int) -> int:
        """Return the position before the first one that is missing and can still appear."""
        while True:
            is_gap_final = self._gap == published + 1 and self._has_ended()
            positions = [position for (position,) in fetch_all("default", _POSITIONS, [published, MAX_POSITIONS])]
            if positions and is_gap_final:
                published = positions[0] - 1
            last, published = positions[-1] if positions else published, _end_of_run(published, positions)
            if published == last and len(positions) < MAX_POSITIONS:
                return published
            if published < last and not self._watch(published + 1):
                return published

    def _watch(self, gap: int) -> bool:
        """Begin to watch the missing position `gap`; return whether it is a new one."""
        if gap == self._gap:
            return False
        self._gap, self._later_transaction = gap, _read_number(_NEW_TRANSACTION_ID)
        return True

    def _has_ended(self) -> bool:
        """Return whether each transaction that could have the missing position has ended."""
        return _read_number(_OLDEST_RUNNING) > self._later_transaction


def _end_of_run(published: int, positions: Sequence[int]) -> int:
    """Return the last one of the positions that follow `published` without a gap."""
    for position in positions:
        if position != published + 1:
            break
        published = position
    return published


def _read_number(statement: str) -> int:
    ((number,),) = fetch_all("default", statement, [])
    return int(number)
