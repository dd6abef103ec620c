"""The worker process: executes due tasks one at a time, longest due first, and runs periodic jobs at the same time."""

from __future__ import annotations

import logging
import os
import random
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.db import close_old_connections, connections

from catalog.services.locations.purge import purge
from catalog.services.tables.drop import expire_tabular
from icekeeper.kernel.errors.types import CatalogError
from tasks.leases import Lease, LeaseLost, lease_due_task
from tasks.models import Task
from tasks.runtime.jobs import jobs_of_workers
from tasks.runtime.scheduler import Scheduler
from tasks.runtime.worker_jobs import run_due_jobs
from tenancy.actor import INTERNAL
from tenancy.maintenance import is_read_only_now

Work = Callable[[Lease, Callable[[], object]], None]
"""Executes a task. The second argument must be called before each step of long work."""

WORK: dict[str, Work] = {
    Task.Queue.SOFT_DELETION.value: lambda lease, _: expire_tabular(actor=INTERNAL, lease=lease),
    Task.Queue.TABULAR_PURGE.value: purge,
}

JITTER_SECONDS = 0.5
PAUSE_AFTER_ERROR = 5.0
MAX_SLEEP_SECONDS = 1.0
"""Seconds between two checks whether the parent process is alive."""

logger = logging.getLogger("icekeeper.tasks")


class WorkerStopped(Exception):
    """The process must stop, or pause in maintenance mode: the lease of the current task is released."""


class Worker:
    """Loops until `stop`. With `parent`, the id of the process that started it, it also stops when that one has ended.

    In maintenance mode it waits.
    """

    def __init__(self, *, poll_interval: float, parent: int | None = None) -> None:
        self.poll_interval, self.parent = poll_interval, parent
        self.is_stopping = False
        self._wake, self._waker = os.pipe()

    def stop(self, *_: Any) -> None:
        """Stop the loop. A signal handler, so it must not lock anything."""
        if not self.is_stopping:
            self.is_stopping = True
            os.write(self._waker, b".")

    def run(self) -> None:
        """Execute tasks until `stop` is called; errors do not end the loop."""
        logger.info("worker started", extra={"pid": os.getpid()})
        while not self._should_stop():
            if is_read_only_now():
                self._sleep(MAX_SLEEP_SECONDS)
                continue
            try:
                pause = 0.0 if self.work() else self.poll_interval + random.uniform(0, JITTER_SECONDS)  # noqa: S311
            except WorkerStopped:
                continue
            except Exception:
                logger.exception("the worker failed")
                pause = PAUSE_AFTER_ERROR
            close_old_connections()
            self._sleep(pause)
        connections.close_all()
        logger.info("worker stopped", extra={"pid": os.getpid()})

    def run_once(self) -> None:
        """Execute all due tasks and periodic jobs, then return."""
        with suppress(WorkerStopped):
            run_due_jobs(jobs_of_workers(), actor=INTERNAL, checkpoint=self._checkpoint)
            while not self._should_pause() and self.work():
                close_old_connections()

    def work(self) -> bool:
        """Execute a due task; False if there is none. A failed task is retried later."""
        lease = lease_due_task(list(WORK))
        if lease is None:
            return False
        began = time.monotonic()
        fields = {
            "task": str(lease.task_id),
            "queue": lease.queue,
            "warehouse": str(lease.warehouse_id),
            "entity": str(lease.entity_id),
            "attempt": lease.attempt,
        }

        def checkpoint() -> None:
            self._checkpoint()
            lease.extend()

        try:
            WORK[lease.queue](lease, checkpoint)
        except WorkerStopped:
            lease.release()
            raise
        except LeaseLost as lost:
            logger.warning("task lost: %s", lost, extra=fields)
        except CatalogError as error:
            self._fail(lease, error.message, fields)
        except Exception as error:
            logger.exception("task failed unexpectedly", extra=fields)
            self._fail(lease, f"{type(error).__name__}: {error}", fields)
        else:
            logger.info("task done", extra=fields | {"duration_ms": round((time.monotonic() - began) * 1000, 3)})
        return True

    def _fail(self, lease: Lease, message: str, fields: dict[str, Any]) -> None:
        pause = lease.fail(message)
        logger.warning("task failed: %s", message, extra=fields | {"next_try_in_s": round(pause, 1)})

    def _checkpoint(self) -> None:
        if self._should_pause():
            raise WorkerStopped

    def _should_pause(self) -> bool:
        return is_read_only_now() or self._should_stop()

    def _should_stop(self) -> bool:
        return self.is_stopping or (self.parent is not None and os.getppid() != self.parent)

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        while (left := until - time.monotonic()) > 0 and not self._should_stop():
            poll.poll(min(left, MAX_SLEEP_SECONDS) * 1000)


def run_worker(*, parent: int | None = None, once: bool = False) -> None:
    """Run a worker until SIGTERM or SIGINT, which release the current task; `once`: only what is due."""
    worker = Worker(poll_interval=settings.ICEKEEPER.task_poll_interval, parent=parent)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, worker.stop)
    if once:
        worker.run_once()
        return
    scheduler = Scheduler(jobs_of_workers(), is_paused=is_read_only_now, actor=INTERNAL)
    scheduler.start()
    try:
        worker.run()
    finally:
        scheduler.stop()
