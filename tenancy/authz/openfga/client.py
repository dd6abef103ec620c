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
from icekeeper.kernel.request import deadline
from icekeeper.kernel.request.thread_slots import release_thread_slot
from icekeeper.version import VERSION
from tenancy.authz.errors import AuthorizationBackendError

_MESSAGE: Final = "Nobody can tell at the moment who may do what: nothing was changed, try again"


class OpenFgaUnavailable(AuthorizationBackendError):
    """OpenFGA cannot be asked, or does not answer as it should.

    Callers are told no more than that; `reason` is for the log. `is_in_doubt` is whether what was sent may still come
    about.
    """

    is_on_purpose = True

    def __init__(self, reason: str, *, is_in_doubt: bool = False) -> None:
        super().__init__(_MESSAGE)
        self.reason, self.is_in_doubt = reason, is_in_doubt


class NoHttpAnswer(OpenFgaUnavailable):
    """The other side took the connection, and ended it without an answer in HTTP/1.1."""


class OpenFgaEndpointIsGrpc(OpenFgaUnavailable):
    """The address is that of a gRPC interface. The reason names the cure."""


class OpenFgaRefused(OpenFgaUnavailable):
    """OpenFGA understood, and does not do it: `answered` (its status) and `code` are its own.

    In doubt is a copy that was sent before this one.
    """

    def __init__(self, status: int, code: str, text: str, *, is_in_doubt: bool = False) -> None:
        super().__init__(f"OpenFGA answered {status} {code}: {text}", is_in_doubt=is_in_doubt)
        self.answered, self.code = status, code


FAILURES: Final = 3
"""In a row, after which nobody else is let through."""


PAUSE: Final = 1.0
"""Seconds until the next one is let through."""


logger = logging.getLogger("icekeeper.authz")


class Breaker:
    """Of one process: after some failures in a row one request at a time tries, a pause after the last one began."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._failures = 0
        self._next_at = 0.0
        self._reason = ""

    def enter(self) -> None:
        """Raises `OpenFgaUnavailable` for who is not to try."""
        with self._lock:
            if self._failures < FAILURES:
                return
            at = time.monotonic()
            if at < self._next_at:
                raise OpenFgaUnavailable(f"it was asked a moment ago: {self._reason}")
            self._next_at = at + PAUSE

    def succeeded(self) -> None:
        with self._lock:
            was_open, self._failures = self._failures >= FAILURES, 0
        if was_open:
            logger.warning("OpenFGA answers again")

    def failed(self, reason: str) -> None:
        with self._lock:
            self._failures += 1
            self._next_at = time.monotonic() + PAUSE
            self._reason = reason
        logger.warning("OpenFGA cannot be asked: %s", reason)


LARGEST_ANSWER: Final = 8 * 1024 * 1024


_BOUND: Final = JsonBound(containers=200_000, values=1_000_000)


CONNECTIONS: Final = 64
"""Kept open to each of the two servers."""


LONGEST_UNSENT: Final = 5
"""Seconds after which the machine gives up what the other side has not taken: nothing of ours comes much later."""


_NOT_SENT: Final = (NewConnectionError, ConnectTimeoutError, LocationParseError)


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds; `ca_file` replaces the usual certificates."""

    connect: float
    whole: float
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """Of any status; `document` is None where the body is no JSON object.

    `was_resent` is whether it answers the second copy of the request: the other side may have taken the first one, too,
    and may do what it says later.
    """

    status: int
    document: dict[str, Any] | None
    was_resent: bool = False


