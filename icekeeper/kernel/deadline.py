"""The deadline of the request at hand: every statement and every object-store call asks it first.

A request that ran out of time is answered 408, but only before its write starts: `begin_write` drops the deadline, so
that an outcome is never in doubt because of us.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from icekeeper.kernel.errors import RequestTimeout

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)
"""On the monotonic clock, in seconds; None outside requests (commands, workers) and once a write has started."""


@contextmanager
def deadline(at: float) -> Iterator[None]:
    """Give the work inside until `at`, seconds on the monotonic clock."""
    token = _deadline.set(at)
    try:
        yield
    finally:
        _deadline.reset(token)


def remaining() -> float | None:
    """Seconds left, None when nothing limits. Raises `RequestTimeout` (408) when there are none left."""
    at = _deadline.get()
    if at is None:
        return None
    left = at - time.monotonic()
    if left <= 0:
        raise RequestTimeout("The request took longer than the server allows (LAKEKEEPER__MAX_REQUEST_TIME)")
    return left


def expired() -> bool:
    """Whether the request at hand has run out of time (never once its write has started)."""
    at = _deadline.get()
    return at is not None and at <= time.monotonic()


def begin_write() -> None:
    """The last look at the clock: raises `RequestTimeout` now or never again for this request."""
    remaining()
    _deadline.set(None)
