"""Claims of workers on periodic jobs: of all workers that use a database, one at a time runs a job.

The clock of the database decides. A claim is one compare-and-set statement; its lease expires unless it is extended, so
that another worker takes over the job of a dead one. Every later update compares the number of the run: a worker that
was too slow changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.db import connection
from django.db.models import Q
from django.db.models.functions import Now

from icekeeper.kernel.db.sql import DATABASE_NOW, as_datetime, database_time_in, fetch_all
from tasks.models import PeriodicJob

LEASE_SECONDS: Final = 120

_CLAIM: Final = """
UPDATE tasks_periodicjob SET runs = runs + 1, last_started_at = {now}, leased_until = {lease_end}
 WHERE name IN (
   SELECT name FROM tasks_periodicjob
    WHERE name = ANY(%s) AND next_run_at <= {now} AND (leased_until IS NULL OR leased_until < {now})
    ORDER BY name {skip_locked})
RETURNING name, runs, last_started_at
"""
_CLAIMS: Final = {
    vendor: _CLAIM.format(
        now=now,
        lease_end=database_time_in(str(LEASE_SECONDS), vendor),
        skip_locked="FOR UPDATE SKIP LOCKED" if vendor == "postgresql" else "",
    )
    for vendor, now in DATABASE_NOW.items()
}


class Claim(NamedTuple):
    """A claimed job; `run` is the number of its run, `started_at` is by the clock of the database."""

    name: str
    run: int
    started_at: datetime


def claim_due_jobs(names: Collection[str]) -> list[Claim]:
    """Claim those of `names` that are due and that no other worker runs."""
    rows = fetch_all("default", _CLAIMS[connection.vendor], [sorted(names)])
    return sorted(Claim(name, run, as_datetime(started_at)) for name, run, started_at in rows)


def seconds_until_due(names: Collection[str]) -> dict[str, float]:
    """Return in how many seconds each job can be claimed, at least 0. A job without a row gets one and is due."""
    rows = PeriodicJob.objects.filter(name__in=names).annotate(at=Now())
    found = {
        name: (max(next_run_at, leased_until or next_run_at) - at).total_seconds()
        for name, next_run_at, leased_until, at in rows.values_list("name", "next_run_at", "leased_until", "at")
    }
    missing = sorted(set(names) - found.keys())
    if missing:
        PeriodicJob.objects.bulk_create([PeriodicJob(name=name) for name in missing], ignore_conflicts=True)
    return {name: max(0.0, found.get(name, 0.0)) for name in names}


def extend_claims(claims: Sequence[Claim]) -> None:
    """Extend the leases of those claims that no other worker has taken over."""
    _own(claims).update(leased_until=Now() + timedelta(seconds=LEASE_SECONDS))


def release_claim(claim: Claim) -> None:
    """Let any worker run the job at once."""
    _own([claim]).update(leased_until=None)


def finish_claim(claim: Claim, *, next_run_at: datetime, seconds: float, error: str) -> bool:
    """Record the end of a run that took `seconds`, and end the claim; False if another worker has taken it over."""
    return bool(
        _own([claim]).update(
            next_run_at=next_run_at, leased_until=None, last_finished_at=Now(), last_duration=seconds, last_error=error
        )
    )


def _own(claims: Sequence[Claim]) -> Any:
    own = Q()
    for claim in claims:
        own |= Q(name=claim.name, runs=claim.run)
    return PeriodicJob.objects.filter(own, leased_until__isnull=False)
