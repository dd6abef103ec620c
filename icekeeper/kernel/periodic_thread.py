"""A background thread of a server process that repeats its work at an interval."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

from django.db import connections


class PeriodicThread:
    """Calls `work` every `interval` seconds and once more when it stops. `work` must not raise.

    The thread's database connections return to the pool after each call.
    """

    def __init__(self, name: str, work: Callable[[], object], *, interval: float) -> None:
        self._work, self._interval = work, interval
        self._stopping = Event()
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return after the last call of `work`."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._stopping.wait(self._interval)
            try:
                self._work()
            finally:
                for connection in connections.all(initialized_only=True):
                    connection.close()
