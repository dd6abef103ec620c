"""Many writers, one table: they take turns in this process and try again when another process was faster."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Condition, Lock

from icekeeper.kernel import deadline
from icekeeper.kernel.errors import CommitContended, CommitFailed

ATTEMPTS = 60
"""How often a commit is judged anew when another process moved the pointer in between."""

PAUSE_SECONDS = 0.01
LONGEST_PAUSE_SECONDS = 0.16

HEAD_START_SECONDS = 0.02
"""For a refused writer, before those who waited behind it are judged."""

MOST_COURTESY_SECONDS = 0.2
"""How long a writer lets refused ones go first, all in all."""

LONGEST_WAIT_SECONDS = 20.0
"""For a turn, where the request's own deadline does not end the wait earlier."""


class _Turn:
    """Who may commit to one address now. It forgets itself when nobody wants it any more."""

    __slots__ = ("changed", "is_taken", "refused_at", "wanted_by")

    def __init__(self) -> None:
        self.changed = Condition()
        self.is_taken = False
        self.refused_at = -math.inf
        self.wanted_by = 0

    def take(self, seconds: float) -> bool:
        """Wait until it comes; False when it does not come within `seconds`.

        Who was waiting when another one was refused gives that one a head start to look again and come back: to be
        judged on the version that the refused one saw at last would only refuse the next one too.
        """
        asked_at = time.monotonic()
        until = asked_at + seconds
        with self.changed:
            while True:
                at = time.monotonic()
                free_at = at
                if self.refused_at >= asked_at:
                    free_at = min(self.refused_at + HEAD_START_SECONDS, asked_at + MOST_COURTESY_SECONDS)
                if not self.is_taken and free_at <= at:
                    self.is_taken = True
                    return True
                if at >= until:
                    return False
                self.changed.wait(until - at if self.is_taken else min(free_at, until) - at)

    def give_back(self, *, refused: bool) -> None:
        with self.changed:
            self.is_taken = False
            self.refused_at = time.monotonic() if refused else -math.inf
            self.changed.notify_all()


_turns: dict[Hashable, _Turn] = {}
_turns_lock = Lock()


@contextmanager
def turns_at(addresses: Iterable[Hashable]) -> Iterator[None]:
    """Be the only one in this process who commits to what is at `addresses`; they are taken in one order.

    No database lock: other processes are kept out by the compare-and-set alone. Raises `CommitContended` (409) when the
    turn does not come in time.
    """
    with ExitStack() as held:
        for address in sorted(set(addresses), key=str):
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
    with _turns_lock:
        turn = _turns.setdefault(address, _Turn())
        turn.wanted_by += 1
    try:
        left = deadline.remaining()
        seconds = LONGEST_WAIT_SECONDS if left is None else min(left, LONGEST_WAIT_SECONDS)
        if not turn.take(seconds):
            raise CommitContended("Commit conflict: too many commits to the same table wait for their turn; try again")
        refused = False
        try:
            yield
        except CommitFailed as refusal:
            refused = not isinstance(refusal, CommitContended)  # which says nothing about what the writer saw
            raise
        finally:
            turn.give_back(refused=refused)
    finally:
        with _turns_lock:
            turn.wanted_by -= 1
            if not turn.wanted_by:
                del _turns[address]
