"""Requests to object stores and their token services, within the limits of `ICEKEEPER__STORAGE__*`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from azure.core.pipeline.transport import RequestsTransport
from django.conf import settings

from icekeeper.kernel.http.client import BoundedSession
from icekeeper.kernel.retry import retry
from storage.errors import StoreUnavailable

MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
"""Limit of all responses except single objects: enough for a list of 1000 names of 1024 escaped bytes."""

T = TypeVar("T")


def store_session(*, max_bytes: int = MAX_RESPONSE_BYTES) -> BoundedSession:
    """Return a session with the default timeouts of the settings."""
    limits = settings.ICEKEEPER.storage
    return BoundedSession(timeout=(limits.connect_timeout, limits.request_timeout), max_bytes=max_bytes)


def ca_bundle() -> bool | str:
    """Return the value of `verify` for requests and libraries based on it."""
    bundle = settings.ICEKEEPER.storage.ca_bundle
    return True if bundle is None else str(bundle)


def azure_client_options() -> dict[str, Any]:
    """Return the options of a client of Azure's SDK. The client owns connections: close it, or keep it permanently.

    It does not follow redirects. It does not retry either: the SDK would wait as long as a Retry-After header says.
    """
    limits = settings.ICEKEEPER.storage
    bounds = {
        "connection_timeout": limits.connect_timeout,
        "read_timeout": limits.request_timeout,
        "connection_verify": ca_bundle(),
    }
    return {
        **bounds,
        "transport": RequestsTransport(session=store_session(), **bounds),
        "retry_total": 0,
        "permit_redirects": False,
    }


def retry_store_call(action: Callable[[int], T], *, remaining: Callable[[], float | None]) -> T:
    """Retry `action` on `StoreUnavailable`, as often as the settings allow (`icekeeper.kernel.retry`)."""
    return retry(action, on=StoreUnavailable, retries=settings.ICEKEEPER.storage.retries, remaining=remaining)
