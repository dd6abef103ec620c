"""A thread of a server process that does the same again and again beside the requests."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

from django.db import connections


class PeriodicThread:
    """Calls `work` every `interval` seconds and once more at the end. `work` must not raise.

    Its database connections are given back after each time.
    """

    def __init__(self, name: str, work: Callable[[], object], *, interval: float) -> None:
        self._work, self._interval = work, interval
        self._ends = Event()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the last work is done."""
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._ends.wait(self._interval)
            try:
                self._work()
            finally:
                for connection in connections.all(initialized_only=True):
                    connection.close()  # this thread's own; the pool has it back
