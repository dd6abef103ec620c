"""Requests to object stores that are sent again when the store failed at them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from django.conf import settings

from storage.errors import StoreUnavailable

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 3.0

T = TypeVar("T")


def attempted(act: Callable[[int], T], *, remaining: Callable[[], float | None]) -> T:
    """What `act` returns; it is told how often it was tried before, and tried again while it raises `StoreUnavailable`.

    As often as the settings say, with growing pauses. `remaining` is asked before each try for the seconds that are
    left, None for no limit; what it raises ends the tries, and so does a pause that would take longer.
    """
    retries = settings.ICEKEEPER.storage.retries
    for tried in range(retries + 1):
        remaining()
        try:
            return act(tried)
        except StoreUnavailable:
            left, pause = remaining(), _pause(tried)
            if tried == retries or (left is not None and left <= pause):
                raise
            time.sleep(pause)
    raise AssertionError("the last try returns or raises")


def unlimited() -> None:
    """The time that is left for what must be done however long it takes."""


def _pause(tried: int) -> float:
    """Up to twice as long each time; by chance, so that many who failed at once do not come back at once."""
    longest: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2**tried)
    return random.uniform(0.5, 1.0) * longest  # noqa: S311 - no secret
