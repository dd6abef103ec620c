"""Maintenance mode: whether anything may change now, as this process knows it.

`LAKEKEEPER__MAINTENANCE_MODE=read-only` holds for as long as a process lives. Beside it stands a switch in the server's
row (`manage.py maintenance`), which each process that serves or works looks at every `EVERY_SECONDS`: no request pays
for it, and a change is known everywhere after `KNOWN_SECONDS`. Whoever writes by itself, without a request, asks
`is_read_only` first.
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
"""By when every process that reaches the database has seen the switch."""

FIRST_LOOK_SECONDS: Final = 5.0
"""How long a process waits for its first look before it begins; then the database is away, and nobody can write."""

logger = logging.getLogger("icekeeper.maintenance")


class Switch:
    """The switch as it was when this process last looked: off until then, and as it was while nobody can look."""

    def __init__(self) -> None:
        self.is_on = False

    def look(self) -> bool:
        """Ask the database; whether the answer is another one than before. Raises what the database raises."""
        row = fetch_one("default", "SELECT is_read_only FROM tenancy_server", [])
        was_on, self.is_on = self.is_on, row is not None and bool(row[0])
        return self.is_on != was_on


switch = Switch()


def is_read_only() -> bool:
    """Whether nothing may change; costs no statement."""
    return switch.is_on or is_set_read_only()


def is_set_read_only() -> bool:
    """Whether the setting says so, which no switch turns off."""
    return bool(settings.ICEKEEPER.maintenance_mode == "read-only")


def mode() -> Literal["off", "read-only"]:
    return "read-only" if is_read_only() else "off"


def start_watching() -> Callable[[], None]:
    """Begin, in a process that serves or works (`BACKGROUND_JOBS`), with a first look; what is returned ends it."""
    watcher = _Watcher()
    watcher.start()
    return watcher.stop


class _Watcher:
    def __init__(self) -> None:
        self._has_looked, self._ends = Event(), Event()
        self._thread = Thread(target=self._run, name="maintenance", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._has_looked.wait(FIRST_LOOK_SECONDS)

    def stop(self) -> None:
        self._ends.set()
        self._thread.join(EVERY_SECONDS)

    def _run(self) -> None:
        self._look()
        self._has_looked.set()
        while not self._ends.wait(EVERY_SECONDS):
            self._look()

    def _look(self) -> None:
        try:
            if switch.look():
                logger.warning("maintenance mode was switched %s", "on" if switch.is_on else "off")
        except Exception as error:  # noqa: BLE001 - a thread that ends at the first error would never look again
            logger.warning("the maintenance switch cannot be looked at, it counts as it was: %s", error)
        finally:
            for connection in connections.all(initialized_only=True):
                connection.close()  # this thread's own; the pool has it back
