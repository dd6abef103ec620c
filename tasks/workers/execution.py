"""Execution of leased tasks: the work of each queue, and how an attempt ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from django.conf import settings

from catalog.services.file_statistics import read_file_statistics
from catalog.services.locations.purge import purge
from catalog.services.tables.drop import expire_tabular
from catalog.services.warehouse_statistics import record_statistics
from icekeeper.kernel.errors.types import CatalogError
from tasks.models import Task
from tasks.queue.cleanup import clean_task_log
from tasks.queue.leases import Lease, LeaseLost, StopRequested
from tenancy.actor import INTERNAL

Work = Callable[[Lease, Callable[[], object]], None]
"""Executes a task. The second argument must be called before each step of long work."""

WORK: Final[dict[str, Work]] = {
    Task.Queue.SOFT_DELETION.value: lambda lease, _: expire_tabular(actor=INTERNAL, lease=lease),
    Task.Queue.TABULAR_PURGE.value: purge,
    Task.Queue.TASK_LOG_CLEANUP.value: clean_task_log,
    Task.Queue.STATISTICS.value: record_statistics,
    Task.Queue.FILE_STATISTICS.value: read_file_statistics,
}

logger = logging.getLogger("icekeeper.tasks")


def slots_by_setting() -> dict[str, int]:
    """Return the number of threads for each queue in a worker process."""
    conf = settings.ICEKEEPER
    return {
        Task.Queue.SOFT_DELETION.value: conf.task_soft_deletion_workers,
        Task.Queue.TABULAR_PURGE.value: conf.task_tabular_purge_workers,
        Task.Queue.TASK_LOG_CLEANUP.value: conf.task_log_cleanup_workers,
        Task.Queue.STATISTICS.value: conf.task_statistics_workers,
        Task.Queue.FILE_STATISTICS.value: conf.task_file_statistics_workers,
    }


class WorkerStopped(Exception):
    """The process must stop, or pause in maintenance mode: the lease of the current task is released."""


def execute_task(lease: Lease, check: Callable[[], object]) -> None:
    """Execute a leased task; a failed one is retried later. `check` raises `WorkerStopped` to release the task."""
    began = time.monotonic()
    fields = {
        "task": str(lease.task_id),
        "queue": lease.queue,
        "warehouse": str(lease.warehouse_id),
        "entity": str(lease.entity_id),
        "attempt": lease.attempt,
    }

    def checkpoint() -> None:
        check()
        lease.extend()

    try:
        check()
        WORK[lease.queue](lease, checkpoint)
    except WorkerStopped:
        lease.release()
        logger.info("task released", extra=fields)
    except StopRequested:
        lease.stop()
        logger.info("task stopped", extra=fields)
    except LeaseLost as lost:
        logger.warning("task lost: %s", lost, extra=fields)
    except CatalogError as error:
        _fail(lease, error.message, fields)
    except Exception as error:
        logger.exception("task failed unexpectedly", extra=fields)
        _fail(lease, f"{type(error).__name__}: {error}", fields)
    else:
        logger.info("task done", extra=fields | {"duration_ms": round((time.monotonic() - began) * 1000, 3)})


def _fail(lease: Lease, message: str, fields: Mapping[str, Any]) -> None:
    pause = lease.fail(message)
    if pause is None:
        logger.error("task failed for good: %s", message, extra=fields)
    else:
        logger.warning("task failed: %s", message, extra={**fields, "next_try_in_s": round(pause, 1)})
