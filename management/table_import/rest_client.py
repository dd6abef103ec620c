"""HTTP client for another Iceberg REST catalog, with retries and limits, and its secrets, which are never logged."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.util import Retry

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.client import NoRedirectSession, UnusableResponse, keep_headers, read_bounded
from icekeeper.kernel.json.strict import read_json
from icekeeper.version import VERSION
from management.table_import.source import SourceFailed, SourceUnreachable

TIMEOUT = (10, 60)
"""Seconds to connect, and to wait for the next bytes of a response."""
MAX_RESPONSE_SECONDS = 300
RETRIES = 5
MAX_PAUSE_SECONDS = 60
RETRIED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
NOT_FOUND, UNAUTHORIZED = 404, 401
CHUNK_BYTES = 65_536
MAX_SECRET_BYTES = 65_536

_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(\S.*)")


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """Credentials for the other catalog: a token, or a client (`id:secret`) that requests one, and headers."""

    token: str | None = field(default=None, repr=False)
    credential: str | None = field(default=None, repr=False)
    oauth2_uri: str | None = None
    scope: str = "catalog"
    headers: dict[str, str] = field(default_factory=dict, repr=False)


class RestClient:
    """Sends GET requests below one URI, from several threads.

    Requests that fail with 429 or 5xx are retried with growing pauses, or after `Retry-After`. Raises
    `SourceUnreachable` if the server does not respond or denies access, `SourceFailed` for an unusable response.
    """

    def __init__(self, uri: str, *, access: SourceAccess, connections: int, backoff: float = 1.0, limit: int) -> None:
        self.uri = checked_uri(uri)
        self._limit = limit
        self._auth = _BearerAuth(access, self.uri, self._request_token)
        self._session = NoRedirectSession()
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._session.headers.update({"Accept": "application/json", "User-Agent": f"Icekeeper/{VERSION}"})
        self._own_headers = access.headers
        retry = Retry(
            total=RETRIES,
            redirect=0,
            status_forcelist=RETRIED_STATUSES,
            allowed_methods={"GET", "POST"},  # POST is only used to request a token
            backoff_factor=backoff,
            backoff_max=MAX_PAUSE_SECONDS,
            retry_after_max=MAX_PAUSE_SECONDS,
            raise_on_status=False,
        )
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(pool_maxsize=connections, max_retries=retry))

    def get(self, path: str, **params: str) -> dict[str, Any] | None:
        """Return the JSON object at the URL-encoded `path`; None if it does not exist (404)."""
        self._auth.prepare()
        used = self._auth.token
        response = self._get(path, params)
        if response.status_code == UNAUTHORIZED and self._auth.renew(used):
            response.close()
            response = self._get(path, params)
        with response:
            if response.status_code == NOT_FOUND:
                return None
            return self._read(response)

    def close(self) -> None:
        self._session.close()

    def _get(self, path: str, params: dict[str, str]) -> requests.Response:
        return self._send("GET", f"{self.uri}/{path}", params=params, headers=self._own_headers, auth=self._auth)

    def _request_token(self, address: str, form: dict[str, str]) -> str:
        with self._send("POST", address, data=form, headers=self._own_headers, auth=keep_headers) as response:
            if response.status_code in {400, UNAUTHORIZED}:
                raise SourceUnreachable(f"{address} denied a token for the credential (status {response.status_code})")
            token = self._read(response).get("access_token")
        if not isinstance(token, str) or not token:
            raise SourceUnreachable(f"{address} responded without an access_token")
        return token

    def _send(self, method: str, address: str, **more: Any) -> requests.Response:
        try:
            return self._session.request(method, address, timeout=TIMEOUT, allow_redirects=False, stream=True, **more)
        except (requests.RequestException, UnicodeError) as error:
            # The text of the error may contain secrets.
            raise SourceUnreachable(f"{address} cannot be reached: {type(error).__name__}") from None

    def _read(self, response: requests.Response) -> dict[str, Any]:
        address = response.url.partition("?")[0]
        if response.status_code in REDIRECT_STATUSES:
            raise SourceUnreachable(f"{address} redirects: use the URI that it redirects to")
        if response.status_code in {UNAUTHORIZED, 407}:
            raise SourceUnreachable(f"{address} denied access (status {response.status_code})")
        if not response.ok:
            raise SourceFailed(f"{address} responded with status {response.status_code}")
        try:
            value = read_json(self._body(response, address))
        except BadRequest as error:
            raise SourceFailed(f"{address} responded with invalid JSON: {error.message}") from None
        if not isinstance(value, dict):
            raise SourceFailed(f"{address} did not respond with a JSON object")
        return value

    def _body(self, response: requests.Response, address: str) -> bytes:
        chunks = response.iter_content(CHUNK_BYTES)
        try:
            until = time.monotonic() + MAX_RESPONSE_SECONDS
            return read_bounded(lambda _: next(chunks, b""), limit=self._limit, until=until)
        except UnusableResponse as error:
            raise SourceFailed(f"{address} {error}") from None
        except requests.RequestException as error:
            raise SourceFailed(f"{address} closed the connection: {type(error).__name__}") from None


def checked_uri(uri: str) -> str:
    """Raises `BadRequest` for an invalid URI, or one with a password."""
    parts = urlsplit(uri)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise BadRequest("The URI of a catalog must begin with http:// or https:// and have a host")
    if parts.username is not None or parts.query or parts.fragment:
        raise BadRequest("The URI of a catalog must not have a user, password, query or fragment")
    return uri.rstrip("/")


class _BearerAuth(AuthBase):
    """Adds the token, which is configured, or requested with the credential at first use and after expiry."""

    def __init__(self, access: SourceAccess, uri: str, request_token: Callable[[str, dict[str, str]], str]) -> None:
        self.token = access.token
        self._access = access
        self._address = checked_uri(access.oauth2_uri) if access.oauth2_uri else f"{uri}/v1/oauth/tokens"
        self._request_token = request_token
        self._lock = Lock()

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self.token is not None:
            request.headers["Authorization"] = f"Bearer {self.token}"
        return request

    def prepare(self) -> None:
        if self.token is None:
            self.renew(None)

    def renew(self, used: str | None) -> bool:
        """Replace the token `used`; return False if there is no credential to request one."""
        if self._access.credential is None:
            return False
        with self._lock:
            if self.token == used:  # no other thread has replaced it
                self.token = self._request_token(self._address, self._form())
        return True

    def _form(self) -> dict[str, str]:
        client_id, colon, secret = str(self._access.credential).partition(":")
        form = {"grant_type": "client_credentials", "scope": self._access.scope}
        return form | ({"client_id": client_id, "client_secret": secret} if colon else {"client_secret": client_id})


def read_secret(source: str | None) -> str | None:
    """Return the secret at `env:NAME` or `file:PATH` without surrounding white space; None if `source` is None.

    Raises `BadRequest`, which names the source and never the secret.
    """
    if source is None:
        return None
    kind, _, name = source.partition(":")
    if kind == "env" and name:
        secret = os.environ.get(name, "")  # named by the operator for one run, not a setting of the server
    elif kind == "file" and name:
        secret = _content(Path(name))
    else:
        raise BadRequest("The source of a secret must be env:NAME or file:PATH")
    secret = secret.strip()
    if not secret:
        raise BadRequest(f"{source} contains no secret")
    return secret


def read_one_line(source: str | None) -> str | None:
    """Like `read_secret`, for a value of a header."""
    secret = read_secret(source)
    if secret is not None and not (secret.isascii() and secret.isprintable()):
        raise BadRequest(f"{source} must contain one line of ASCII")
    return secret


def read_headers(source: str | None) -> dict[str, str]:
    """Return the headers at `env:NAME` or `file:PATH`, one `Name: value` per line."""
    headers: dict[str, str] = {}
    for line in (read_secret(source) or "").splitlines():
        if not line.strip():
            continue
        matched = _HEADER.fullmatch(line.strip())
        if matched is None or not (matched[2].isascii() and matched[2].isprintable()):
            raise BadRequest(f"{source} must contain lines such as Name: value")
        headers[matched[1]] = matched[2]
    return headers


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_SECRET_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"file:{path} cannot be read: {type(error).__name__}") from None
