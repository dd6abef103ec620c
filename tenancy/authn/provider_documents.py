"""A document of somebody else's that is kept and looked at anew from time to time, whoever goes away meanwhile."""

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

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.client import NoRedirectSession, UnusableResponse, read_response
from icekeeper.kernel.json.strict import JsonBound, read_json
from icekeeper.kernel.request import deadline
from icekeeper.kernel.request.waiter_limit import SHORT_WAIT_SECONDS, WaiterLimit
from icekeeper.version import VERSION
from tenancy.authn.authenticator import ProviderUnavailable

LARGEST_DOCUMENT: Final = 1024 * 1024
_BOUND: Final = JsonBound(containers=10_000, values=100_000)


class FetchFailed(Exception):
    """Why a document could not be had, for the log."""


@dataclass(frozen=True, slots=True)
class Fetcher:
    """`timeout` is in seconds, for the answer as a whole once it comes and for each wait before that.

    `ca_file` replaces the usual certificates; `through_proxy` is whether HTTPS_PROXY and its like count; `bearer` is
    sent as a token and never shown.
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

    def _fetch(self, method: str, address: str, **more: Any) -> dict[str, Any]:
        deadline = time.monotonic() + self.timeout
        if urlsplit(address).scheme not in {"http", "https"}:
            raise FetchFailed("its address is neither http nor https")
        try:
            with NoRedirectSession() as session:
                session.trust_env = self.through_proxy
                answer = session.request(
                    method,
                    address,
                    timeout=self.timeout,
                    allow_redirects=False,
                    stream=True,
                    verify=str(self.ca_file) if self.ca_file is not None else True,
                    auth=_Bearer(self.bearer),
                    headers={
                        "Accept": "application/json",
                        "Accept-Encoding": "identity",
                        "User-Agent": f"Icekeeper/{VERSION}",
                    },
                    **more,
                )
                with answer:  # also when nobody wants to read what is left of it
                    return _document(answer, deadline)
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            raise FetchFailed(f"{address} cannot be reached: {_reason(error)}") from None


class _Bearer(AuthBase):
    """Also keeps requests from looking for a password of its own in ~/.netrc."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token is not None:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _document(answer: requests.Response, deadline: float) -> dict[str, Any]:
    address = answer.url
    if answer.is_redirect or 300 <= answer.status_code < 400:  # noqa: PLR2004
        raise FetchFailed(f"{address} redirects elsewhere, which is not followed")
    if answer.status_code // 100 != 2:  # noqa: PLR2004
        raise FetchFailed(f"{address} answered {answer.status_code}")
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise FetchFailed(f"{address} sent something compressed, which was not asked for")
    try:
        document = read_json(read_response(answer.raw, limit=LARGEST_DOCUMENT, until=deadline), bound=_BOUND)
    except UnusableResponse as complaint:
        raise FetchFailed(f"{address} {complaint}") from None
    except BadRequest as refusal:
        raise FetchFailed(f"{address} sent no JSON document: {refusal.message}") from None
    if not isinstance(document, dict):
        raise FetchFailed(f"{address} sent JSON that is no object")
    return document


def _reason(error: Exception) -> str:
    """The kind of failure and its innermost text, cut; requests wraps them several times."""
    inner: BaseException = error
    while (deeper := inner.__cause__ or inner.__context__) is not None:
        inner = deeper
    return f"{type(error).__name__}: {inner}"[:300]


logger = logging.getLogger("icekeeper.authn")

T = TypeVar("T")

MOST_HANGING: Final = 2
"""Fetches that were given up and have not ended yet, beyond which no other is begun."""


