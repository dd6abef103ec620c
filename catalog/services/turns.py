"""Who may commit to one address next, among the writers of one process."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass
from threading import Condition, Lock

from cachetools import LRUCache

from icekeeper.kernel.request.thread_slots import release_thread_slot

KEPT_SECONDS = 0.02
"""How long a turn is kept for a writer that was refused, so that it can look again and come back."""

MOST_COURTESY_SECONDS = 0.2
"""How long the writer whose turn it would be lets refused ones return before it, all in all."""

LONGEST_STREAK_SECONDS = 0.06
"""How long a writer that commits again and again goes on before others."""

REFUSAL_COUNTS_SECONDS = 1.0
"""How long after a refusal writers are taken to contradict each other."""

KNOWN_WRITERS = 256
"""Connections whose habits are remembered for an address."""


@dataclass(slots=True)
class _Habit:
    """When a writer succeeded last, and whether it came back at once after that."""

    succeeded_at: float = -math.inf
    is_quick: bool = False


class Turn:
    """Who may commit to one address now: in the order in which they asked, but for one that was refused and returns.

    All that wait with an old version in hand would be refused one after the other. Each refused one is given the time
    to come back with the version that it was refused for, over the connection that it was refused on; so a writer of
    a contended table is refused once at its turn, and none is passed over. One that commits again and again goes on
    for a moment with the version that it made itself, before the next one is refused.
    """

    __slots__ = (
        "habits", "holder", "is_taken", "kept_for", "kept_until", "lock", "queue", "refused_at", "streak_since",
    )  # fmt: skip

    def __init__(self) -> None:
        self.lock = Lock()
        self.queue: deque[Condition] = deque()
        self.is_taken = False
        self.kept_for: str | None = None
        self.kept_until = -math.inf
        self.habits: LRUCache[str, _Habit] = LRUCache(maxsize=KNOWN_WRITERS)
        self.holder: str | None = None
        self.streak_since = self.refused_at = -math.inf

    def take(self, seconds: float, *, client: str | None) -> bool:
        """Wait until it comes; False when it does not come within `seconds`."""
        at = time.monotonic()
        until = at + seconds
        with self.lock:
            if client is not None and not self._is_kept_for(client) and (habit := self.habits.get(client)) is not None:
                habit.is_quick = at - habit.succeeded_at <= KEPT_SECONDS
            if not self.is_taken and (not self.queue or self._is_kept_for(client)) and self._is_free_for(client):
                self._begin(client, at)
                return True
        with release_thread_slot(), self.lock:
            place = Condition(self.lock)
            self.queue.append(place)
            try:
                return self._wait_at(place, until, client)
            finally:
                self.queue.remove(place)
                self._call_next()

    def _wait_at(self, place: Condition, until: float, client: str | None) -> bool:
        patient_until = math.inf
        while True:
            at = time.monotonic()
            wait_until = until
            if not self.is_taken and self.queue[0] is place:
                patient_until = min(patient_until, at + MOST_COURTESY_SECONDS)
                free_at = min(self.kept_until, patient_until)
                if free_at <= at:
                    self._begin(client, at)
                    return True
                wait_until = min(until, free_at)
            if at >= until:
                return False
            place.wait(wait_until - at)

    def may_go_on(self) -> bool:
        """Whether the writer whose turn it is may come back before others, now that it has committed.

        Only where writers have been refused: those who do not contradict each other need not be kept waiting.
        """
        habit = self.habits.get(self.holder) if self.holder is not None else None
        if habit is None or not habit.is_quick:
            return False
        at = time.monotonic()
        return at - self.streak_since < LONGEST_STREAK_SECONDS and at - self.refused_at < REFUSAL_COUNTS_SECONDS

    def give_back(self, *, has_committed: bool, is_kept: bool) -> None:
        """End the turn, or keep it for the connection that it came over."""
        with self.lock:
            at = time.monotonic()
            self.is_taken = False
            if has_committed and self.holder is not None:
                self.habits.setdefault(self.holder, _Habit()).succeeded_at = at
            if is_kept and self.holder is not None:
                self.kept_for, self.kept_until = self.holder, at + KEPT_SECONDS
                if not has_committed:
                    self.refused_at = at
            self._call_next()

    def _is_kept_for(self, client: str | None) -> bool:
        return client is not None and client == self.kept_for

    def _is_free_for(self, client: str | None) -> bool:
        return self._is_kept_for(client) or self.kept_until <= time.monotonic()

    def _begin(self, client: str | None, at: float) -> None:
        if not self._is_kept_for(client):
            self.streak_since = at
        self.is_taken, self.holder = True, client
        self.kept_for, self.kept_until = None, -math.inf

    def _call_next(self) -> None:
        if self.queue and not self.is_taken:
            self.queue[0].notify()
