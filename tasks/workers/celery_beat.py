"""Celery's beat: messages when tasks become due, the periodic jobs of workers, and deliveries of events.

Several may run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Final

from celery.beat import Scheduler as BeatScheduler
from django.conf import settings

from events.worker import dispatcher_of_process
from tasks.queue.celery_app import CELERY_QUEUES
from tasks.queue.celery_messages import Broker
from tasks.queue.leases import due_queues
from tasks.runtime.jobs import jobs_of_workers
from tasks.runtime.scheduler import Scheduler
from tasks.workers.worker import Worker
from tenancy.actor import INTERNAL
from tenancy.maintenance import is_read_only_now

MIN_SECONDS_BETWEEN_MESSAGES: Final = 0.1


class MessagingWorker(Worker):
    """A worker that sends a message for each queue with due tasks, instead of executing them.

    While the broker cannot be reached it executes them itself, those of the queues for which it has threads.
    """

    def __init__(self) -> None:
        super().__init__(poll_interval=settings.ICEKEEPER.task_poll_interval)
        self._broker = Broker("tasks are executed here")
        self._sent_at = 0.0

    def queues_with_free_threads(self) -> list[str]:
        return list(CELERY_QUEUES)

    def start(self, pool: ThreadPoolExecutor) -> bool:
        time.sleep(max(0.0, self._sent_at + MIN_SECONDS_BETWEEN_MESSAGES - time.monotonic()))
        self._sent_at = time.monotonic()
        if self._broker.send(due_queues(CELERY_QUEUES)):
            return False
        return super().start(pool)


class TaskScheduler(BeatScheduler):  # type: ignore[misc]  # Celery has no types
    """Celery's beat with the timers of our tasks instead of a schedule of its own."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._worker = MessagingWorker()
        self._opened = ExitStack()
        self._step: Callable[[], None] | None = None
        self._is_in_tick = False

    def setup_schedule(self) -> None:
        """There are no entries."""

    def tick(self, *_: Any, **__: Any) -> float:
        """Wait for due tasks, for about a second at most. Returns the pause before the next call: none."""
        self._is_in_tick = True
        try:
            if self._step is None:
                jobs = Scheduler(jobs_of_workers(), is_paused=is_read_only_now, actor=INTERNAL)
                jobs.start()
                self._opened.callback(jobs.stop)
                dispatcher = dispatcher_of_process()
                dispatcher.start()
                self._opened.callback(dispatcher.stop)
                self._step = self._opened.enter_context(self._worker.open_pool())
            self._step()
        finally:
            self._is_in_tick = False
        return 0.0

    def close(self) -> None:
        """End. A signal handler calls it within `tick`, and beat again after that."""
        self._worker.stop()
        if not self._is_in_tick:
            self._opened.close()
            super().close()
