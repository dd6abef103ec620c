"""Reading from another Iceberg REST catalog over HTTP: patient, bounded, and silent about its secrets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.cookiejar import DefaultCookiePolicy
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.util import Retry

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.http_answers import StayingSession
from icekeeper.kernel.json.strict import read_json
from icekeeper.version import VERSION
from management.registration.source import SourceFailed, SourceUnreachable

TIMEOUT = (10, 60)
"""Seconds to connect, and to wait for the next bytes of an answer."""
ANSWER_SECONDS = 300
RETRIES = 5
LONGEST_PAUSE = 60
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
REDIRECTS = frozenset({301, 302, 303, 307, 308})
NOT_FOUND, UNAUTHORIZED = 404, 401
PIECE = 65_536


@dataclass(frozen=True, slots=True)
class Access:
    """How to be let in: a token, or a credential (`id:secret`) that buys one, and headers for every request."""

    token: str | None = field(default=None, repr=False)
    credential: str | None = field(default=None, repr=False)
    oauth2_uri: str | None = None
    scope: str = "catalog"
    headers: dict[str, str] = field(default_factory=dict, repr=False)


class RestClient:
    """GET requests below one address, from several threads.

    A busy server (429, 5xx) is asked again with growing pauses, or when its `Retry-After` says. Raises
    `SourceUnreachable` when it stays silent or does not let us in, `SourceFailed` for an answer that is of no use.
    """

    def __init__(self, uri: str, *, access: Access, connections: int, backoff: float = 1.0, limit: int) -> None:
        self.uri = checked_uri(uri)
        self._limit = limit
        self._auth = _Bearer(access, self.uri, self._ask_for_token)
        self._session = StayingSession()
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._session.headers.update({"Accept": "application/json", "User-Agent": f"Icekeeper/{VERSION}"})
        self._own_headers = access.headers
        retry = Retry(
            total=RETRIES,
            redirect=0,
            status_forcelist=BUSY,
            allowed_methods={"GET", "POST"},  # the only POST asks for a token
            backoff_factor=backoff,
            backoff_max=LONGEST_PAUSE,
            retry_after_max=LONGEST_PAUSE,
            raise_on_status=False,
        )
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_maxsize=connections, max_retries=retry))

    def get(self, path: str, **params: str) -> dict[str, Any] | None:
        """The JSON object at `path`, which is encoded already; None when there is none (404)."""
        self._auth.prepare()
        used = self._auth.token
        answer = self._get(path, params)
        if answer.status_code == UNAUTHORIZED and self._auth.renew(used):
            answer.close()
            answer = self._get(path, params)
        with answer:
            if answer.status_code == NOT_FOUND:
                return None
            return self._read(answer)

    def close(self) -> None:
        self._session.close()

    def _get(self, path: str, params: dict[str, str]) -> requests.Response:
        return self._send("GET", f"{self.uri}/{path}", params=params, headers=self._own_headers, auth=self._auth)

    def _ask_for_token(self, address: str, form: dict[str, str]) -> str:
        with self._send("POST", address, data=form, headers=self._own_headers, auth=_NoAuth()) as answer:
            if answer.status_code in {400, UNAUTHORIZED}:
                raise SourceUnreachable(f"{address} gave no token for the credential (status {answer.status_code})")
            token = self._read(answer).get("access_token")
        if not isinstance(token, str) or not token:
            raise SourceUnreachable(f"{address} answered without an access_token")
        return token

    def _send(self, method: str, address: str, **more: Any) -> requests.Response:
        try:
            return self._session.request(method, address, timeout=TIMEOUT, allow_redirects=False, stream=True, **more)
        except (requests.RequestException, UnicodeError) as error:
            # Its text may quote what was sent.
            raise SourceUnreachable(f"{address} cannot be reached: {type(error).__name__}") from None

    def _read(self, answer: requests.Response) -> dict[str, Any]:
        address = answer.url.partition("?")[0]
        if answer.status_code in REDIRECTS:
            raise SourceUnreachable(f"{address} redirects elsewhere: give the address that it redirects to")
        if answer.status_code in {UNAUTHORIZED, 407}:
            raise SourceUnreachable(f"{address} does not let us in (status {answer.status_code})")
        if not answer.ok:
            raise SourceFailed(f"{address} answered {answer.status_code}")
        try:
            value = read_json(self._body(answer, address))
        except BadRequest as error:
            raise SourceFailed(f"{address} answered with no JSON: {error.message}") from None
        if not isinstance(value, dict):
            raise SourceFailed(f"{address} answered with no JSON object")
        return value

    def _body(self, answer: requests.Response, address: str) -> bytes:
        until = time.monotonic() + ANSWER_SECONDS
        body = bytearray()
        try:
            for piece in answer.iter_content(PIECE):
                body += piece
                if len(body) > self._limit:
                    raise SourceFailed(f"{address} answered with more than {self._limit} bytes")
                if time.monotonic() > until:
                    raise SourceFailed(f"{address} took longer than {ANSWER_SECONDS} s to answer")
        except requests.RequestException as error:
            raise SourceFailed(f"{address} broke off its answer: {type(error).__name__}") from None
        return bytes(body)


def checked_uri(uri: str) -> str:
    """Raises `BadRequest` for an address that is none, or that holds a password."""
    parts = urlsplit(uri)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise BadRequest("The address of a catalog begins with http:// or https:// and names a host")
    if parts.username is not None or parts.query or parts.fragment:
        raise BadRequest("The address of a catalog holds no user, password, query or fragment")
    return uri.rstrip("/")


class _NoAuth(AuthBase):
    """Keeps requests from looking for a password of its own in ~/.netrc."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


class _Bearer(AuthBase):
    """The token of every request: given, or bought with the credential when it is first needed and when it expired."""

    def __init__(self, access: Access, uri: str, ask: Callable[[str, dict[str, str]], str]) -> None:
        self.token = access.token
        self._access = access
        self._address = checked_uri(access.oauth2_uri) if access.oauth2_uri else f"{uri}/v1/oauth/tokens"
        self._ask = ask
        self._lock = Lock()

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self.token is not None:
            request.headers["Authorization"] = f"Bearer {self.token}"
        return request

    def prepare(self) -> None:
        if self.token is None:
            self.renew(None)

    def renew(self, used: str | None) -> bool:
        """Get another token than `used`; False when there is no credential to get one with."""
        if self._access.credential is None:
            return False
        with self._lock:
            if self.token == used:  # nobody else was faster
                self.token = self._ask(self._address, self._form())
        return True

    def _form(self) -> dict[str, str]:
        client_id, colon, secret = str(self._access.credential).partition(":")
        form = {"grant_type": "client_credentials", "scope": self._access.scope}
        return form | ({"client_id": client_id, "client_secret": secret} if colon else {"client_secret": client_id})
