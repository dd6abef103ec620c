"""The worker process: executes due tasks in threads, woken when one is due; runs periodic jobs and delivers events."""

from __future__ import annotations

import logging
import os
import random
import select
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import close_old_connections, connections

from events.worker import dispatcher_of_process
from tasks.models import NO_ID
from tasks.queue.leases import (
    Lease,
    claim_tasks,
    queue_state,
    recover_expired_leases,
)
from tasks.queue.wake import Listener, open_listener
from tasks.runtime.jobs import jobs_of_workers
from tasks.runtime.scheduler import Scheduler
from tasks.runtime.worker_jobs import run_due_jobs
from tasks.workers.execution import WORK, WorkerStopped, execute_task, slots_by_setting
from tenancy.actor import INTERNAL
from tenancy.maintenance import is_read_only_by_setting, is_read_only_now

JITTER_SECONDS: Final = 0.5
PAUSE_AFTER_ERROR: Final = 5.0
MAX_SLEEP_SECONDS: Final = 1.0
"""Seconds between two checks whether the parent process is alive."""
MIN_PAUSE_SECONDS: Final = 0.01
"""Before another claim: a task that is due can be locked by another worker for a moment."""

logger = logging.getLogger("icekeeper.tasks")


class Worker:
    """Claims and executes tasks until `stop`, with the number of threads that `slots` has for each queue.

    `slots` are those of the settings by default. With `parent`, the id of the process that started it, it also stops
    when that one has ended. In maintenance mode it waits.
    """

    def __init__(
        self, *, poll_interval: float, slots: Mapping[str, int] | None = None, parent: int | None = None
    ) -> None:
        self.poll_interval, self.parent = poll_interval, parent
        wanted = slots_by_setting() if slots is None else slots
        self.slots = {queue: count for queue, count in wanted.items() if queue in WORK and count > 0}
        self.is_stopping = False
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._waker, False)
        self._running: Counter[str] = Counter()
        self._lock = Lock()
        self._last_warehouse: UUID = NO_ID
        self._look_at = 0.0

    def stop(self, *_: Any) -> None:
        """Stop the loop. A signal handler, so it must not lock anything."""
        self.is_stopping = True
        self._interrupt()

    def stop_on_signals(self) -> None:
        """Stop on SIGTERM and SIGINT, whichever thread the kernel delivers them to."""
        signal.set_wakeup_fd(self._waker)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.stop)

    def run(self) -> None:
        """Execute tasks until `stop` is called; errors do not end the loop."""
        with self.open_pool() as step:
            while not self._should_stop():
                step()

    @contextmanager
    def open_pool(self) -> Iterator[Callable[[], None]]:
        """Yield a function that starts what is due and waits for more, at most `MAX_SLEEP_SECONDS`.

        At the end the tasks that still run are released.
        """
        logger.info("worker started", extra={"pid": os.getpid(), "queues": self.slots})
        listener = open_listener()
        try:
            with ThreadPoolExecutor(max(1, sum(self.slots.values())), thread_name_prefix="task") as pool:
                try:
                    yield partial(self._step, pool, listener)
                finally:
                    self.is_stopping = True
        finally:
            listener.close()
            connections.close_all()
        logger.info("worker stopped", extra={"pid": os.getpid()})

    def run_once(self) -> None:
        """Execute all due tasks and periodic jobs one at a time, then return."""
        with suppress(WorkerStopped):
            run_due_jobs(jobs_of_workers(), actor=INTERNAL, checkpoint=self._check)
            while not self._should_pause() and self.work():
                pass

    def work(self) -> bool:
        """Execute the due task that is next; False if there is none."""
        if queue_state(list(self.slots)).has_expired_leases:
            recover_expired_leases()
        for queue in self.slots:
            for lease in self._claim({queue: 1}):
                execute_task(lease, self._check)
                return True
        return False

    def _step(self, pool: ThreadPoolExecutor, listener: Listener) -> None:
        if time.monotonic() >= self._look_at:
            try:
                pause = self.start_due_tasks(pool)
            except Exception:
                logger.exception("the worker failed")
                pause = PAUSE_AFTER_ERROR
            close_old_connections()
            self._look_at = time.monotonic() + pause
        if self._wait(self._look_at - time.monotonic(), listener):
            self._look_at = 0.0

    def start_due_tasks(self, pool: ThreadPoolExecutor) -> float:
        """Start what is due on the free threads; return the seconds until there may be more to do."""
        queues = self.queues_with_free_threads()
        if not queues:
            return self.poll_interval  # a thread that has finished interrupts the pause
        state = queue_state(queues)
        if is_read_only_by_setting() or (state.is_read_only and is_read_only_now()):
            return MAX_SLEEP_SECONDS
        if state.has_expired_leases:
            recover_expired_leases()
        if (state.is_due or state.has_expired_leases) and self.start(pool):
            return MIN_PAUSE_SECONDS
        pause = self.poll_interval + random.uniform(0, JITTER_SECONDS)  # noqa: S311
        return pause if state.seconds_until_due is None else min(pause, state.seconds_until_due + MIN_PAUSE_SECONDS)

    def queues_with_free_threads(self) -> list[str]:
        return [queue for queue, count in self._free_threads().items() if count > 0]

    def start(self, pool: ThreadPoolExecutor) -> bool:
        """Start due tasks on the free threads; return whether there were any."""
        if self._should_stop():  # a task that a thread has just released is for another worker
            return False
        leases = self._claim(self._free_threads())
        for lease in leases:
            with self._lock:
                self._running[lease.queue] += 1
            pool.submit(self._execute, lease)
        return bool(leases)

    def _free_threads(self) -> dict[str, int]:
        with self._lock:
            return {queue: count - self._running[queue] for queue, count in self.slots.items()}

    def _claim(self, free: Mapping[str, int]) -> Sequence[Lease]:
        leases = claim_tasks(free, after=self._last_warehouse)
        if leases:
            self._last_warehouse = leases[-1].warehouse_id
        return leases

    def _execute(self, lease: Lease) -> None:
        try:
            execute_task(lease, self._check)
        except Exception:
            logger.exception("a task could not be ended; its lease will expire", extra={"task": str(lease.task_id)})
        finally:
            connections.close_all()
            with self._lock:
                self._running[lease.queue] -= 1
            self._interrupt()

    def _check(self) -> None:
        if self._should_pause():
            raise WorkerStopped

    def _should_pause(self) -> bool:
        return self._should_stop() or is_read_only_now()

    def _should_stop(self) -> bool:
        return self.is_stopping or (self.parent is not None and os.getppid() != self.parent)

    def _interrupt(self) -> None:
        with suppress(BlockingIOError):  # it is full: the loop will wake in any case
            os.write(self._waker, b".")

    def _wait(self, seconds: float, listener: Listener) -> bool:
        """Wait until something may be due: a wake-up or a finished thread (return True), or the end of the time."""
        if seconds <= 0 or self._should_stop():
            return False
        poll, descriptor = select.poll(), listener.fileno()
        poll.register(self._wake, select.POLLIN)
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
        if not poll.poll(min(seconds, MAX_SLEEP_SECONDS) * 1000):
            return False
        listener.drain()
        with suppress(BlockingIOError):
            os.read(self._wake, 65_536)
        return True


def run_worker(*, parent: int | None = None, once: bool = False, queues: Sequence[str] | None = None) -> None:
    """Run a worker until SIGTERM or SIGINT, which release the current tasks; `once`: only what is due.

    `queues` are the queues whose tasks it executes; None for all.
    """
    slots = {queue: count for queue, count in slots_by_setting().items() if queues is None or queue in queues}
    worker = Worker(poll_interval=settings.ICEKEEPER.task_poll_interval, slots=slots, parent=parent)
    worker.stop_on_signals()
    dispatcher = dispatcher_of_process()
    if once:
        worker.run_once()
        if not is_read_only_now():
            dispatcher.run_once()
        return
    scheduler = Scheduler(jobs_of_workers(), is_paused=is_read_only_now, actor=INTERNAL)
    scheduler.start()
    dispatcher.start()
    try:
        worker.run()
    finally:
        dispatcher.stop()
        scheduler.stop()
