"""The thread of a server process that writes its counts down every so often and once more when the process ends."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread

from django.conf import settings
from django.db import connections

from management.services.endpoint_statistics import record_calls
from management.statistics.counter import CallCounter, call_counter
from tenancy.maintenance import is_read_only

logger = logging.getLogger("icekeeper.statistics")


def start_flushing() -> Callable[[], None]:
    """Begin, in a process that serves requests (`SERVER_ATTENDANTS`); what is returned ends it, after a last write."""
    flusher = Flusher(call_counter, interval=settings.ICEKEEPER.endpoint_stat_flush_interval)
    flusher.start()
    return flusher.stop


class Flusher:
    def __init__(self, counter: CallCounter, *, interval: float) -> None:
        self._counter = counter
        self._interval = interval
        self._ends = Event()
        self._thread = Thread(target=self._run, name="endpoint-statistics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()

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
        finally:
            for connection in connections.all(initialized_only=True):
                connection.close()  # this thread's own; the pool has it back

    def _run(self) -> None:
        while not self._ends.wait(self._interval):
            self.flush()
        self.flush()
