"""Requests to object stores and their token services, within the limits of `ICEKEEPER__STORAGE__*`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from django.conf import settings

from icekeeper.kernel import request_context
from icekeeper.kernel.http.client import BoundedSession
from icekeeper.kernel.retry import backoff_seconds
from storage.errors import StoreUnavailable

MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
"""Limit of all responses except single objects: enough for a list of 1000 names of 1024 escaped bytes."""

T = TypeVar("T")


def store_session(*, max_bytes: int = MAX_RESPONSE_BYTES) -> BoundedSession:
    """Return a session with the default timeouts of the settings."""
    limits = settings.ICEKEEPER.storage
    return BoundedSession(timeout=(limits.connect_timeout, limits.request_timeout), max_bytes=max_bytes)


def timeouts() -> tuple[float, float]:
    """Return the timeouts for connection and response, within the deadline of the request. Raises `RequestTimeout`."""
    limits, left = settings.ICEKEEPER.storage, request_context.remaining_seconds()
    seconds = limits.request_timeout if left is None else min(limits.request_timeout, left)
    return min(limits.connect_timeout, seconds), seconds


def ca_bundle() -> bool | str:
    """Return the value of `verify` for requests and libraries based on it."""
    bundle = settings.ICEKEEPER.storage.ca_bundle
    return True if bundle is None else str(bundle)


FIRST_PAUSE_SECONDS: Final = 0.1
MAX_PAUSE_SECONDS: Final = 3.0

RemainingTime = Callable[[], float | None]
"""Returns the seconds left for a call, None for no limit; raises when none are left."""


def retry_store_call(action: Callable[[int], T], *, remaining: RemainingTime) -> T:
    """Return what `action` returns; call it again on `StoreUnavailable`, as often as the settings allow.

    `action` gets the number of earlier attempts. `remaining` is called before each attempt; what it raises ends
    the attempts. A pause that would not end in time is not begun: the error of the last attempt is raised instead.
    """
    retries: int = settings.ICEKEEPER.storage.retries
    for attempt in range(retries + 1):
        remaining()
        try:
            return action(attempt)
        except StoreUnavailable:
            left = remaining()
            pause = backoff_seconds(attempt + 1, first=FIRST_PAUSE_SECONDS, limit=MAX_PAUSE_SECONDS)
            if attempt == retries or (left is not None and left <= pause):
                raise
            time.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def unlimited() -> None:
    """Return the remaining time of work that must be done however long it takes: no limit."""
