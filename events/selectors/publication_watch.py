"""Waits for published events: one thread of a process looks for them while any request waits, and wakes all of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import BoundedSemaphore, Condition, Thread
from typing import Final

from django.conf import settings
from django.db import connections

from events.publication import State, read_state
from icekeeper.kernel.db.connections import release_connections
from icekeeper.kernel.threads import release_thread_slot

POLL_SECONDS: Final = 0.2
"""Pause between two looks at the outbox."""
ERROR_PAUSE_SECONDS: Final = 2.0
CHECK_SECONDS: Final = 0.5
"""Interval in which a waiting request looks whether it should end."""
MAX_WAITING: Final = 32
"""Requests of a process that may wait for events: half of the extra threads of its pool. Commits wait there as well."""

logger = logging.getLogger("icekeeper.events")


def _read_state() -> State:
    return read_state(settings.READ_DATABASE)


class WaitSlot:
    """One of the requests that may wait, until `release`; it can be released several times."""

    def __init__(self, slots: BoundedSemaphore) -> None:
        self._slots: BoundedSemaphore | None = slots

    def release(self) -> None:
        slots, self._slots = self._slots, None
        if slots is not None:
            slots.release()


class PublicationWatch:
    """Reports newly published positions to waiting threads."""

    def __init__(self, read: Callable[[], State] = _read_state, *, max_waiting: int = MAX_WAITING) -> None:
        self._read = read
        self._changed = Condition()
        self._published = 0
        self._waiting = 0
        self._is_running = False
        self._slots = BoundedSemaphore(max_waiting)

    def reserve_slot(self) -> WaitSlot | None:
        """Reserve a slot for a request that waits; None if too many wait already."""
        return WaitSlot(self._slots) if self._slots.acquire(blocking=False) else None

    def wait(self, position: int, *, until: float, has_ended: Callable[[], bool]) -> bool:
        """Wait for an event after `position` and return True; False at `until` (monotonic) or when `has_ended`.

        The thread slot and the database connections of the request are released meanwhile.
        """
        with release_thread_slot(), self._changed:
            self._waiting += 1
            try:
                self._start()
                while self._published <= position:
                    left = until - time.monotonic()
                    if left <= 0 or has_ended():
                        return False
                    self._changed.wait(min(left, CHECK_SECONDS))
                return True
            finally:
                self._waiting -= 1

    def is_idle(self) -> bool:
        """Return whether no thread looks for events."""
        with self._changed:
            return not self._is_running

    def _start(self) -> None:
        """Start the thread unless it runs. A request waits until its time is over if the system cannot start one."""
        if not self._is_running:
            self._is_running = True
            try:
                Thread(target=self._run, name="event-feed", daemon=True).start()
            except RuntimeError:
                self._is_running = False

    def _run(self) -> None:
        try:
            while self._look():
                time.sleep(POLL_SECONDS)
        finally:
            connections.close_all()

    def _look(self) -> bool:
        """Read the state and wake all waiting threads if it has changed; return False when no request waits."""
        published = self._read_published()
        with self._changed:
            if published is not None and published != self._published:
                self._published = published
                self._changed.notify_all()
            self._is_running = self._waiting > 0
            return self._is_running

    def _read_published(self) -> int | None:
        try:
            return self._read().published
        except Exception as error:  # noqa: BLE001 - the waiting requests need the thread
            logger.warning("the state of the outbox could not be read: %s", error)
            time.sleep(ERROR_PAUSE_SECONDS)
            return None
        finally:
            release_connections()


publication_watch: Final = PublicationWatch()
"""Of this process."""
