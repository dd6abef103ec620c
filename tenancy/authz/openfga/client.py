"""HTTP requests to OpenFGA and to its token endpoint: connections, credentials, circuit breaker, errors."""

from __future__ import annotations

import logging
import math
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Any, Final
from urllib.parse import urlencode

from urllib3 import BaseHTTPResponse, PoolManager, Timeout
from urllib3.connection import HTTPConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
)

from icekeeper.kernel import request_context
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.client import (
    TimedHTTPConnection,
    TimedHTTPPool,
    TimedHTTPSConnection,
    TimedHTTPSPool,
    UnusableResponse,
    read_response,
)
from icekeeper.kernel.json.strict import JsonBound, read_json
from icekeeper.kernel.threads import release_thread_slot
from icekeeper.version import VERSION
from tenancy.authz.port import AuthorizationBackendError

_MESSAGE: Final = "Permissions cannot be checked at the moment: nothing was changed, try again"


class OpenFgaUnavailable(AuthorizationBackendError):
    """OpenFGA cannot be reached, or its response is not usable.

    The response to the caller does not include `reason`, which is for the log. `is_in_doubt`: what was sent may still
    take effect.
    """

    is_expected = True

    def __init__(self, reason: str, *, is_in_doubt: bool = False) -> None:
        super().__init__(_MESSAGE)
        self.reason, self.is_in_doubt = reason, is_in_doubt


class NoHttpResponse(OpenFgaUnavailable):
    """The server accepted the connection and closed it without an HTTP/1.1 response."""


class OpenFgaEndpointIsGrpc(OpenFgaUnavailable):
    """The configured address is a gRPC interface; the reason names the setting to correct."""


class OpenFgaRequestRejected(OpenFgaUnavailable):
    """OpenFGA returned an error response with the status `openfga_status` and the error code `code`.

    `is_in_doubt`: an earlier copy of the request may still take effect.
    """

    def __init__(self, status: int, code: str, text: str, *, is_in_doubt: bool = False) -> None:
        super().__init__(f"OpenFGA responded {status} {code}: {text}", is_in_doubt=is_in_doubt)
        self.openfga_status, self.code = status, code


FAILURES_TO_OPEN: Final = 3
"""Consecutive failures after which the circuit breaker opens."""


RETRY_PAUSE_SECONDS: Final = 1.0
"""The pause before an open circuit breaker allows the next request."""


logger = logging.getLogger("icekeeper.authz")


class CircuitBreaker:
    """The circuit breaker of one process: after consecutive failures it allows one request per pause."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._failures = 0
        self._next_at = 0.0
        self._reason = ""

    def enter(self) -> None:
        """Raises `OpenFgaUnavailable` while the breaker is open and the pause has not passed."""
        with self._lock:
            if self._failures < FAILURES_TO_OPEN:
                return
            at = time.monotonic()
            if at < self._next_at:
                raise OpenFgaUnavailable(f"the last request failed a moment ago: {self._reason}")
            self._next_at = at + RETRY_PAUSE_SECONDS

    def succeeded(self) -> None:
        with self._lock:
            was_open, self._failures = self._failures >= FAILURES_TO_OPEN, 0
        if was_open:
            logger.warning("OpenFGA responds again")

    def failed(self, reason: str) -> None:
        with self._lock:
            self._failures += 1
            self._next_at = time.monotonic() + RETRY_PAUSE_SECONDS
            self._reason = reason
        logger.warning("OpenFGA is unavailable: %s", reason)


MAX_RESPONSE_BYTES: Final = 8 * 1024 * 1024


_BOUND: Final = JsonBound(containers=200_000, values=1_000_000)


MAX_IDLE_CONNECTIONS: Final = 64
"""Connections kept open to each of the two servers."""


UNSENT_TIMEOUT_SECONDS: Final = 5
"""The TCP timeout for unacknowledged data: nothing that was sent arrives much later."""


_NOT_SENT: Final = (NewConnectionError, ConnectTimeoutError, LocationParseError)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Timeouts in seconds, of connecting and of the whole request; `ca_file` replaces the default certificates."""

    connect: float
    whole: float
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class OpenFgaResponse:
    """A response of any status; `document` is None if the body is not a JSON object.

    `was_resent`: it is the response to the second copy of the request. The server may have received the first copy,
    too, and may process it later.
    """

    status: int
    document: dict[str, Any] | None
    was_resent: bool = False


