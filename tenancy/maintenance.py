"""Maintenance mode: whether changes are allowed, as this process knows it.

`LAKEKEEPER__MAINTENANCE_MODE=read-only` applies for the lifetime of a process. In addition there is a switch in the
server's row (`manage.py maintenance`). Each server process polls it every `MAX_AGE_SECONDS` (`PERIODIC_JOBS`), so that
requests run no statement for it; a worker, which may be idle, reads it before it works. All processes apply a change
within `KNOWN_SECONDS`. What writes without a request checks before it does.
"""

from __future__ import annotations

import logging
import time
from typing import Final, Literal

from django.conf import settings

from icekeeper.kernel.db.sql import fetch_one

MAX_AGE_SECONDS: Final = 2.0
KNOWN_SECONDS: Final = 3.0
"""Seconds within which every process that reaches the database applies a change of the switch."""

logger = logging.getLogger("icekeeper.maintenance")


class Switch:
    """The last known state of the switch: off before the first poll, unchanged while the database is unavailable."""

    def __init__(self) -> None:
        self.is_on = False
        self._read_at = float("-inf")

    def refresh(self) -> bool:
        """Read the switch and return whether it has changed. Raises the errors of the database."""
        read_at = time.monotonic()
        row = fetch_one("default", "SELECT is_read_only FROM tenancy_server", [])
        was_on, self.is_on, self._read_at = self.is_on, row is not None and bool(row[0]), read_at
        return self.is_on != was_on

    def is_fresh(self) -> bool:
        """Return whether the switch was read less than `MAX_AGE_SECONDS` ago."""
        return time.monotonic() - self._read_at < MAX_AGE_SECONDS


switch = Switch()


def is_read_only() -> bool:
    """Return whether changes are rejected; runs no statement."""
    return switch.is_on or is_read_only_by_setting()


def is_read_only_by_setting() -> bool:
    """Return whether the setting turns on maintenance mode, whatever the switch is."""
    return bool(settings.ICEKEEPER.maintenance_mode == "read-only")


def mode() -> Literal["off", "read-only"]:
    return "read-only" if is_read_only() else "off"


def poll_switch() -> None:
    """Read the switch and log a change (`PERIODIC_JOBS`). Raises the errors of the database."""
    if switch.refresh():
        logger.warning("maintenance mode was switched %s", "on" if switch.is_on else "off")


def is_read_only_now() -> bool:
    """As `is_read_only`, in a process that does not poll: reads the switch if its last known state is not fresh."""
    if not switch.is_fresh():
        try:
            poll_switch()
        except Exception as error:  # noqa: BLE001 - callers work without it
            logger.warning("the maintenance switch cannot be read, its last state stays in effect: %s", error)
    return is_read_only()
