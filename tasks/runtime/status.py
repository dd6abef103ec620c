"""The last run of each periodic job, for health reports: without messages of errors, which may be confidential."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple

from tasks.models import PeriodicJob
from tasks.runtime.jobs import Job, jobs_of_server_processes, jobs_of_workers
from tasks.runtime.runs import error_type, last_runs


class JobStatus(NamedTuple):
    """The last run of a job that ended; `unknown` if there is none yet. `error_type` is empty after a success."""

    name: str
    status: Literal["ok", "error", "unknown"]
    ended_at: datetime | None
    seconds: float | None
    error_type: str


def server_process_job_statuses() -> list[JobStatus]:
    """Return the jobs of a process that serves requests, as they ran in this one."""
    runs = last_runs()
    return [
        _status(job, run.ended_at, run.seconds, run.error) if (run := runs.get(job.name)) else _status(job)
        for job in jobs_of_server_processes()
    ]


def worker_job_statuses() -> list[JobStatus]:
    """Return the jobs of one worker, as the workers recorded them: one statement."""
    rows = {row.name: row for row in PeriodicJob.objects.filter(last_finished_at__isnull=False)}
    return [
        _status(job, row.last_finished_at, row.last_duration, row.last_error)
        if (row := rows.get(job.name))
        else _status(job)
        for job in jobs_of_workers()
    ]


def _status(job: Job, ended_at: datetime | None = None, seconds: float | None = None, error: str = "") -> JobStatus:
    if ended_at is None:
        return JobStatus(job.name, "unknown", None, None, "")
    return JobStatus(job.name, "error" if error else "ok", ended_at, seconds, error_type(error))
