"""Runs of periodic jobs in this process: an error of one is logged, counted and kept, and never propagates."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from time import perf_counter
from typing import Any, Final

from django.db import DatabaseError, InterfaceError, connections

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.metrics import job_ended

MAX_ERROR_LENGTH: Final = 2000

logger = logging.getLogger("icekeeper.jobs")


@dataclass(frozen=True, slots=True)
class JobRun:
    """A run of a job that ended: `error` has the type and the message, and is empty after a success."""

    ended_at: datetime
    seconds: float
    error: str = ""


_last_runs: Final[dict[str, JobRun]] = {}
_lock: Final = Lock()


def last_runs() -> dict[str, JobRun]:
    """Return the last run of each job that has run in this process, by name."""
    with _lock:
        return dict(_last_runs)


def run_job(name: str, function: Callable[[], Any]) -> JobRun:
    """Call `function` in a context of its own and return its run. Connections of the thread go back to the pool.

    The first error of several in a row is logged, and the first success after them.
    """
    began = perf_counter()
    error: Exception | None = None
    try:
        Context().run(function)
    except Exception as raised:  # noqa: BLE001 - an error must not end the thread
        error = raised
    finally:
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()
    seconds = perf_counter() - began
    run = JobRun(now(), seconds, _describe(error))
    with suppress(OSError):  # no file for metrics, which the thread that writes them logs
        job_ended(name, seconds, is_ok=error is None)
    with _lock:
        before = _last_runs.get(name)
        _last_runs[name] = run
    _log(name, error, run, before)
    return run


def error_type(error: str) -> str:
    """Return the type of a `JobRun.error`."""
    return error.partition(":")[0]


def _describe(error: Exception | None) -> str:
    if error is None:
        return ""
    # Errors of other services have a reason for the log, which clients do not see.
    message = getattr(error, "reason", error.message) if isinstance(error, CatalogError) else error
    return f"{type(error).__name__}: {message}"[:MAX_ERROR_LENGTH].replace("\0", "\ufffd")


def _log(name: str, error: Exception | None, run: JobRun, before: JobRun | None) -> None:
    extra = {"job": name, "duration_ms": round(run.seconds * 1000, 3)}
    has_failed = before is not None and bool(before.error)
    if error is None:
        if has_failed:
            logger.info("job %s succeeds again", name, extra=extra)
    elif not has_failed or (before is not None and error_type(before.error) != error_type(run.error)):
        is_expected = isinstance(error, DatabaseError | InterfaceError | CatalogError)
        logger.warning("job %s failed: %s", name, run.error, extra=extra, exc_info=None if is_expected else error)
