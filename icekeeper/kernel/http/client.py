"""HTTP requests to other servers, limited in time and in size; redirects are not followed.

A socket timeout applies to each read: a server that sends single bytes, headers or `100 Continue` without end could
block a thread forever. Connections of this module set one deadline for the whole response.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from collections.abc import Callable
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Final

import requests
from requests.adapters import HTTPAdapter
from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPResponse, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, ReadTimeoutError

MAX_HOSTS: Final = 64
"""Hosts to which one session keeps connections open."""
MAX_CONNECTIONS: Final = 64
"""Connections that one session keeps open to each host."""

_LATE: Final = "did not send the whole response in time"
_PIECE_BYTES: Final = 65_536


class UnusableResponse(Exception):
    """A response was not read to its end; the message has the reason."""


class ResponseTooLarge(UnusableResponse):
    """A response has more bytes than the caller allows."""


class ResponseNotRead(requests.RequestException):
    """The body of a response did not arrive in time, or ended early."""


class ResponseBodyTooLarge(ResponseNotRead):
    """The body of a response is larger than the limit of the session."""


class _TimedReader(io.RawIOBase):
    """Reads from a socket; raises TimeoutError after the deadline, even if bytes keep arriving."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket, self._raw = connected, connected.makefile("rb", buffering=0)
        timeout = connected.gettimeout()
        self.deadline = None if timeout is None else time.monotonic() + timeout

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self.deadline is not None:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(_LATE)
            self._socket.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class TimedHTTPResponse(http.client.HTTPResponse):
    """A response with one deadline for status line, headers, body and trailers.

    The deadline is the socket timeout until `limit_time` replaces it.
    """

    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self.fp.close()
        self._reader = _TimedReader(sock)
        self.fp = io.BufferedReader(self._reader)

    def set_deadline(self, until: float) -> None:
        """Set the deadline, in seconds on the monotonic clock."""
        self._reader.deadline = until


class TimedConnection:
    """Mixin for urllib3's connections: each response has a deadline."""

    response_class: Any = TimedHTTPResponse


class TimedHTTPConnection(TimedConnection, HTTPConnection):
    pass


class TimedHTTPSConnection(TimedConnection, HTTPSConnection):
    pass


class TimedHTTPPool(HTTPConnectionPool):
    ConnectionCls = TimedHTTPConnection


class TimedHTTPSPool(HTTPSConnectionPool):
    ConnectionCls = TimedHTTPSConnection


TIMED_POOLS: Final = {"http": TimedHTTPPool, "https": TimedHTTPSPool}
"""For `pool_classes_by_scheme` of urllib3's pool managers."""


def limit_time(response: BaseHTTPResponse, until: float) -> None:
    """Let reads from a response of a timed connection raise `TimeoutError` at `until`, on the monotonic clock."""
    original = getattr(response, "_original_response", None)
    if isinstance(original, TimedHTTPResponse):
        original.set_deadline(until)


def read_response(response: BaseHTTPResponse, *, limit: int, until: float) -> bytes:
    """Return the body of a streamed response, as it was sent.

    Raises `ResponseTooLarge` above `limit` bytes, `TimeoutError` or `UnusableResponse` at `until`, seconds on the
    monotonic clock, and what urllib3 raises when the connection fails.
    """
    limit_time(response, until)
    try:
        return read_bounded(
            lambda size: response.read1(size, decode_content=False),
            limit=limit,
            until=until,
        )
    except ReadTimeoutError:
        raise TimeoutError(_LATE) from None


def read_bounded(read: Callable[[int], bytes], *, limit: int, until: float) -> bytes:
    """Return everything that `read(size)` returns until it returns no bytes. Raises what `read_response` raises."""
    body = bytearray()
    while piece := read(_PIECE_BYTES):
        body += piece
        if len(body) > limit:
            raise ResponseTooLarge(f"sent more than {limit} bytes")
        if time.monotonic() > until:
            raise UnusableResponse(_LATE)
    return bytes(body)


class NoRedirectSession(requests.Session):
    """Follows no redirect.

    With `allow_redirects=False` requests would read and decompress the whole body of a redirect.
    """

    def get_redirect_target(self, _response: requests.Response) -> None:
        return None


class BoundedSession(NoRedirectSession):
    """Keeps connections, but no cookies, and does not read ~/.netrc. Thread-safe.

    Each body is read completely and not decompressed: at most `max_bytes`, within the read timeout (the second part of
    `timeout`) after the request was sent. Redirects are returned, not followed.
    """

    def __init__(self, *, timeout: tuple[float, float], max_bytes: int) -> None:
        super().__init__()
        self._timeout, self._max_bytes = timeout, max_bytes
        self.auth = keep_headers
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self.headers["Accept-Encoding"] = "identity"
        adapter = _TimedAdapter(pool_connections=MAX_HOSTS, pool_maxsize=MAX_CONNECTIONS)
        self.mount("https://", adapter)
        self.mount("http://", adapter)

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Raises `requests.RequestException`; the message of a `ResponseNotRead` begins with a verb."""
        timeout = options.get("timeout") or self._timeout
        until = time.monotonic() + timeout[1]
        options |= {"timeout": timeout, "stream": True, "allow_redirects": False}
        response = super().send(request, **options)
        try:
            body = read_response(response.raw, limit=self._max_bytes, until=until)
        except UnusableResponse as error:
            response.close()
            kind = ResponseBodyTooLarge if isinstance(error, ResponseTooLarge) else ResponseNotRead
            raise kind(str(error), request=request) from None
        except TimeoutError as error:
            response.close()
            raise ResponseNotRead(str(error), request=request) from None
        except (HTTPError, OSError) as error:
            response.close()
            message = f"did not send the whole response: {type(error).__name__}"
            raise ResponseNotRead(message, request=request) from None
        response.raw.release_conn()  # an empty body does not release it
        response.raw = HTTPResponse(io.BytesIO(body), preload_content=False)
        return response


def keep_headers(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Return the request unchanged: as its `auth`, it keeps requests from reading ~/.netrc."""
    return request


class _TimedAdapter(HTTPAdapter):
    """Uses timed connections, also to a proxy."""

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = TIMED_POOLS

    def proxy_manager_for(self, *arguments: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(*arguments, **options)
        manager.pool_classes_by_scheme = TIMED_POOLS
        return manager
