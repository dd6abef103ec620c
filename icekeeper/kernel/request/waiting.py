"""How many requests may wait for somebody who may never answer: too many would leave no thread to the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import BoundedSemaphore
from typing import Final

from icekeeper.kernel.request.thread_lending import waiting_for_others

BRIEFLY: Final = 1.0
"""Seconds within which those mostly answer who answer at all."""
MOST_BRIEFLY: Final = 32
"""Requests that wait so long for one answer; half of the threads that a server process lends."""
MOST_PATIENT: Final = 4
"""Requests that go on waiting for it after that."""


class WaitingRoom:
    """For one answer, or one thing that several take turns at: many wait briefly, a few long, all others not at all.

    So a burst of good requests is served by whoever answers, and a flood occupies little while nobody does.
    """

    def __init__(self, *, most_briefly: int = MOST_BRIEFLY) -> None:
        self._brief, self._patient = BoundedSemaphore(most_briefly), BoundedSemaphore(MOST_PATIENT)

    def wait(self, comes: Callable[[float], bool], *, seconds: float, briefly: float = BRIEFLY) -> bool:
        """Whether it has come; `comes` is given how many seconds to wait for it, 0 to look only, and says so.

        At most `seconds` in all, of which `briefly` is for many.
        """
        ends_at = time.monotonic() + seconds
        return (
            comes(0)
            or _wait(self._brief, comes, min(seconds, briefly))
            or _wait(self._patient, comes, ends_at - time.monotonic())
        )


def _wait(seats: BoundedSemaphore, comes: Callable[[float], bool], seconds: float) -> bool:
    if seconds <= 0 or not seats.acquire(blocking=False):
        return False
    try:
        with waiting_for_others():
            return comes(seconds)
    finally:
        seats.release()