class Connection:
    """Keeps connections, and nothing else. For the threads of one process. Redirects are answers.

    No request takes longer than `limits.whole`, however the answer comes, nor than the request at hand may take.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pools = PoolManager(
            num_pools=4,
            maxsize=CONNECTIONS,
            retries=False,
            socket_options=_socket_options(),
            cert_reqs="CERT_REQUIRED",
            ca_certs=None if limits.ca_file is None else str(limits.ca_file),
        )
        self._pools.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}

    def request(self, method: str, url: str, *, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        """Sent a second time when a kept connection turns out to be closed; the answer says so.

        Raises `OpenFgaUnavailable`, `RequestTimeout` (408); `NoHttpAnswer` where a new connection brought none.
        """
        left = deadline.remaining()
        until = time.monotonic() + (self._limits.whole if left is None else min(left, self._limits.whole))
        sent = {"Accept": "application/json", "User-Agent": f"Icekeeper/{VERSION}", **headers}
        with release_thread_slot():
            try:
                return self._send(method, url, body, sent, until)
            except ProtocolError as error:
                failure = error
            if not _was_kept(failure):
                raise NoHttpAnswer(_reason(failure), is_in_doubt=True) from None
            try:
                return replace(self._send(method, url, body, sent, until), was_resent=True)
            except ProtocolError as error:
                raise OpenFgaUnavailable(_reason(error), is_in_doubt=True) from None
            except OpenFgaUnavailable as unsent:  # that is so of the second copy alone
                raise OpenFgaUnavailable(unsent.reason, is_in_doubt=True) from None

    def _send(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], until: float) -> Reply:
        """Raises `ProtocolError` when the connection ended before an answer."""
        left = until - time.monotonic()
        if left <= 0:
            raise OpenFgaUnavailable("no time was left", is_in_doubt=True)
        limit = Timeout(connect=min(left, self._limits.connect), read=left)
        try:
            answer = self._pools.urlopen(
                method, url, body=body, headers=dict(headers), timeout=limit, preload_content=False, redirect=False
            )
        except SSLError as error:
            raise NoHttpAnswer(_reason(error)) from None
        except _NOT_SENT as error:
            raise OpenFgaUnavailable(_reason(error)) from None
        except ProtocolError:
            raise
        except (HTTPError, OSError, ValueError) as error:
            raise OpenFgaUnavailable(_reason(error), is_in_doubt=True) from None
        return Reply(answer.status, _document(_body(answer, until)))


def _body(answer: BaseHTTPResponse, until: float) -> bytes:
    is_whole = False
    try:
        body = read_response(answer, limit=LARGEST_ANSWER, until=until)
        is_whole = True
    except (UnusableResponse, HTTPError, OSError) as error:
        raise OpenFgaUnavailable(_reason(error), is_in_doubt=True) from None
    finally:
        if is_whole:
            answer.release_conn()
        else:
            answer.close()
    return body


def _document(body: bytes) -> dict[str, Any] | None:
    try:
        document = read_json(body, bound=_BOUND)
    except BadRequest:
        return None
    return document if isinstance(document, dict) else None


class _KeptConnectionClosed(ConnectionError):
    """The other side closed a connection, as it does with those that were idle for long, and answered nothing."""


class _Kept:
    """Of a connection: tells closed ones that had served before from new ones. Sending to them is no error by itself:
    urllib3 reads the answer nevertheless."""

    _has_answered = False

    def connect(self) -> None:
        self._has_answered = False
        super().connect()  # type: ignore[misc]  # of the connection that this is mixed into

    def getresponse(self) -> Any:
        try:
            response = super().getresponse()  # type: ignore[misc]
        except ConnectionError as error:
            if self._has_answered:
                raise _KeptConnectionClosed(*error.args) from error
            raise
        self._has_answered = True
        return response


class _HTTPConnection(_Kept, TimedHTTPConnection):
    pass


class _HTTPSConnection(_Kept, TimedHTTPSConnection):
    pass


class _HTTPPool(TimedHTTPPool):
    ConnectionCls = _HTTPConnection


class _HTTPSPool(TimedHTTPSPool):
    ConnectionCls = _HTTPSConnection


def _was_kept(error: ProtocolError) -> bool:
    cause = error.args[-1] if error.args else None
    return isinstance(cause, _KeptConnectionClosed)


def _reason(error: Exception) -> str:
    """The kind of failure and its innermost text, cut. Neither holds a key.

    Of an answer that did not come in time the innermost text is about the connection, which this server closed itself.
    """
    if isinstance(error, ReadTimeoutError | TimeoutError):
        return f"{type(error).__name__}: no answer in time"
    inner: BaseException = error
    while (deeper := inner.__cause__ or inner.__context__) is not None:
        inner = deeper
    return f"{type(error).__name__}: {inner}"[:300]


def _socket_options() -> list[tuple[int, int, int]]:
    options = list(HTTPConnection.default_socket_options)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        options.append((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LONGEST_UNSENT * 1000))
    return options


USED_FOR: Final = 0.8
"""The part of its life for which a token is used."""


_DEFAULT_LIFETIME: Final = 300.0
"""Seconds, of a token that does not say: RFC 6749 §5.1 leaves it out where something else is agreed."""


class Credential(ABC):
    @abstractmethod
    def headers(self) -> dict[str, str]:
        """Raises `OpenFgaUnavailable`."""

    def forget(self) -> bool:
        """OpenFGA does not take it any more; whether another one can be had."""
        return False


class PresharedKey(Credential):
    """None: OpenFGA asks for nothing."""

    def __init__(self, key: str | None) -> None:
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    def headers(self) -> dict[str, str]:
        return self._headers


@dataclass(frozen=True, slots=True)
class Client:
    """What this server is to the token endpoint."""

    endpoint: str
    client_id: str
    secret: str = field(repr=False)
    scope: str | None


class ClientCredentials(Credential):
    """RFC 6749 §4.4. One thread at a time asks for a token, and the others wait for it."""

    def __init__(self, client: Client, connection: Connection) -> None:
        self._client, self._connection = client, connection
        self._lock = Lock()
        self._token = ""
        self._renew_at = -math.inf

    def headers(self) -> dict[str, str]:
        with self._lock:
            if time.monotonic() >= self._renew_at:
                self._token, lifetime = self._ask()
                self._renew_at = time.monotonic() + USED_FOR * lifetime
            return {"Authorization": f"Bearer {self._token}"}

    def forget(self) -> bool:
        with self._lock:
            self._renew_at = -math.inf
        return True

    def _ask(self) -> tuple[str, float]:
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
            raise OpenFgaUnavailable(f"its token endpoint answered {reply.status} without a token")
        is_number = isinstance(lifetime, int | float) and not isinstance(lifetime, bool)
        return token, float(lifetime) if is_number else _DEFAULT_LIFETIME
