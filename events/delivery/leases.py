"""Leases on sinks: one worker at a time delivers to a sink, and records its progress.

The clock of the database decides. Each lease has a number, which later updates compare: a worker that was too slow, or
whose sink was changed meanwhile, records nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from events.models import DeadLetter, EventSink
from icekeeper.kernel.db.sql import DATABASE_NOW, as_uuid, database_time_in, execute, fetch_all
from icekeeper.kernel.db.transactions import write_transaction

LEASE_SECONDS: Final = 120
MAX_ERROR_LENGTH: Final = 2000

_CLAIM: Final = """
UPDATE events_eventsink SET lease = lease + 1, leased_until = {lease_end}
 WHERE id IN (
   SELECT id FROM events_eventsink
    WHERE NOT id = ANY(%s) AND NOT is_paused AND (leased_until IS NULL OR leased_until < {now})
      AND (NOT is_from_settings OR name = ANY(%s))
    ORDER BY id LIMIT %s {skip_locked})
RETURNING id, lease
"""
_CLAIMS: Final = {
    vendor: _CLAIM.format(
        now=now,
        lease_end=database_time_in(str(LEASE_SECONDS), vendor),
        skip_locked="FOR UPDATE SKIP LOCKED" if vendor == "postgresql" else "",
    )
    for vendor, now in DATABASE_NOW.items()
}
_EXTEND: Final = {
    vendor: f"""
UPDATE events_eventsink SET leased_until = {database_time_in(str(LEASE_SECONDS), vendor)}
 WHERE id = %s AND lease = %s AND leased_until IS NOT NULL
"""  # noqa: S608 - constants
    for vendor in DATABASE_NOW
}


class Lease(NamedTuple):
    sink_id: UUID
    number: int


class LeaseLost(Exception):
    """Another worker delivers to the sink, or it was changed, paused or deleted."""


def claim_sinks(*, from_settings: Collection[str], except_for: Collection[UUID], limit: int) -> list[Lease]:
    """Claim sinks that no worker delivers to: those of the API, and of the settings those with one of the names."""
    params = [list(except_for), sorted(from_settings), limit]
    rows = fetch_all("default", _CLAIMS[connection.vendor], params)
    return [Lease(as_uuid(sink_id), number) for sink_id, number in rows]


def extend_leases(leases: Sequence[Lease]) -> list[Lease]:
    """Extend the leases, and return those that were lost."""
    return [each for each in leases if not execute(_EXTEND[connection.vendor], [each.sink_id, each.number])]


def release_lease(lease: Lease) -> None:
    """Let another worker deliver at once."""
    _own(lease).update(leased_until=None)


def require_lease(lease: Lease) -> None:
    """Raise `LeaseLost` if the lease has ended; one statement."""
    if not _own(lease).exists():
        raise LeaseLost


class Progress(NamedTuple):
    """What a worker records: events up to `position` are done, `delivered` of them since the last record."""

    position: int
    delivered: int = 0
    dead_letters: Sequence[DeadLetter] = ()


def record_progress(lease: Lease, progress: Progress) -> None:
    """Record progress, and extend the lease; a former failure is over. Raises `LeaseLost`."""
    changed: dict[str, Any] = {
        "position": progress.position,
        "delivered": F("delivered") + progress.delivered,
        "failures": 0,
        "retry_at": None,
        "leased_until": Now() + timedelta(seconds=LEASE_SECONDS),
    }
    if progress.delivered:
        changed["last_delivery_at"] = Now()
    _record(lease, changed, progress.dead_letters)


def record_failure(lease: Lease, progress: Progress, *, error: str, pause: float) -> None:
    """Record progress before a failed delivery, which is repeated after `pause` seconds. Raises `LeaseLost`."""
    changed: dict[str, Any] = {
        "position": progress.position,
        "delivered": F("delivered") + progress.delivered,
        "failures": F("failures") + 1,
        "retry_at": Now() + timedelta(seconds=pause),
        "last_error": error[:MAX_ERROR_LENGTH].encode("utf-8", "replace").decode().replace("\0", "\ufffd"),
        "last_error_at": Now(),
        "leased_until": Now() + timedelta(seconds=LEASE_SECONDS),
    }
    _record(lease, changed, progress.dead_letters)


def _record(lease: Lease, changed: dict[str, Any], dead_letters: Sequence[DeadLetter]) -> None:
    with write_transaction():
        if not _own(lease).update(**changed):
            raise LeaseLost
        DeadLetter.objects.bulk_create(dead_letters, ignore_conflicts=True)


def _own(lease: Lease) -> Any:
    return EventSink.objects.filter(pk=lease.sink_id, lease=lease.number, leased_until__isnull=False)
