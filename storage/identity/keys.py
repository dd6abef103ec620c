"""Keys and tokens for object stores, as identity providers issue them; one thread refreshes them before they expire."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Final, Generic, NoReturn, Protocol, SupportsIndex, TypeVar, cast

from icekeeper.kernel import request_context
from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import BadRequest, Busy, CatalogError
from icekeeper.kernel.threads import release_thread_slot
from storage.credentials import Credential
from storage.errors import StoreRefused


class CredentialNotIssued(StoreRefused):
    """The identity provider of the store rejected the request for a credential; a retry does not help."""

    wire_type = "ShortTermCredentialError"


def require_usable(credential: Credential) -> None:
    """Raise `CredentialNotIssued` when the settings do not allow the credential."""
    try:
        credential.require_permitted()
        credential.require_complete()
    except BadRequest as error:
        raise CredentialNotIssued(error.message) from None


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token for Azure or Google Cloud; `expires_at` in UTC."""

    value: str = field(repr=False)
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Keys:
    """An S3 access key. Temporary keys have a session token and `expires_at`, in UTC."""

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None

    @property
    def parts(self) -> tuple[str, str, str | None]:
        """Return id, secret and session token."""
        return self.access_key_id, self.secret_access_key, self.session_token

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("keys must not be pickled: their secrets would be in clear text")


REFRESH_AFTER: Final = 0.8
"""The part of its lifetime after which a value is refreshed."""
MAX_WAIT_SECONDS: Final = 60.0
"""For another thread that fetches the value."""
RETRY_PAUSE_SECONDS: Final = 10.0
"""Between two attempts to refresh a value that is still valid."""


class Expiring(Protocol):
    @property
    def expires_at(self) -> datetime | None:
        """In UTC; None for a value that does not expire."""


V = TypeVar("V", bound=Expiring)


class RefreshingValue(Generic[V]):
    """The last value that `fetch` returned, kept for most of its lifetime. Thread-safe: one thread fetches at a time.

    Other threads wait only when no valid value exists. A value that cannot be refreshed is used until it expires.
    Threads that waited for a failed fetch get its error and do not fetch again; `timeout_error` is raised after a long
    wait.
    """

    def __init__(self, fetch: Callable[[], V], *, timeout_error: type[CatalogError] = Busy) -> None:
        self._fetch, self._timeout_error = fetch, timeout_error
        self._lock = Lock()
        self._value: V | None = None
        self._refresh_at = 0.0
        self._failed_at = float("-inf")
        self._failure: CatalogError | None = None

    def current(self) -> V:
        """Return a valid value. Raises what `fetch` raises, `timeout_error` and `RequestTimeout` (408)."""
        value, entered_at = self._value, time.monotonic()
        if value is not None and entered_at < self._refresh_at:
            return value
        is_valid = value is not None and _seconds_left(value) > 0
        if not self._lock.acquire(blocking=False):
            if is_valid:
                return cast("V", value)
            self._wait()
        try:
            if self._failure is not None and entered_at < self._failed_at:
                raise copy(self._failure)  # one instance would collect the tracebacks of all threads
            if self._value is None or time.monotonic() >= self._refresh_at:
                self._value = self._refresh()
            return self._value
        finally:
            self._lock.release()

    def _wait(self) -> None:
        """Acquire the lock before the request's deadline. Raises `timeout_error`, `RequestTimeout`."""
        left = request_context.remaining_seconds()
        with release_thread_slot():
            if not self._lock.acquire(timeout=MAX_WAIT_SECONDS if left is None else min(left, MAX_WAIT_SECONDS)):
                request_context.remaining_seconds()
                raise self._timeout_error("The storage credential was requested, but did not arrive in time")

    def _refresh(self) -> V:
        self._failure = None
        try:
            fetched = self._fetch()
        except CatalogError as failure:
            if self._value is None or _seconds_left(self._value) <= 0:
                self._failed_at, self._failure = time.monotonic(), failure
                raise
            self._refresh_at = time.monotonic() + RETRY_PAUSE_SECONDS
            return self._value
        self._refresh_at = time.monotonic() + REFRESH_AFTER * _seconds_left(fetched)
        return fetched


def _seconds_left(value: Expiring) -> float:
    return float("inf") if value.expires_at is None else (value.expires_at - now()).total_seconds()
