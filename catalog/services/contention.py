"""Many writers, one table: they take turns in this process and try again when another process was faster."""

from __future__ import annotations

import random
import time
from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock

from icekeeper.kernel import deadline
from icekeeper.kernel.errors import CommitContended

ATTEMPTS = 60
"""How often a commit is judged anew when another process moved the pointer in between."""

PAUSE_SECONDS = 0.01
LONGEST_PAUSE_SECONDS = 0.16

LONGEST_WAIT_SECONDS = 20.0
"""For a turn, where the request's own deadline does not end the wait earlier."""


class _Turn:
    """A lock that forgets itself when nobody wants it any more."""

    __slots__ = ("lock", "wanted_by")

    def __init__(self) -> None:
        self.lock = Lock()
        self.wanted_by = 0


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
        if not turn.lock.acquire(timeout=seconds):
            raise CommitContended("Commit conflict: too many commits to the same table wait for their turn; try again")
        try:
            yield
        finally:
            turn.lock.release()
    finally:
        with _turns_lock:
            turn.wanted_by -= 1
            if not turn.wanted_by:
                del _turns[address]
