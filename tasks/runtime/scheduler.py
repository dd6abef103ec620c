"""The scheduler of a process, which runs its periodic jobs: those of each process, and in a worker those of one worker.

Quick jobs run in the thread of the timers, slow ones in a few other threads: a slow job never delays a quick one. A job
is scheduled again when its run has ended, so that its runs never overlap.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from threading import Event, Lock
from typing import Final

from icekeeper.kernel.retry import backoff_seconds
from tasks.runtime.jobs import Job, Where
from tasks.runtime.runs import run_job
from tasks.runtime.timers import Timers
from tasks.runtime.worker_jobs import WorkerJobs

MAX_SLOW_RUNS: Final = 2
MAX_BACKOFF_SECONDS: Final = 15.0
"""Limit of the pause after failures of a slow job, unless its interval is longer."""
STOP_SECONDS: Final = 5.0
"""Time in which running jobs and last runs end when the process stops."""

logger = logging.getLogger("icekeeper.jobs")


def never() -> bool:
    return False


class Scheduler:
    """Runs `jobs` from `start` to `stop`.

    While `is_paused` returns true, only jobs with `runs_in_maintenance` start. `actor` is passed to the jobs of one
    worker.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        *,
        is_paused: Callable[[], bool] = never,
        actor: object = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timers = Timers(max_threads=MAX_SLOW_RUNS, clock=clock)
        self._schedules = [_Schedule(job, self._timers, is_paused) for job in jobs if job.where is not Where.ONE_WORKER]
        worker_jobs = [job for job in jobs if job.where is Where.ONE_WORKER]
        self._worker_jobs = WorkerJobs(worker_jobs, self._timers, is_paused, actor) if worker_jobs else None

    def start(self) -> None:
        """Start the jobs. Returns when those with `first_run_within` have run, or when that time has passed."""
        self.schedule()
        self._timers.start()
        for schedule in self._schedules:
            schedule.wait_for_first_run()

    def schedule(self) -> None:
        """Schedule the first runs, as `start`, for callers that drive the timers themselves."""
        for schedule in self._schedules:
            schedule.begin()
        if self._worker_jobs is not None:
            self._worker_jobs.begin()

    def stop(self) -> None:
        """Start no further runs but the last ones (`at_stop`), and return when all ended or `STOP_SECONDS` passed.

        A run that takes longer ends with the process.
        """
        until = time.monotonic() + STOP_SECONDS
        if self._worker_jobs is not None:
            self._worker_jobs.end()
        for schedule in self._schedules:
            schedule.end()
        if not self._timers.stop(until):
            logger.warning("periodic jobs did not end within %g s", STOP_SECONDS)


class _Schedule:
    """The runs of one job in this process."""

    def __init__(self, job: Job, timers: Timers, is_paused: Callable[[], bool]) -> None:
        self._job, self._timers, self._is_paused = job, timers, is_paused
        self._function, self._at_stop = job.resolve(), job.resolve_at_stop()
        self._interval = job.interval()
        self._failures = 0
        self._has_run = Event()
        self._lock = Lock()
        self._is_running = self._is_ending = False

    def begin(self) -> None:
        # Quick jobs read something that the process needs; slow ones write what it has collected.
        is_due = self._job.is_quick or self._job.first_run_within > 0
        self._timers.call_at(self._timers.clock() + (0.0 if is_due else self._interval), self._start_run)

    def wait_for_first_run(self) -> None:
        if self._job.first_run_within > 0:
            self._has_run.wait(self._job.first_run_within)

    def end(self) -> None:
        """Start no further run but the last one, after the current one has ended."""
        with self._lock:
            needs_last_run = self._at_stop is not None and not self._is_running and not self._is_ending
            self._is_ending = True
            if not needs_last_run:
                return
            self._is_running = True
        self._timers.call_slowly(self._run)

    def _start_run(self) -> None:
        with self._lock:
            if self._is_ending:
                return
            self._is_running = True
        if self._job.is_quick:
            self._run()
        else:
            self._timers.call_slowly(self._run)

    def _run(self) -> None:
        began = self._timers.clock()
        if not self._is_ending and self._may_run():
            self._count(run_job(self._job.name, self._function).error)
        self._has_run.set()
        with self._lock:
            self._is_running = False
            is_last = self._is_ending
        if not is_last:
            self._timers.call_at(max(began + self._pause(), self._timers.clock()), self._start_run)
        elif self._at_stop is not None and self._may_run():
            run_job(self._job.name, self._at_stop)

    def _may_run(self) -> bool:
        return self._job.runs_in_maintenance or not self._is_paused()

    def _count(self, error: str) -> None:
        self._failures = self._failures + 1 if error else 0

    def _pause(self) -> float:
        """Return the seconds from the beginning of this run to the next one."""
        if self._failures <= 1 or self._job.is_quick:
            return self._interval
        limit = max(self._interval, MAX_BACKOFF_SECONDS)
        return max(self._interval, backoff_seconds(self._failures, first=self._interval, limit=limit))
