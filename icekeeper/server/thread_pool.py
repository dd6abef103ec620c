"""The threads of a server process that run requests."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_EXTRA_THREADS = 64
"""Threads in addition to the configured number, while as many requests wait for other requests."""


class ThreadPool(Generic[T]):
    """Calls `work` for submitted items, in their order, in `size` threads and one more for each thread that waits.

    `at_end` is called in a thread that ends. A `SlotPool` of `icekeeper.kernel.thread_slots`.
    """

    def __init__(self, size: int, work: Callable[[T], None], at_end: Callable[[], None]) -> None:
        self._size, self._work, self._at_end = size, work, at_end
        self._submitted: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        self._counting = threading.Lock()
        self._running = self._waiting = 0

    def start(self) -> None:
        self._running = self._size
        for _ in range(self._size):
            self._start_thread()

    def submit(self, item: T) -> None:
        self._submitted.put(item)

    def stop(self) -> None:
        """Let each thread end when no item is left."""
        for _ in range(self._size + MAX_EXTRA_THREADS):
            self._submitted.put(None)

    def begin_wait(self) -> None:
        """Start another thread if needed, because the request of this thread waits for other requests."""
        with self._counting:
            self._waiting += 1
            is_needed = self._running - self._waiting < self._size and self._running < self._size + MAX_EXTRA_THREADS
            self._running += is_needed
        if is_needed:
            try:
                self._start_thread()
            except RuntimeError:  # the system cannot start a thread: this one keeps its slot
                with self._counting:
                    self._running -= 1

    def end_wait(self) -> None:
        """Continue at once; one thread ends when it has finished its request."""
        with self._counting:
            self._waiting -= 1

    def _start_thread(self) -> None:
        threading.Thread(target=self._run, name="request", daemon=True).start()

    def _run(self) -> None:
        while not self._is_surplus() and (item := self._submitted.get()) is not None:
            self._work(item)
        self._at_end()

    def _is_surplus(self) -> bool:
        with self._counting:
            is_surplus = self._running - self._waiting > self._size
            self._running -= is_surplus
        return is_surplus
