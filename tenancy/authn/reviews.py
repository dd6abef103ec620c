"""How many tokens the API server of a cluster is asked about: so few at once, and fewer that nobody has vouched for."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock
from typing import Final

from icekeeper.kernel.request.waiter_limit import WaiterLimit
from tenancy.authn.authenticator import ProviderUnavailable

MAX_REVIEWS: Final = 8
"""Reviews that one process asks for at once; of the others some wait."""
MAX_UNPROVEN_REVIEWS: Final = 2
"""As `MAX_REVIEWS`, of tokens that no known key of the cluster has signed."""
MAX_UNPROVEN_WAITING: Final = 8
"""Of such tokens, those that wait briefly: anybody can send new ones all the time."""
MAX_REJECTED, REJECTED_SECONDS = 20, 10.0
"""Refused reviews of such tokens in so many seconds, after which no more of them are asked about for a while."""


class Turns:
    """Reviews take turns: `at_once` are under way, and of the other tokens some wait in `room`."""

    def __init__(self, name: str, at_once: int, room: WaiterLimit) -> None:
        self._name, self._places, self._room = name, BoundedSemaphore(at_once), room

    @contextmanager
    def one_more(self, *, patience: float) -> Iterator[None]:
        """Raises `ProviderUnavailable` when the turn does not come within `patience` seconds."""
        if not self._room.wait(lambda seconds: self._places.acquire(timeout=seconds), seconds=patience):
            raise ProviderUnavailable(f"{self._name}: too many tokens wait for the API server")
        try:
            yield
        finally:
            self._places.release()


class Refusals:
    """The last reviews that were refused, of tokens that anybody could have made."""

    def __init__(self) -> None:
        self._at: deque[float] = deque(maxlen=MAX_REJECTED)
        self._lock = Lock()

    def note(self) -> None:
        with self._lock:
            self._at.append(time.monotonic())

    @property
    def are_too_many(self) -> bool:
        with self._lock:
            return len(self._at) == MAX_REJECTED and time.monotonic() - self._at[0] < REJECTED_SECONDS
