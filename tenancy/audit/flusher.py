"""Background thread that writes aggregated audit records and seals records."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from django.conf import settings
from django.db import connections

from icekeeper.kernel.periodic_thread import PeriodicThread
from tenancy.actor import INTERNAL
from tenancy.audit.chain import seal_records
from tenancy.audit.collector import collector
from tenancy.maintenance import is_read_only

EVERY_SECONDS: Final = 5.0

logger = logging.getLogger("icekeeper.audit")


def start_flushing() -> Callable[[], None]:
    """Start the thread in a process that serves requests (`BACKGROUND_JOBS`); return a function that stops it.

    Stopping writes everything that is pending. Where the settings turn on maintenance mode, no thread is started.
    """
    if settings.ICEKEEPER.maintenance_mode != "off":
        return lambda: None
    thread = PeriodicThread("audit", flush, interval=EVERY_SECONDS)
    thread.start()

    def stop() -> None:
        thread.stop()
        flush(is_last=True)
        connections.close_all()

    return stop


def flush(*, is_last: bool = False) -> None:
    """Write due records, with `is_last` all of them, and seal; errors are logged and retried at the next run."""
    try:
        collector.flush(is_last=is_last)
        if not is_read_only():
            seal_records(actor=INTERNAL)
    except Exception as error:  # noqa: BLE001 - an exception would end the thread
        logger.warning("audit records could not be written or sealed, retrying: %s", error)
