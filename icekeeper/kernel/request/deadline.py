"""The deadline of the request at hand: every statement and every object-store call asks it first.

A request that ran out of time is answered 408, but only before its write starts: `begin_write` drops the deadline, so
that an outcome is never in doubt because of us. `end_write` keeps in mind that something was changed: what fails later
is not told as if nothing had been.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from icekeeper.kernel.errors.types import RequestTimeout

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)
"""On the monotonic clock, in seconds; None outside requests (commands, workers) and once a write has started."""
_written: ContextVar[bool] = ContextVar("written", default=False)
"""Whether the request at hand has committed the last write that it began."""


@contextmanager
def deadline(at: float) -> Iterator[None]:
    """Give the work inside until `at`, seconds on the monotonic clock."""
    token, written = _deadline.set(at), _written.set(False)
    try:
        yield
    finally:
        _deadline.reset(token)
        _written.reset(written)


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
    """The last look at the clock: raises `RequestTimeout` now or never again for this request.

    What was committed before, files that were in the way say, is not what the request is about.
    """
    remaining()
    _deadline.set(None)
    _written.set(False)


def end_write() -> None:
    """What was begun is committed."""
    _written.set(True)


def has_written() -> bool:
    return _written.get()
