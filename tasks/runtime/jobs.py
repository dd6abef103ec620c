"""Periodic jobs, which run independently of requests: how often, and in which processes (`PERIODIC_JOBS`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from django.conf import settings
from django.utils.module_loading import import_string

MINUTE: Final = 60.0
HOUR: Final = 3600.0


class Where(Enum):
    """The processes that run a job."""

    EACH_SERVER_PROCESS = "each server process"
    ONE_WORKER = "one worker"
    """One worker at a time, of all that use the database: it claims the job's row (`tasks.runtime.claims`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A periodic job. Functions are named by dotted paths, which are resolved when a process starts.

    A failed run is logged and does not end the schedule. Never do two runs of a job overlap in a process.
    """

    name: str
    run: str
    """A function without parameters; with `ONE_WORKER` a service, which gets `actor`."""
    every: float | str
    """Seconds from the beginning of a run to the next one, or the name of the setting that has them."""
    where: Where
    is_quick: bool = False
    """Whether a run is at most one short statement. Slow jobs never delay quick ones, and these have no backoff."""
    offset: float | None = None
    """With `ONE_WORKER`: run at this time after multiples of `every` since 1970 (UTC)."""
    first_run_within: float = 0.0
    """Seconds for which the process waits for a first run before it serves; 0 if it does not wait."""
    at_stop: str | None = None
    """A function that is called when the process stops, after the last run."""
    runs_in_maintenance: bool = False
    """Whether it also runs while maintenance mode is read-only."""
    applies: str | None = None
    """A function that returns whether the process needs the job at all, asked when it starts."""

    def interval(self) -> float:
        """Return `every` in seconds."""
        return float(getattr(settings.ICEKEEPER, self.every) if isinstance(self.every, str) else self.every)

    def resolve(self) -> Callable[..., Any]:
        """Return the function `run`."""
        return _resolve(self.run)

    def resolve_at_stop(self) -> Callable[[], Any] | None:
        return None if self.at_stop is None else _resolve(self.at_stop)

    def is_needed(self) -> bool:
        """Return whether the job applies to this process."""
        return self.applies is None or bool(_resolve(self.applies)())


def jobs_of_server_processes() -> list[Job]:
    """Return the jobs that apply to a process that serves requests."""
    return _jobs_in(Where.EACH_SERVER_PROCESS)


def jobs_of_workers() -> list[Job]:
    """Return the jobs that apply to a worker process."""
    return _jobs_in(Where.ONE_WORKER)


def _jobs_in(where: Where) -> list[Job]:
    return [job for job in settings.PERIODIC_JOBS if job.where is where and job.is_needed()]


def _resolve(path: str) -> Callable[..., Any]:
    function: Callable[..., Any] = import_string(path)
    return function
