"""Timers of a process: one thread that calls quick functions when they are due, and a few threads for slow ones."""

from __future__ import annotations

import heapq
import logging
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from threading import Condition, Thread
from typing import Final

Call = Callable[[], None]

logger = logging.getLogger("icekeeper.jobs")


class Timers:
    """Calls each function at its time, until `stop`. Functions should not raise: what they raise is only logged.

    Times are seconds of `clock`. Slow functions run in at most `max_threads` threads, which are created when there is
    work and end without it; further ones wait in order.
    """

    def __init__(self, *, max_threads: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock: Final = clock
        self._max_threads = max_threads
        self._changed = Condition()
        self._timers: list[tuple[float, int, Call]] = []
        self._numbers = count()
        self._slow_calls: deque[Call] = deque()
        self._threads = 0
        self._is_stopping = False
        self._thread = Thread(target=self._run, name="scheduler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def call_at(self, due: float, call: Call) -> None:
        """Call a quick function in the thread of the timers at `due`; never after `stop`."""
        with self._changed:
            if not self._is_stopping:
                heapq.heappush(self._timers, (due, next(self._numbers), call))
                self._changed.notify_all()

    def call_slowly(self, call: Call) -> None:
        """Call a function in a thread of its own as soon as one is free, also while `stop` waits."""
        with self._changed:
            self._slow_calls.append(call)
            if self._threads < self._max_threads:
                self._threads += 1
                Thread(target=self._run_slow_calls, name="job", daemon=True).start()

    def run_due(self) -> None:
        """Call what is due, in this thread."""
        while (call := self._take_due()) is not None:
            _call(call)

    def stop(self, until: float) -> bool:
        """Drop the timers, wait for slow functions until `until` (monotonic), and return whether all of them ended."""
        with self._changed:
            self._is_stopping = True
            self._timers.clear()
            self._changed.notify_all()
            while self._threads and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            has_ended = not self._threads
        if self._thread.is_alive():
            self._thread.join(max(0.0, until - time.monotonic()))
        return has_ended and not self._thread.is_alive()

    def _take_due(self) -> Call | None:
        with self._changed:
            if self._timers and self._timers[0][0] <= self.clock():
                return heapq.heappop(self._timers)[2]
            return None

    def _run(self) -> None:
        while True:
            self.run_due()
            with self._changed:
                if self._is_stopping:
                    return
                if not self._timers:
                    self._changed.wait()
                elif (left := self._timers[0][0] - self.clock()) > 0:
                    self._changed.wait(left)

    def _run_slow_calls(self) -> None:
        while True:
            with self._changed:
                if not self._slow_calls:
                    self._threads -= 1
                    self._changed.notify_all()
                    return
                call = self._slow_calls.popleft()
            _call(call)


def _call(call: Call) -> None:
    try:
        call()
    except Exception:
        logger.exception("a job could not be started or ended")
