"""The thread of a server process that writes down what was summed up, and seals what was written."""

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
    """Begin, in a process that serves requests (`BACKGROUND_JOBS`); what is returned ends it, after a last write.

    In maintenance mode nothing is written.
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
    try:
        collector.flush(is_last=is_last)
        if not is_read_only():
            seal_records(actor=INTERNAL)
    except Exception as error:  # noqa: BLE001 - a thread that ends at the first error would write nothing any more
        logger.warning("audit records could not be written or sealed, they wait: %s", error)
