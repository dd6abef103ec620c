"""Retries of requests to object stores and their token services."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.conf import settings

from icekeeper.kernel.retry import retry
from storage.errors import StoreUnavailable

T = TypeVar("T")


def retry_store_call(action: Callable[[int], T], *, remaining: Callable[[], float | None]) -> T:
    """Call `action` again after `StoreUnavailable`, as often as the settings say: see `icekeeper.kernel.retry`."""
    return retry(action, on=StoreUnavailable, retries=settings.ICEKEEPER.storage.retries, remaining=remaining)