class OpenFgaConnection:
    """A pool of connections for the threads of one process. Redirects are returned, not followed.

    No request takes longer than `limits.whole`, nor than the deadline of the current request.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._pools = PoolManager(
            num_pools=4,
            maxsize=MAX_IDLE_CONNECTIONS,
            retries=False,
            socket_options=_socket_options(),
            cert_reqs="CERT_REQUIRED",
            ca_certs=None if limits.ca_file is None else str(limits.ca_file),
        )
        self._pools.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}

    def request(self, method: str, url: str, *, body: bytes | None, headers: Mapping[str, str]) -> OpenFgaResponse:
        """Send a request, a second time if a reused connection was closed (`OpenFgaResponse.was_resent`).

        Raises `OpenFgaUnavailable`, `RequestTimeout` (408); `NoHttpResponse` if a new connection brought no response.
        """
        left = request_context.remaining_seconds()
        until = time.monotonic() + (self._limits.whole if left is None else min(left, self._limits.whole))
        sent = {"Accept": "application/json", "User-Agent": f"Icekeeper/{VERSION}", **headers}
        with release_thread_slot():
            try:
                return self._send(method, url, body, sent, until)
            except ProtocolError as error:
                failure = error
            if not _was_reused(failure):
                raise NoHttpResponse(_reason(failure), is_in_doubt=True) from None
            try:
                return replace(self._send(method, url, body, sent, until), was_resent=True)
            except ProtocolError as error:
                raise OpenFgaUnavailable(_reason(error), is_in_doubt=True) from None
            except OpenFgaUnavailable as unsent:  # only the second copy was not sent
                raise OpenFgaUnavailable(unsent.reason, is_in_doubt=True) from None

    def _send(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], until: float
    ) -> OpenFgaResponse:
        """Raises `ProtocolError` if the connection was closed before a response."""
        left = until - time.monotonic()
        if left <= 0:
            raise OpenFgaUnavailable("no time was left", is_in_doubt=True)
        limit = Timeout(connect=min(left, self._limits.connect), read=left)
        try:
            response = self._pools.urlopen(
                method, url, body=body, headers=dict(headers), timeout=limit, preload_content=False, redirect=False
            )
        except SSLError as error:
            raise NoHttpResponse(_reason(error)) from None
        except _NOT_SENT as error:
            raise OpenFgaUnavailable(_reason(error)) from None
        except ProtocolError:
            raise
        except (HTTPError, OSError, ValueError) as error:
            raise OpenFgaUnavailable(_reason(error), is_in_doubt=True) from None
        return OpenFgaResponse(response.status, _document(_body(response, until)))


def _body(response: BaseHTTPResponse, until: float) -> bytes:
    is_whole = False
    try:
        body = read_response(response, limit=MAX_RESPONSE_BYTES, until=until)
        is_whole = True
    except (UnusableResponse, HTTPError, OSError) as error:
        raise OpenFgaUnavailable(_reason(error), is_in_doubt=True) from None
    finally:
        if is_whole:
            response.release_conn()
        else:
            response.close()
    return body


def _document(body: bytes) -> dict[str, Any] | None:
    try:
        document = read_json(body, bound=_BOUND)
    except BadRequest:
        return None
    return document if isinstance(document, dict) else None


class _KeptConnectionClosed(ConnectionError):
    """The server closed a reused connection, as it does with idle ones, without a response."""


class _ReusedConnection:
    """Mixin for connections: raises `_KeptConnectionClosed` if one that was used before is closed by the server.

    Sending on such a connection is no error by itself: urllib3 still reads the response.
    """

    _has_responded = False

    def connect(self) -> None:
        self._has_responded = False
        super().connect()  # type: ignore[misc]  # of the connection that this is mixed into

    def getresponse(self) -> Any:
        try:
            response = super().getresponse()  # type: ignore[misc]
        except ConnectionError as error:
            if self._has_responded:
                raise _KeptConnectionClosed(*error.args) from error
            raise
        self._has_responded = True
        return response


class _HTTPConnection(_ReusedConnection, TimedHTTPConnection):
    pass


class _HTTPSConnection(_ReusedConnection, TimedHTTPSConnection):
    pass


class _HTTPPool(TimedHTTPPool):
    ConnectionCls = _HTTPConnection


class _HTTPSPool(TimedHTTPSPool):
    ConnectionCls = _HTTPSConnection


def _was_reused(error: ProtocolError) -> bool:
    cause = error.args[-1] if error.args else None
    return isinstance(cause, _KeptConnectionClosed)


def _reason(error: Exception) -> str:
    """Return the type of the failure and its innermost message, cut. Neither contains a credential.

    The innermost message of a late response is about the connection, which this server closed itself.
    """
    if isinstance(error, ReadTimeoutError | TimeoutError):
        return f"{type(error).__name__}: no response in time"
    inner: BaseException = error
    while (deeper := inner.__cause__ or inner.__context__) is not None:
        inner = deeper
    return f"{type(error).__name__}: {inner}"[:300]


def _socket_options() -> list[tuple[int, int, int]]:
    options = list(HTTPConnection.default_socket_options)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        options.append((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNSENT_TIMEOUT_SECONDS * 1000))
    return options


USED_FRACTION_OF_LIFETIME: Final = 0.8
"""The fraction of its lifetime for which a token is used."""


_DEFAULT_LIFETIME: Final = 300.0
"""Seconds, for a token response without `expires_in`, which RFC 6749 §5.1 only recommends."""


class OpenFgaCredential(ABC):
    @abstractmethod
    def headers(self) -> dict[str, str]:
        """Raises `OpenFgaUnavailable`."""

    def renew(self) -> bool:
        """Discard a credential that OpenFGA no longer accepts; return whether another one can be requested."""
        return False


class PresharedKey(OpenFgaCredential):
    """A fixed bearer token; None if OpenFGA requires no authentication."""

    def __init__(self, key: str | None) -> None:
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    def headers(self) -> dict[str, str]:
        return self._headers


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """The OAuth client of this server at the token endpoint."""

    endpoint: str
    client_id: str
    secret: str = field(repr=False)
    scope: str | None


class ClientCredentials(OpenFgaCredential):
    """Tokens by RFC 6749 §4.4. One thread at a time requests a token, and the others wait for it."""

    def __init__(self, client: OAuthClient, connection: OpenFgaConnection) -> None:
        self._client, self._connection = client, connection
        self._lock = Lock()
        self._token = ""
        self._renew_at = -math.inf

    def headers(self) -> dict[str, str]:
        with self._lock:
            if time.monotonic() >= self._renew_at:
                self._token, lifetime = self._request_token()
                self._renew_at = time.monotonic() + USED_FRACTION_OF_LIFETIME * lifetime
            return {"Authorization": f"Bearer {self._token}"}

    def renew(self) -> bool:
        with self._lock:
            self._renew_at = -math.inf
        return True

    def _request_token(self) -> tuple[str, float]:
        client = self._client
        form = {
            "grant_type": "client_credentials",
            "client_id": client.client_id,
            "client_secret": client.secret,
            **({} if client.scope is None else {"scope": client.scope}),
        }
        reply = self._connection.request(
            "POST",
            client.endpoint,
            body=urlencode(form).encode(),
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )
        document = reply.document or {}
        token, lifetime = document.get("access_token"), document.get("expires_in", _DEFAULT_LIFETIME)
        if reply.status != 200 or not isinstance(token, str) or not token.isascii() or not token.isprintable():  # noqa: PLR2004
            raise OpenFgaUnavailable(f"its token endpoint responded {reply.status} without a token")
        is_number = isinstance(lifetime, int | float) and not isinstance(lifetime, bool)
        return token, float(lifetime) if is_number else _DEFAULT_LIFETIME
