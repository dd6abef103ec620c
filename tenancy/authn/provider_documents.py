"""Fetches JSON documents of identity providers and of Kubernetes over HTTP, and caches and refreshes them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase
from urllib3.exceptions import HTTPError

from icekeeper.kernel import request_context
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.client import NoRedirectSession, UnusableResponse, read_response
from icekeeper.kernel.json.strict import JsonBound, read_json
from icekeeper.kernel.threads import SHORT_WAIT_SECONDS, WaiterLimit
from icekeeper.version import VERSION
from tenancy.authn.authenticator import ProviderUnavailable

MAX_DOCUMENT_BYTES: Final = 1024 * 1024
_BOUND: Final = JsonBound(containers=10_000, values=100_000)


class FetchFailed(Exception):
    """A document could not be fetched; the message is for the log, `status` that of an error response."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Fetcher:
    """HTTP client for JSON documents of limited size.

    `timeout` limits, in seconds, the connection, each wait for data and the response as a whole. `ca_file` replaces the
    default certificates; `through_proxy` enables HTTPS_PROXY and similar variables; `bearer` is a token that is never
    logged.
    """

    timeout: float
    ca_file: Path | None = None
    through_proxy: bool = True
    bearer: str | None = field(default=None, repr=False)

    def get(self, address: str) -> dict[str, Any]:
        """Raises `FetchFailed`."""
        return self._fetch("GET", address)

    def post(self, address: str, document: dict[str, Any]) -> dict[str, Any]:
        """Raises `FetchFailed`."""
        return self._fetch("POST", address, json=document)

    def post_form(self, address: str, fields: dict[str, str], *, auth: AuthBase | None = None) -> dict[str, Any]:
        """Raises `FetchFailed`."""
        return self._fetch("POST", address, data=fields, auth=auth or _Bearer(None))

    def _fetch(self, method: str, address: str, *, auth: AuthBase | None = None, **more: Any) -> dict[str, Any]:
        deadline = time.monotonic() + self.timeout
        if urlsplit(address).scheme not in {"http", "https"}:
            raise FetchFailed("its URL is neither http nor https")
        try:
            with NoRedirectSession() as session:
                session.trust_env = self.through_proxy
                response = session.request(
                    method,
                    address,
                    timeout=self.timeout,
                    allow_redirects=False,
                    stream=True,
                    verify=str(self.ca_file) if self.ca_file is not None else True,
                    auth=auth or _Bearer(self.bearer),
                    headers={
                        "Accept": "application/json",
                        "Accept-Encoding": "identity",
                        "User-Agent": f"Icekeeper/{VERSION}",
                    },
                    **more,
                )
                with response:  # closes the connection, also with unread data
                    return _read_document(response, deadline)
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            raise FetchFailed(f"{address} cannot be reached: {_reason(error)}") from None


class _Bearer(AuthBase):
    """Sends the bearer token; also without one, it keeps requests from sending a password of ~/.netrc."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token is not None:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _read_document(response: requests.Response, deadline: float) -> dict[str, Any]:
    address = response.url
    if response.is_redirect or 300 <= response.status_code < 400:  # noqa: PLR2004
        raise FetchFailed(f"{address} responds with a redirect, which is not followed")
    if response.status_code // 100 != 2:  # noqa: PLR2004
        raise FetchFailed(f"{address} responded with status {response.status_code}", response.status_code)
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise FetchFailed(f"{address} sent a compressed response, which was not requested")
    try:
        document = read_json(read_response(response.raw, limit=MAX_DOCUMENT_BYTES, until=deadline), bound=_BOUND)
    except UnusableResponse as error:
        raise FetchFailed(f"{address} {error}") from None
    except BadRequest as error:
        raise FetchFailed(f"{address} sent no valid JSON document: {error.message}") from None
    if not isinstance(document, dict):
        raise FetchFailed(f"{address} sent JSON that is not an object")
    return document


def _reason(error: Exception) -> str:
    """Return the error type and its innermost message, truncated; requests wraps errors several times."""
    inner: BaseException = error
    while (deeper := inner.__cause__ or inner.__context__) is not None:
        inner = deeper
    return f"{type(error).__name__}: {inner}"[:300]


logger = logging.getLogger("icekeeper.authn")

T = TypeVar("T")

MAX_OVERDUE_FETCHES: Final = 2
"""Maximum of fetches that are still running after their timeout; no other fetch starts until one of them ends."""


class _FetchAttempt:
    """A fetch in its own thread, so that a request waits for a hanging connection only up to a timeout."""

    def __init__(self, name: str, run: Callable[[_FetchAttempt], None], *, timeout: float) -> None:
        self._started_at = time.monotonic()
        self.ends_at = self._started_at + timeout
        self.has_ended = threading.Event()
        self._waiters = WaiterLimit()
        self._thread = threading.Thread(target=run, args=(self,), name=f"keys of {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the thread is alive; in a process that was forked meanwhile it is not."""
        return self._thread.is_alive()

    def wait(self, *, is_brief: bool = False) -> bool:
        """Wait for the end and return whether it was reached.

        All requests may wait briefly; only a few wait up to the timeout, and none with `is_brief`.
        """
        now, request = time.monotonic(), request_context.remaining_seconds()
        briefly = self._started_at + SHORT_WAIT_SECONDS - now
        seconds = briefly if is_brief else self.ends_at - now
        return self._waiters.wait(
            self.has_ended.wait,
            seconds=seconds if request is None else min(seconds, request),
            short_wait=briefly,
        )


