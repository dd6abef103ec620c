"""Deliveries of a worker process: it publishes new events, claims sinks, and delivers to each in a thread of its own.

So a slow or dead receiver delays no other one. All workers do this; the leases divide the sinks among them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from functools import partial
from threading import Condition, Thread
from typing import Final
from uuid import UUID

from events.delivery.delivery import Delivery, OpenSink
from events.delivery.leases import LeaseLost, claim_sinks, extend_leases
from events.publication import Publisher, State
from tasks.runtime.runs import run_job

POLL_SECONDS: Final = 0.2
"""Pause between two looks for new events."""
CLAIM_SECONDS: Final = 2.0
"""Pause between two claims of sinks that no worker delivers to."""
EXTEND_SECONDS: Final = 15.0
MAX_SINKS: Final = 64
"""Sinks of one worker; each takes a thread and a connection."""
STOP_SECONDS: Final = 5.0
STUCK_SECONDS: Final = 300.0
"""A part of a batch takes less; the lease of one that does not expires."""
ERROR_PAUSE_SECONDS: Final = 5.0
"""Pause after an error of the database."""

EVENTS_UNTIL_DELETION: Final = 100_000
"""New events after which old ones are deleted: there is also a periodic job, but events can fill a disk before it."""

PUBLICATION: Final = "event-publication"
DELIVERY: Final = "event-delivery"
DELETION: Final = "event-deletion"
"""Names under which runs are counted and logged, as if they were periodic jobs."""

logger = logging.getLogger("icekeeper.events")


class Dispatcher:
    """Delivers events from `start` to `stop`; not while `is_paused` returns true (maintenance mode).

    `from_settings` are the names of the sinks of the settings, which this process can open; `create_rows` creates their
    rows. `delete_old_events` is called after many new events.
    """

    def __init__(
        self,
        *,
        server_id: Callable[[], UUID],
        open_sink: OpenSink,
        from_settings: Collection[str],
        create_rows: Callable[[], None],
        delete_old_events: Callable[[], object],
        is_paused: Callable[[], bool],
    ) -> None:
        self._server_id, self._open_sink, self._is_paused = server_id, open_sink, is_paused
        self._from_settings, self._create_rows = from_settings, create_rows
        self._delete_old_events = delete_old_events
        self._deleted_at = 0
        """Published position at the last deletion of old events."""
        self._has_rows = False
        self._has_pause = False
        self._publisher = Publisher()
        self._state = State(0, 0, 0)
        self._changed = Condition()
        self._is_stopping = False
        self._runners: dict[UUID, Runner] = {}
        self._claim_at = self._extend_at = 0.0
        self._thread = Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Start no further batch, and return when the current ones ended or `STOP_SECONDS` passed."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        for runner in self._runners.values():
            runner.stop()
        until = time.monotonic() + STOP_SECONDS
        for thread in [self._thread, *(runner.thread for runner in self._runners.values())]:
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))

    def run_once(self) -> None:
        """Publish, and deliver what is published to each sink that no other worker has, in this thread."""
        self._create_rows()
        state = self._publisher.publish()
        for lease in claim_sinks(from_settings=self._from_settings, except_for=(), limit=MAX_SINKS):
            try:
                delivery = Delivery(lease, server_id=self._server_id(), open_sink=self._open_sink)
                try:
                    while delivery.retry_at <= time.monotonic() and delivery.deliver(state):
                        pass
                finally:
                    delivery.close()
            except LeaseLost:
                logger.info("another worker delivers to the sink", extra={"sink": str(lease.sink_id)})

    def _run(self) -> None:
        while not self._is_stopping:
            run_job(PUBLICATION, self._look_at_pause)
            if not self._has_pause:
                run_job(PUBLICATION, self._step)
            with self._changed:
                if not self._is_stopping:
                    self._changed.wait(POLL_SECONDS)

    def _look_at_pause(self) -> None:
        self._has_pause = self._is_paused()

    def _step(self) -> None:
        if not self._has_rows:
            self._create_rows()
            self._has_rows = True
        state, now = self._publisher.publish(), time.monotonic()
        if state != self._state:
            with self._changed:
                self._state = state
                self._changed.notify_all()
        self._runners = {sink: runner for sink, runner in self._runners.items() if runner.thread.is_alive()}
        if now >= self._extend_at and self._runners:
            self._extend_at = now + EXTEND_SECONDS
            self._extend()
        if state.published - self._deleted_at >= EVENTS_UNTIL_DELETION:
            self._deleted_at = state.published
            Thread(target=run_job, args=(DELETION, self._delete_old_events), name="old-events", daemon=True).start()
        if now >= self._claim_at:
            self._claim_at = now + CLAIM_SECONDS
            self._claim()

    def _claim(self) -> None:
        free = MAX_SINKS - len(self._runners)
        for lease in claim_sinks(from_settings=self._from_settings, except_for=self._runners.keys(), limit=free):
            open_delivery = partial(Delivery, lease, server_id=self._server_id(), open_sink=self._open_sink)
            runner = self._runners[lease.sink_id] = Runner(open_delivery, self)
            runner.thread.start()

    def _extend(self) -> None:
        """Extend the leases, but not those of runners that a receiver has blocked for too long."""
        for runner in self._runners.values():
            delivery = runner.delivery
            if delivery is None or runner.is_stuck():
                continue
            if extend_leases([delivery.lease]):
                runner.stop()
            else:
                delivery.extend()

    def wait(self, runner: Runner) -> State | None:
        """Wait until there is something to deliver, and return the state; None when `runner` must end."""
        with self._changed:
            while not (self._is_stopping or runner.is_stopped):
                left = runner.due - time.monotonic()
                if left <= 0 and self._state.published > runner.position and not self._has_pause:
                    return self._state
                self._changed.wait(min(left, 1.0) if left > 0 else 1.0)
            return None


class Runner:
    """The thread that delivers to one sink."""

    def __init__(self, open_delivery: Callable[[], Delivery], dispatcher: Dispatcher) -> None:
        self._open_delivery, self._dispatcher = open_delivery, dispatcher
        self.delivery: Delivery | None = None
        self.is_stopped = False
        self.position = -1
        """Up to where everything is delivered; -1 when something else than events after it is due."""
        self.due = 0.0
        """When the next batch is due, on the monotonic clock."""
        self._began = 0.0
        self.thread = Thread(target=self._run, name="event-sink", daemon=True)

    def stop(self) -> None:
        """End after the part of a batch that is being sent."""
        self.is_stopped = True
        if self.delivery is not None:
            self.delivery.is_stopping = True

    def is_stuck(self) -> bool:
        return self._began > 0 and time.monotonic() - self._began > STUCK_SECONDS

    def _run(self) -> None:
        while (state := self._dispatcher.wait(self)) is not None:
            self._began = time.monotonic()
            if run_job(DELIVERY, partial(self._deliver, state)).error:
                self.due = time.monotonic() + ERROR_PAUSE_SECONDS
            self._began = 0.0
        if self.delivery is not None:
            run_job(DELIVERY, self.delivery.close)

    def _deliver(self, state: State) -> None:
        try:
            if self.delivery is None:
                self.delivery = self._open_delivery()
            if self.delivery.retry_at <= time.monotonic():
                self.delivery.deliver(state)
            self.due = self.delivery.retry_at
            self.position = -1 if self.due else self.delivery.position
        except LeaseLost:
            self.is_stopped = True
            logger.info("the sink was changed, or another worker delivers to it")