class _InFlight:
    """One fetch in a thread of its own: what hangs in the network holds up no request longer than it waits."""

    def __init__(self, name: str, fly: Callable[[_InFlight], None], *, patience: float) -> None:
        self._began_at = time.monotonic()
        self.ends_at = self._began_at + patience
        self.landed = threading.Event()
        self._room = WaiterLimit()
        self._thread = threading.Thread(target=fly, args=(self,), name=f"keys of {name}", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    @property
    def hangs(self) -> bool:
        """Whether it is still under way; in a process that was forked meanwhile it is not."""
        return self._thread.is_alive()

    def wait(self, *, is_brief: bool = False) -> bool:
        """Whether it has landed: many wait for that at its beginning, a few up to its end, none if `is_brief`."""
        now, request = time.monotonic(), deadline.remaining()
        briefly = self._began_at + SHORT_WAIT_SECONDS - now
        left = briefly if is_brief else self.ends_at - now
        return self._room.wait(
            self.landed.wait,
            seconds=left if request is None else min(left, request),
            short_wait=briefly,
        )


class Refreshed(Generic[T]):
    """The newest outcome of `fetch`, which is given the one before and raises `FetchFailed`.

    It is fetched when somebody asks: the first time, when it is older than `lifetime`, and when it does not suffice
    the asker (an unknown key); by one thread at a time, waited for `patience` at most, and again `pause` after the end
    of the last look at the earliest. What is there is used on while a newer one cannot be had. All times in seconds.
    """

    def __init__(
        self, name: str, fetch: Callable[[T | None], T], *, lifetime: float, pause: float, patience: float
    ) -> None:
        self.name = name
        self._fetch, self._lifetime, self._pause, self._patience = fetch, lifetime, pause, patience
        self._lock = threading.Lock()
        self._known: T | None = None
        self._known_at = self._ended_at = float("-inf")
        self._failure: str | None = None
        self._flight: _InFlight | None = None
        self._hanging: list[_InFlight] = []

    @property
    def known(self) -> T | None:
        """What is there, whatever its age, without looking anywhere."""
        return self._known

    def get(self, suffices: Callable[[T], bool] = lambda _: True) -> T:
        """The newest that can be had; it may not suffice all the same.

        Raises `ProviderUnavailable` when there is none, or none that suffices and nobody knows whether there is one.
        """
        with self._lock:
            known, age = self._known, time.monotonic() - self._known_at
            serves = known is not None and suffices(known)
            if known is not None and serves and age < self._lifetime:
                return known
            flight = self._current_flight()
        if known is not None and serves and age < 2 * self._lifetime:
            return known  # whoever asks next finds the newer one
        has_landed = flight is not None and flight.wait()
        with self._lock:
            known, failure = self._known, self._failure
        if known is not None and (suffices(known) or (has_landed and failure is None)):
            return known
        reason = "it was asked a moment ago" if flight is None else "it did not answer in time"
        raise ProviderUnavailable(f"{self.name}: {failure or reason}")

    def look_briefly(self) -> None:
        """Begin a fetch unless one is under way or the last one ended too short ago; wait for its first second."""
        with self._lock:
            flight = self._current_flight()
        if flight is not None:
            flight.wait(is_brief=True)

    def _current_flight(self) -> _InFlight | None:
        """The fetch that is under way, begun now if one may be; None when the last one was too short ago."""
        now = time.monotonic()
        if self._flight is not None and now >= self._flight.ends_at:
            self._hanging.append(self._flight)
            self._fail("it did not answer in time", at=self._flight.ends_at)
            self._flight = None
        if self._flight is None and now - self._ended_at >= self._pause:
            self._hanging = [flight for flight in self._hanging if flight.hangs]
            if len(self._hanging) >= MOST_HANGING:
                self._fail("earlier attempts to reach it still hang", at=now)
                return None
            self._flight = _InFlight(self.name, self._fly, patience=self._patience)
            self._flight.begin()
        return self._flight

    def _fly(self, flight: _InFlight) -> None:
        found: T | None = None
        failure: str | None = None
        try:
            found = self._fetch(self._known)
        except FetchFailed as refusal:
            failure = str(refusal)
        except Exception as error:
            logger.exception("%s: its answer could not be read", self.name)
            failure = type(error).__name__
        with self._lock:
            flight.landed.set()
            if self._flight is not flight:
                return  # it was given up
            self._flight = None
            if found is None:
                self._fail(failure or "it sent nothing", at=time.monotonic())
            else:
                self._known, self._failure = found, None
                self._known_at = self._ended_at = time.monotonic()

    def _fail(self, reason: str, *, at: float) -> None:
        self._failure, self._ended_at = reason, at
        logger.warning(
            "%s cannot be asked for its keys%s: %s",
            self.name, "; those that are known go on" if self._known is not None else "", reason,
        )  # fmt: skip