class RefreshingCache(Generic[T]):
    """The latest result of `fetch`, which gets the previous result and raises `FetchFailed`.

    A call of `get` starts a fetch if there is no result, if it is older than `lifetime`, or if it does not satisfy the
    caller (an unknown key). One fetch runs at a time, for at most `timeout`, and not before `pause` has passed since
    the end of the last one. The cached result stays in use while fetches fail. All times are in seconds. `what` names
    the result in the log.
    """

    def __init__(
        self,
        name: str,
        fetch: Callable[[T | None], T],
        *,
        lifetime: float,
        pause: float,
        timeout: float,
        what: str = "keys",
    ) -> None:
        self.name, self._what = name, what
        self._fetch, self._lifetime, self._pause, self._timeout = fetch, lifetime, pause, timeout
        self._lock = threading.Lock()
        self._known: T | None = None
        self._known_at = self._ended_at = float("-inf")
        self._failure: str | None = None
        self._attempt: _FetchAttempt | None = None
        self._overdue: list[_FetchAttempt] = []

    @property
    def known(self) -> T | None:
        """The cached result of any age; nothing is fetched."""
        return self._known

    @property
    def failure(self) -> str | None:
        """Why the last fetch failed; None if it did not. It may name addresses, so it is for administrators."""
        return self._failure

    @property
    def age(self) -> float | None:
        """Seconds since the cached result was fetched; None without one."""
        return None if self._known is None else time.monotonic() - self._known_at

    def get(self, suffices: Callable[[T], bool] = lambda _: True) -> T:
        """Return the latest result, which may not satisfy the caller if a fetch has just confirmed it.

        Raises `ProviderUnavailable` if there is none, or if it does not satisfy the caller and could not be refreshed.
        """
        with self._lock:
            known, age = self._known, time.monotonic() - self._known_at
            serves = known is not None and suffices(known)
            if known is not None and serves and age < self._lifetime:
                return known
            attempt = self._current_attempt()
        if known is not None and serves and age < 2 * self._lifetime:
            return known  # the refresh runs in the background
        has_result = attempt is not None and attempt.wait()
        with self._lock:
            known, failure = self._known, self._failure
        if known is not None and (suffices(known) or (has_result and failure is None)):
            return known
        reason = "it was tried a moment ago" if attempt is None else "it did not respond in time"
        raise ProviderUnavailable(f"{self.name}: {failure or reason}")

    def refresh_briefly(self) -> None:
        """Start a fetch unless one is running or the last one ended within `pause`; wait for at most a second."""
        with self._lock:
            attempt = self._current_attempt()
        if attempt is not None:
            attempt.wait(is_brief=True)

    def _current_attempt(self) -> _FetchAttempt | None:
        """Return the running fetch, started now if allowed; None within `pause` of the last one."""
        now = time.monotonic()
        if self._attempt is not None and now >= self._attempt.ends_at:
            self._overdue.append(self._attempt)
            self._fail("it did not respond in time", at=self._attempt.ends_at)
            self._attempt = None
        if self._attempt is None and now - self._ended_at >= self._pause:
            self._overdue = [attempt for attempt in self._overdue if attempt.is_running]
            if len(self._overdue) >= MAX_OVERDUE_FETCHES:
                self._fail("earlier requests to it are still waiting", at=now)
                return None
            self._attempt = _FetchAttempt(self.name, self._run_attempt, timeout=self._timeout)
            self._attempt.start()
        return self._attempt

    def _run_attempt(self, attempt: _FetchAttempt) -> None:
        found: T | None = None
        failure: str | None = None
        try:
            found = self._fetch(self._known)
        except FetchFailed as error:
            failure = str(error)
        except Exception as error:
            logger.exception("%s: its response could not be read", self.name)
            failure = type(error).__name__
        with self._lock:
            attempt.has_ended.set()
            if self._attempt is not attempt:
                return  # its timeout has passed
            self._attempt = None
            if found is None:
                self._fail(failure or "it returned nothing", at=time.monotonic())
            else:
                self._known, self._failure = found, None
                self._known_at = self._ended_at = time.monotonic()

    def _fail(self, reason: str, *, at: float) -> None:
        self._failure, self._ended_at = reason, at
        logger.warning(
            "%s: %s cannot be fetched%s: %s",
            self.name, self._what, f"; cached {self._what} stay in use" if self._known is not None else "", reason,
        )  # fmt: skip
