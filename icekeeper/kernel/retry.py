"""Repeated attempts at an action that fails temporarily, with growing random pauses, within a time limit."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

FIRST_PAUSE_SECONDS: Final = 0.1
MAX_PAUSE_SECONDS: Final = 3.0

T = TypeVar("T")


def retry(
    action: Callable[[int], T],
    *,
    on: type[Exception] | tuple[type[Exception], ...],
    retries: int,
    remaining: Callable[[], float | None],
    max_pause: float = MAX_PAUSE_SECONDS,
) -> T:
    """Return what `action` returns; call it again, at most `retries` times, when it raises one of `on`.

    `action` gets the number of earlier attempts. `remaining` is called before each attempt and returns the seconds
    left, or None for no limit; what it raises ends the attempts. A pause that would not end in time is not begun: the
    error of the last attempt is raised instead.
    """
    for attempt in range(retries + 1):
        remaining()
        try:
            return action(attempt)
        except on:
            left, pause = remaining(), _pause(attempt, max_pause)
            if attempt == retries or (left is not None and left <= pause):
                raise
            time.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def unlimited() -> None:
    """Return the remaining time of work that must be done however long it takes: no limit."""


def _pause(attempt: int, max_pause: float) -> float:
    """Return a pause that doubles with each attempt and is random, so that many clients do not retry at once."""
    longest: float = min(max_pause, FIRST_PAUSE_SECONDS * 2**attempt)
    return random.uniform(0.5, 1.0) * longest  # noqa: S311 - no secret
