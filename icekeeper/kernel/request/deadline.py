"""The deadline of the current request, checked before every statement and every object-store call.

A request past its deadline gets a 408, but only before its write starts: `begin_write` drops the deadline, so that a
timeout never interrupts a write. `end_write` records that something was changed: an error response after it must not
claim that nothing was.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from icekeeper.kernel.errors.types import RequestTimeout
from icekeeper.kernel.request.context import current_context


@contextmanager
def deadline(at: float) -> Iterator[None]:
    """Run the block with the deadline `at`, in seconds on the monotonic clock."""
    context = current_context()
    outer, has_written = context.deadline, context.has_written
    context.deadline, context.has_written = at, False
    try:
        yield
    finally:
        context.deadline, context.has_written = outer, has_written


def remaining() -> float | None:
    """Return the seconds left, None without a deadline. Raises `RequestTimeout` (408) when none are left."""
    at = current_context().deadline
    if at is None:
        return None
    left = at - time.monotonic()
    if left <= 0:
        raise RequestTimeout("The request took longer than the server allows (LAKEKEEPER__MAX_REQUEST_TIME)")
    return left


def expired() -> bool:
    """Return whether the request is past its deadline; False after its write has started."""
    at = current_context().deadline
    return at is not None and at <= time.monotonic()


def begin_write() -> None:
    """Drop the deadline before a write. Raises `RequestTimeout` if it has passed.

    Earlier commits of the same request, such as those of a purge, do not count as its write.
    """
    remaining()
    context = current_context()
    context.deadline, context.has_written = None, False


def end_write() -> None:
    """Record that the write is committed."""
    current_context().has_written = True


def has_written() -> bool:
    return current_context().has_written
