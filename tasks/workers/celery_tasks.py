"""Celery tasks: one for each queue, which executes the due tasks of that queue.

A message contains nothing but the queue, so duplicate, old and forged ones have no effect beyond a look at the queue.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from celery import Celery, signals
from django.db import connections
from django.db.backends.postgresql.base import DatabaseWrapper as PostgreSQL

from icekeeper.kernel.db.checks import UnusableDatabase, check_databases
from icekeeper.kernel.errors.types import CatalogError
from storage.secrets.stores import require_readable_secrets
from tasks.models import NO_ID
from tasks.queue.celery_app import CELERY_QUEUES, send_message, task_name
from tasks.queue.celery_messages import NoBroker
from tasks.queue.leases import claim_tasks, queue_state
from tasks.workers.execution import WorkerStopped, execute_task, slots_by_setting
from tenancy.maintenance import is_read_only_now

MAX_SECONDS: Final = 10.0
"""Time in which one message starts tasks, so that messages of other queues do not wait for long."""


class _StopFlag:
    """Set once for this worker and the processes that it has forked."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 1)
        self._parent: int | None = None

    def set(self) -> None:
        self._shared[0] = 1

    def watch_parent(self) -> None:
        """In a forked process: also stop when the worker itself was killed."""
        self._parent = os.getppid()

    def is_set(self) -> bool:
        return self._shared[0] != 0 or (self._parent is not None and os.getppid() != self._parent)


_stop_flag: Final = _StopFlag()


def register_tasks(app: Celery) -> None:
    """Register the tasks of all queues, and the handlers of the worker's signals."""
    app.conf.worker_concurrency = max(1, sum(slots_by_setting().values()))
    for queue in CELERY_QUEUES:
        app.task(name=task_name(queue), ignore_result=True)(_task_of(queue))
    signals.setup_logging.connect(_keep_logging, weak=False)
    signals.worker_init.connect(prepare_process, weak=False)
    signals.beat_init.connect(prepare_process, weak=False)
    signals.worker_process_init.connect(_watch_parent, weak=False)
    signals.worker_shutting_down.connect(_stop, weak=False)


def _task_of(queue: str) -> Callable[[], int]:
    def run() -> int:
        return run_due_tasks(queue)

    return run


def run_due_tasks(queue: str) -> int:
    """Execute due tasks of `queue` until none is left or `MAX_SECONDS` have passed; return their number.

    If there is more than one, another message lets the next free process help.
    """
    done, last_warehouse = 0, NO_ID
    until = time.monotonic() + MAX_SECONDS
    while time.monotonic() < until and not _should_pause():
        leases = claim_tasks({queue: 1}, after=last_warehouse)
        if not leases:
            break
        (lease,) = leases
        if not done:
            try:
                _let_others_help(queue)
            except Exception:
                lease.release()
                raise
        execute_task(lease, _check)
        last_warehouse = lease.warehouse_id
        done += 1
    return done


def _let_others_help(queue: str) -> None:
    if queue_state([queue]).is_due:
        with suppress(NoBroker):
            send_message(queue)


def prepare_process(**_: Any) -> None:
    """Exit with a message if the database or the stored secrets cannot be used. Leaves nothing open that a fork would
    share."""
    try:
        check_databases()
        require_readable_secrets()
    except (UnusableDatabase, CatalogError) as error:
        raise SystemExit(str(error)) from error
    for connection in connections.all(initialized_only=True):
        connection.close()
        if isinstance(connection, PostgreSQL):
            connection.close_pool()


def _should_pause() -> bool:
    return _stop_flag.is_set() or is_read_only_now()


def _check() -> None:
    if _should_pause():
        raise WorkerStopped


def _keep_logging(**_: Any) -> None:
    """Keep the logging of the settings: Celery configures none if the signal has a receiver."""


def _watch_parent(**_: Any) -> None:
    _stop_flag.watch_parent()


def _stop(**_: Any) -> None:
    _stop_flag.set()
