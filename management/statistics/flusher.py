"""The thread of a server process that writes its counts down every so often and once more when the process ends."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.conf import settings

from icekeeper.kernel.periodic_thread import PeriodicThread
from management.services.endpoint_statistics import record_calls
from management.statistics.counter import CallCounter, call_counter
from tenancy.maintenance import is_read_only

logger = logging.getLogger("icekeeper.statistics")


def start_flushing() -> Callable[[], None]:
    """Begin, in a process that serves requests (`BACKGROUND_JOBS`); what is returned ends it, after a last write."""
    flusher = Flusher(call_counter, interval=settings.ICEKEEPER.endpoint_stat_flush_interval)
    flusher.start()
    return flusher.stop


class Flusher(PeriodicThread):
    def __init__(self, counter: CallCounter, *, interval: float) -> None:
        super().__init__("endpoint-statistics", self.flush, interval=interval)
        self._counter = counter

    def flush(self) -> None:
        """Write down what was counted. When that fails, and in maintenance mode, it is kept for the next time.

        What was counted counts twice when the database committed and was lost before it could say so.
        """
        if is_read_only():
            return
        taken = self._counter.take()
        if not taken:
            return
        try:
            record_calls(taken)
        except Exception as error:  # noqa: BLE001 - a thread that ends at the first error would count for nothing
            self._counter.give_back(taken)
            logger.warning("endpoint statistics could not be written, they are kept: %s", error)
