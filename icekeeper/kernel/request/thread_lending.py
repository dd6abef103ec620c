"""A request that waits for other requests lends its place among the running ones to one that can go on.

Without that, the writers of one contended table would occupy all threads of a server process, and the one for whom
they wait could not even read the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from icekeeper.kernel.db.connections import give_back_connections


class Lender(Protocol):
    """What a server process does for its waiting threads. Called in the thread that begins or ends to wait."""

    def begin_wait(self) -> None: ...

    def end_wait(self) -> None: ...


_lender: Lender | None = None


def set_lender(lender: Lender | None) -> None:
    """Called once by each server process, before its threads run."""
    global _lender  # noqa: PLW0603 - one a process
    _lender = lender


@contextmanager
def waiting_for_others() -> Iterator[None]:
    """Around a wait of a millisecond or more. The thread's pooled connections are given back before it begins."""
    give_back_connections()
    if _lender is None:
        yield
        return
    _lender.begin_wait()
    try:
        yield
    finally:
        _lender.end_wait()
