"""Many writers, one table: they take turns on this machine and try again when another machine was faster."""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Condition, Lock

from icekeeper.kernel import deadline, node_leases
from icekeeper.kernel.client_connection import current_client_connection
from icekeeper.kernel.errors import CommitContended, CommitFailed
from icekeeper.kernel.thread_lending import waiting_for_others

ATTEMPTS = 60
"""How often a commit is judged anew when another machine moved the pointer in between."""

PAUSE_SECONDS = 0.01
LONGEST_PAUSE_SECONDS = 0.16

KEPT_SECONDS = 0.02
"""How long a turn is kept for a writer that was refused, so that it can look again and come back."""

MOST_COURTESY_SECONDS = 0.2
"""How long the writer whose turn it would be lets refused ones return before it, all in all."""

LONGEST_WAIT_SECONDS = 20.0
"""For a turn, where the request's own deadline does not end the wait earlier."""


class _Turn:
    """Who may commit to one address now: in the order in which they asked, but for one that was refused and returns.

    All that wait with an old version in hand would be refused one after the other. Each refused one is given the time
    to come back with the version that it was refused for, over the connection that it was refused on; so a writer of
    a contended table is refused once for each success, and none is passed over.
    """

    __slots__ = ("is_taken", "kept_for", "kept_until", "lock", "queue", "wanted_by")

    def __init__(self) -> None:
        self.lock = Lock()
        self.queue: deque[Condition] = deque()
        self.is_taken = False
        self.kept_for: str | None = None
        self.kept_until = -math.inf
        self.wanted_by = 0

    def take(self, seconds: float, *, client: str | None) -> bool:
        """Wait until it comes; False when it does not come within `seconds`."""
        until = time.monotonic() + seconds
        with self.lock:
            if not self.is_taken and (not self.queue or self._is_kept_for(client)) and self._is_free_for(client):
                self._begin()
                return True
        with waiting_for_others(), self.lock:
            place = Condition(self.lock)
            self.queue.append(place)
            try:
                return self._wait_at(place, until)
            finally:
                self.queue.remove(place)
                self._call_next()

    def _wait_at(self, place: Condition, until: float) -> bool:
        patient_until = math.inf
        while True:
            at = time.monotonic()
            wait_until = until
            if not self.is_taken and self.queue[0] is place:
                patient_until = min(patient_until, at + MOST_COURTESY_SECONDS)
                free_at = min(self.kept_until, patient_until)
                if free_at <= at:
                    self._begin()
                    return True
                wait_until = min(until, free_at)
            if at >= until:
                return False
            place.wait(wait_until - at)

    def give_back(self, *, keep_for: str | None) -> None:
        """End the turn; `keep_for` is the connection of a writer that was refused."""
        with self.lock:
            self.is_taken = False
            if keep_for is not None:
                self.kept_for, self.kept_until = keep_for, time.monotonic() + KEPT_SECONDS
            self._call_next()

    def _is_kept_for(self, client: str | None) -> bool:
        return client is not None and client == self.kept_for

    def _is_free_for(self, client: str | None) -> bool:
        return self._is_kept_for(client) or self.kept_until <= time.monotonic()

    def _begin(self) -> None:
        self.is_taken = True
        self.kept_for, self.kept_until = None, -math.inf

    def _call_next(self) -> None:
        if self.queue and not self.is_taken:
            self.queue[0].notify()


_turns: dict[Hashable, _Turn] = {}
_turns_lock = Lock()


@contextmanager
def turns_at(addresses: Iterable[Hashable]) -> Iterator[None]:
    """Be the only one on this machine who commits to what is at `addresses`; turns and leases are taken in one order.

    No database lock: other machines are kept out by the compare-and-set alone. Raises `CommitContended` (409) when the
    turn does not come in time.
    """
    with ExitStack() as held:
        for address in sorted(set(addresses), key=lambda each: (node_leases.slot_of(each), str(each))):
            held.enter_context(_turn_at(address))
        yield


def attempts(what: object) -> Iterator[int]:
    """Numbers of tries with a jittered pause in between, within the time that the request had when they began.

    Raises `CommitContended` (409), which clients answer by trying again, when tries or time are used up.
    """
    left = deadline.remaining()  # asked once: a try that wrote has ended the request's deadline
    until = None if left is None else time.monotonic() + left
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(random.uniform(0, min(PAUSE_SECONDS * 2**attempt, LONGEST_PAUSE_SECONDS)))  # noqa: S311
        if until is not None and time.monotonic() > until:
            break
        yield attempt
    raise CommitContended(f"Commit conflict: {what} was changed by others again and again; try again")


@contextmanager
def _turn_at(address: Hashable) -> Iterator[None]:
    """A turn among this process's writers, then the lease among the processes, which is worth waiting for but no must.

    Both are kept for a writer that was refused.
    """
    client = current_client_connection()
    slot = node_leases.slot_of(address)
    with _turns_lock:
        turn = _turns.setdefault(address, _Turn())
        turn.wanted_by += 1
    try:
        left = deadline.remaining()
        seconds = LONGEST_WAIT_SECONDS if left is None else min(left, LONGEST_WAIT_SECONDS)
        if not turn.take(seconds, client=client):
            raise CommitContended("Commit conflict: too many commits to the same table wait for their turn; try again")
        keep_for = None
        try:
            node_leases.take_lease(slot, seconds=node_leases.LEASE_SECONDS)
            yield
        except CommitFailed as refusal:
            if not isinstance(refusal, CommitContended):  # which says nothing about what the writer saw
                keep_for = client
            raise
        finally:
            node_leases.give_lease_back(slot, keep_seconds=0.0 if keep_for is None else KEPT_SECONDS)
            turn.give_back(keep_for=keep_for)
    finally:
        with _turns_lock:
            turn.wanted_by -= 1
            if not turn.wanted_by:
                del _turns[address]
