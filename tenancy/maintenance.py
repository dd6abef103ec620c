"""Maintenance mode: whether changes are allowed, as this process knows it.

`LAKEKEEPER__MAINTENANCE_MODE=read-only` applies for the lifetime of a process. In addition, each server and
worker process polls a switch in the server's row (`manage.py maintenance`) every `EVERY_SECONDS`: requests run no
statement for it, and all processes apply a change within `KNOWN_SECONDS`. Background jobs that
write call `is_read_only` first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread
from typing import Final, Literal

from django.conf import settings
from django.db import connections

from icekeeper.kernel.db.sql import fetch_one

EVERY_SECONDS: Final = 2.0
KNOWN_SECONDS: Final = 3.0
"""Seconds within which every process that reaches the database applies a change of the switch."""

FIRST_POLL_SECONDS: Final = 5.0
"""Timeout of the first poll at the start of a process; without a database there are no writes."""

logger = logging.getLogger("icekeeper.maintenance")


class Switch:
    """The last known state of the switch: off before the first poll, unchanged while the database is unavailable."""

    def __init__(self) -> None:
        self.is_on = False

    def refresh(self) -> bool:
        """Read the switch and return whether it has changed. Raises the errors of the database."""
        row = fetch_one("default", "SELECT is_read_only FROM tenancy_server", [])
        was_on, self.is_on = self.is_on, row is not None and bool(row[0])
        return self.is_on != was_on


switch = Switch()


def is_read_only() -> bool:
    """Return whether changes are rejected; runs no statement."""
    return switch.is_on or is_read_only_by_setting()


def is_read_only_by_setting() -> bool:
    """Return whether the setting turns on maintenance mode, whatever the switch is."""
    return bool(settings.ICEKEEPER.maintenance_mode == "read-only")


def mode() -> Literal["off", "read-only"]:
    return "read-only" if is_read_only() else "off"


def start_watching() -> Callable[[], None]:
    """Start polling in a server or worker (`BACKGROUND_JOBS`), with a first poll; return a function that stops it."""
    watcher = _Watcher()
    watcher.start()
    return watcher.stop


class _Watcher:
    def __init__(self) -> None:
        self._has_polled, self._stopping = Event(), Event()
        self._thread = Thread(target=self._run, name="maintenance", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._has_polled.wait(FIRST_POLL_SECONDS)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(EVERY_SECONDS)

    def _run(self) -> None:
        self._poll()
        self._has_polled.set()
        while not self._stopping.wait(EVERY_SECONDS):
            self._poll()

    def _poll(self) -> None:
        try:
            if switch.refresh():
                logger.warning("maintenance mode was switched %s", "on" if switch.is_on else "off")
        except Exception as error:  # noqa: BLE001 - an exception would end the thread
            logger.warning("the maintenance switch cannot be read, its last state stays in effect: %s", error)
        finally:
            for connection in connections.all(initialized_only=True):
                connection.close()  # return this thread's connection to the pool
