"""Many writers, one table: they take turns on this machine and try again when another machine was faster."""

from __future__ import annotations

import random
import time
from collections.abc import Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock

from cachetools import LRUCache

from catalog.services.turns import KEPT_SECONDS, Turn
from icekeeper.kernel import node_leases
from icekeeper.kernel.errors.types import CommitContended, CommitFailed
from icekeeper.kernel.request import deadline
from icekeeper.kernel.request.client_connection import current_client_connection
from tenancy.authz.refusals import AuthorizationBackendError

ATTEMPTS = 60
"""How often a commit is judged anew when another machine moved the pointer in between."""

PAUSE_SECONDS = 0.01
LONGEST_PAUSE_SECONDS = 0.16

KNOWN_ADDRESSES = 4096
"""Addresses whose turns are remembered."""

LONGEST_WAIT_SECONDS = 20.0
"""For a turn, where the request's own deadline does not end the wait earlier."""

_turns: LRUCache[Hashable, Turn] = LRUCache(maxsize=KNOWN_ADDRESSES)
"""Of the addresses that were committed to last. One that is forgotten while it is wanted costs courtesy only."""
_turns_lock = Lock()


@contextmanager
def turns_at(addresses: Iterable[Hashable]) -> Iterator[None]:
    """Be the only one on this machine who commits to what is at `addresses`; turns and leases are taken in one order.

    No database lock: other machines are kept out by the compare-and-set alone. Raises `CommitContended` (409) when the
    turn does not come in time; and when nobody can tell whether the writer may commit: after a bare 503 clients of
    Iceberg would have to think that it may have been committed.
    """
    try:
        with ExitStack() as held:
            for address in sorted(set(addresses), key=lambda each: (node_leases.slot_of(each), str(each))):
                held.enter_context(_turn_at(address))
            yield
    except AuthorizationBackendError as failure:
        raise CommitContended(f"Nothing was committed: {failure.message}") from failure


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
    slot = node_leases.slot_of(address)
    with _turns_lock:
        turn = _turns.get(address)
        if turn is None:
            turn = _turns[address] = Turn()
    left = deadline.remaining()
    seconds = LONGEST_WAIT_SECONDS if left is None else min(left, LONGEST_WAIT_SECONDS)
    if not turn.take(seconds, client=current_client_connection()):
        raise CommitContended("Commit conflict: too many commits to the same table wait for their turn; try again")
    has_committed = is_kept = False
    try:
        node_leases.take_lease(slot, seconds=node_leases.LEASE_SECONDS)
        yield
        has_committed, is_kept = True, turn.may_go_on()
    except CommitFailed as refusal:
        is_kept = not isinstance(refusal, CommitContended)  # which says nothing about what the writer saw
        raise
    finally:
        try:  # a turn that is never given back would close the table to this process
            node_leases.give_lease_back(slot, keep_seconds=KEPT_SECONDS if is_kept else 0.0)
        finally:
            turn.give_back(has_committed=has_committed, is_kept=is_kept)
