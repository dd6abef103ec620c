"""Who does not answer is left alone for a while, so that not every request waits for it."""

from __future__ import annotations

import logging
import time
from threading import Lock
from typing import Final

from tenancy.authz.openfga.failures import OpenFgaUnavailable

FAILURES: Final = 3
"""In a row, after which nobody else is let through."""
PAUSE: Final = 1.0
"""Seconds until the next one is let through."""

logger = logging.getLogger("icekeeper.authz")


class Breaker:
    """Of one process: after some failures in a row one request at a time tries, a pause after the last one began."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._failures = 0
        self._next_at = 0.0
        self._reason = ""

    def enter(self) -> None:
        """Raises `OpenFgaUnavailable` for who is not to try."""
        with self._lock:
            if self._failures < FAILURES:
                return
            at = time.monotonic()
            if at < self._next_at:
                raise OpenFgaUnavailable(f"it was asked a moment ago: {self._reason}")
            self._next_at = at + PAUSE

    def succeeded(self) -> None:
        with self._lock:
            was_open, self._failures = self._failures >= FAILURES, 0
        if was_open:
            logger.warning("OpenFGA answers again")

    def failed(self, reason: str) -> None:
        with self._lock:
            self._failures += 1
            self._next_at = time.monotonic() + PAUSE
            self._reason = reason
        logger.warning("OpenFGA cannot be asked: %s", reason)
