"""Periodic jobs of one worker, as one worker process runs them: it claims their rows when they are due.

The process knows when each job is due and asks the database only then: an idle worker sends two statements a run,
besides those of the job itself, and one claim takes all jobs that are due.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Lock
from typing import Any, Final, NamedTuple

from icekeeper.kernel.retry import backoff_seconds
from tasks.runtime.claims import (
    LEASE_SECONDS,
    Claim,
    claim_due_jobs,
    extend_claims,
    finish_claim,
    release_claim,
    seconds_until_due,
)
from tasks.runtime.jobs import Job, Where
from tasks.runtime.runs import run_job
from tasks.runtime.timers import Timers

CLAIM_RUNS: Final = "claim-jobs"
"""Name under which claims are counted and logged, as if they were a job."""
HEARTBEAT_SECONDS: Final = LEASE_SECONDS / 4
MIN_PAUSE_SECONDS: Final = 0.05
"""Pause before a claim of what is due already: the clock of the database may be a little behind."""
PAUSED_SECONDS: Final = 5.0
"""Pause before another look while jobs are paused."""
FIRST_BACKOFF_SECONDS: Final = 60.0
"""Pause after the first failure of a job; after a failed claim it is a tenth."""

logger = logging.getLogger("icekeeper.jobs")


class WorkerJobs:
    """The jobs of one worker in this process."""

    def __init__(self, jobs: Sequence[Job], timers: Timers, is_paused: Callable[[], bool], actor: object) -> None:
        self._jobs = {job.name: job for job in jobs}
        self._timers, self._is_paused, self._actor = timers, is_paused, actor
        self._due = dict.fromkeys(self._jobs, timers.clock())
        """When each job that does not run here can be claimed, by the clock of the timers."""
        self._failures = dict.fromkeys([*self._jobs, CLAIM_RUNS], 0)
        self._claims: dict[str, Claim] = {}
        """Those of this process that have not ended."""
        self._next_look = float("inf")
        self._is_ending = False
        self._lock = Lock()

    def begin(self) -> None:
        self._look_at(self._timers.clock())

    def end(self) -> None:
        """Start no further run; claims whose run has not started are released."""
        self._is_ending = True

    def _look_at(self, due: float) -> None:
        """Look at `due`, unless a look is scheduled before that."""
        with self._lock:
            if due >= self._next_look:
                return
            self._next_look = due
        self._timers.call_at(due, partial(self._look, due))

    def _look(self, due: float) -> None:
        """Extend the claims, claim what is due, and schedule the next look."""
        with self._lock:
            if due != self._next_look:  # an earlier look has replaced this one
                return
            self._next_look = float("inf")
        clock = self._timers.clock()
        run = run_job(CLAIM_RUNS, self._extend_and_claim)
        self._failures[CLAIM_RUNS] = self._failures[CLAIM_RUNS] + 1 if run.error else 0
        if run.error:
            limit = FIRST_BACKOFF_SECONDS
            self._look_at(clock + backoff_seconds(self._failures[CLAIM_RUNS], first=limit / 10, limit=limit))
        else:
            self._look_at(self._next_due())

    def _next_due(self) -> float:
        now = self._timers.clock()
        with self._lock:
            is_running = bool(self._claims)
            first = min(self._due.values(), default=float("inf"))
        first = max(first, now + MIN_PAUSE_SECONDS)
        return min(first, now + HEARTBEAT_SECONDS) if is_running else first

    def _extend_and_claim(self) -> None:
        with self._lock:
            current = list(self._claims.values())
            clock = self._timers.clock()
            due = [name for name, at in self._due.items() if at <= clock]
        if current:
            extend_claims(current)
        if not due:
            return
        if self._is_paused():
            with self._lock:
                self._due.update(dict.fromkeys(due, clock + PAUSED_SECONDS))
            return
        claims = claim_due_jobs(due)
        others = set(due) - {claim.name for claim in claims}
        pauses = seconds_until_due(others) if others else {}
        with self._lock:
            for name, seconds in pauses.items():
                self._due[name] = clock + seconds
            for claim in claims:
                del self._due[claim.name]
                self._claims[claim.name] = claim
        for claim in claims:
            self._timers.call_slowly(partial(self._run, claim))

    def _run(self, claim: Claim) -> None:
        job, began = self._jobs[claim.name], self._timers.clock()
        if self._is_ending or self._is_paused():
            run_job(CLAIM_RUNS, partial(release_claim, claim))
            self._end(claim, began + PAUSED_SECONDS)
            return
        ended = _run_claimed(job, claim, actor=self._actor, failures=self._failures[job.name])
        self._failures[job.name] = ended.failures
        self._end(claim, began + (ended.next_run_at - claim.started_at).total_seconds())

    def _end(self, claim: Claim, due: float) -> None:
        with self._lock:
            del self._claims[claim.name]
            self._due[claim.name] = due
        self._look_at(max(due, self._timers.clock() + MIN_PAUSE_SECONDS))


class _EndedRun(NamedTuple):
    next_run_at: datetime
    failures: int


def _run_claimed(job: Job, claim: Claim, *, actor: object, failures: int) -> _EndedRun:
    """Run a claimed job that has failed `failures` times in a row, and end the claim."""
    run = run_job(job.name, partial(job.resolve(), actor=actor))
    failures = failures + 1 if run.error else 0
    next_run_at = next_run(job, claim.started_at, failures)

    def finish() -> None:
        if not finish_claim(claim, next_run_at=next_run_at, seconds=run.seconds, error=run.error):
            logger.warning("another worker has taken over job %s", job.name, extra={"job": job.name})

    run_job(CLAIM_RUNS, finish)
    return _EndedRun(next_run_at, failures)


def next_run(job: Job, started_at: datetime, failures: int) -> datetime:
    """Return when a job is due that started at `started_at` and has failed `failures` times in a row."""
    interval = job.interval()
    if failures:
        backoff = backoff_seconds(failures, first=min(FIRST_BACKOFF_SECONDS, interval), limit=interval)
        return started_at + timedelta(seconds=backoff)
    if job.offset is None:
        return started_at + timedelta(seconds=interval)
    seconds = started_at.timestamp() - job.offset
    return datetime.fromtimestamp((seconds // interval + 1) * interval + job.offset, UTC)


def run_due_jobs(jobs: Sequence[Job], *, actor: object, checkpoint: Callable[[], Any]) -> None:
    """Run those of `jobs` that are due, in this thread; `checkpoint` is called before each and may raise."""
    by_name = {job.name: job for job in jobs if job.where is Where.ONE_WORKER}
    checkpoint()
    seconds_until_due(by_name)  # creates missing rows
    for name, job in by_name.items():
        checkpoint()
        for claim in claim_due_jobs([name]):
            _run_claimed(job, claim, actor=actor, failures=0)
