"""Writes responses: gunicorn's rules for status, headers and framing, in as few packets as possible.

Overload, slow clients and malformed HTTP get error responses of the worker itself, in the envelope of the APIs.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from time import monotonic, time
from typing import Any, Final

from gunicorn.http import errors as http_errors
from gunicorn.http.wsgi import Response
from gunicorn.util import http_date

from icekeeper.http.access_log import MAX_PATH_LENGTH, redact_tokens, write_line
from icekeeper.kernel.errors.types import (
    BadRequest,
    CatalogError,
    ExpectationFailed,
    HeadersTooLarge,
    UnsupportedTransferCoding,
    UriTooLong,
)
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.json.strict import write_json
from icekeeper.kernel.metrics import request_ended
from icekeeper.kernel.request_context import RequestContext, choose_request_id
from icekeeper.server.sockets import ClientSocket

_ONE_PACKET = 262_144
"""Bytes up to which head and body are sent together: a copy is cheaper than a second system call and wake-up."""


class WorkerResponse(Response):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's Response, whose head is sent together with the first bytes of the body."""

    sock: ClientSocket
    headers_sent: bool

    def __init__(self, request: Any, sock: ClientSocket, cfg: Any, worker: Any, has_all: bool) -> None:  # noqa: FBT001
        """`has_all`: whether the whole request has been received."""
        super().__init__(request, sock, cfg)
        self._worker, self._has_all = worker, has_all
        self._head = b""
        self.on_wire = False

    def should_close(self) -> bool:
        """Whether the connection ends with this response: the client or a stop of the server wants it, or part of the
        request's body was not received and would be taken for the next request.
        """
        return bool(super().should_close()) or not self._worker.alive or not self._has_all or self.req.body.failed

    def send_headers(self) -> None:
        if self.headers_sent:
            return
        self.headers_sent = True
        major, minor = self.req.version
        lines = [f"HTTP/{major}.{minor} {self.status}", f"Date: {_date()}"]
        if self.should_close():
            self.must_close = True  # the header is final
            lines.append("Connection: close")
        elif self.req.version < (1, 1):
            lines.append("Connection: keep-alive")
        if self.chunked:
            lines.append("Transfer-Encoding: chunked")
        lines.extend([f"{name}: {value}" for name, value in self.headers])
        lines.append("\r\n")
        self._head = "\r\n".join(lines).encode("latin-1")

    def write(self, data: bytes) -> None:
        # API views return the same body for HEAD and GET; gunicorn would log a warning for each.
        if self._omits_body:
            self.send_headers()
        else:
            super().write(data)

    def _emit_body(self, data: bytes) -> None:
        if self.chunked:
            data = b"%X\r\n%b\r\n" % (len(data), data)
        self._send(data)

    def close(self) -> None:
        """Complete the response; raise ConnectionError when the body is shorter than its Content-Length."""
        self.send_headers()
        if self.chunked:
            self._send(b"0\r\n\r\n")
        elif self._head:
            self._send(b"")
        if self.response_length is not None and not self._omits_body and self.sent < self.response_length:
            raise ConnectionError("the response ended before its Content-Length")

    def _send(self, data: bytes) -> None:
        head, self._head = self._head, b""
        self.on_wire = True
        if head and len(data) > _ONE_PACKET:
            self.sock.sendall(head)
        elif head:
            data = head + data
        self.sock.sendall(data)


_dated: tuple[int, str] = (0, "")


def _date() -> str:
    """The Date header, formatted once a second."""
    global _dated  # noqa: PLW0603 - one tuple, replaced whole, so threads see the old or the new one
    second = int(time())
    known, text = _dated
    if known != second:
        text = http_date(second)
        _dated = (second, text)
    return text


_REASONS = {status.value: status.phrase for status in HTTPStatus}
_REQUEST_ID: Final = re.compile(rb"\r\nx-request-id:[ \t]*([^\r\n]*?)[ \t]*\r\n", re.IGNORECASE)


def catalog_error_of(error: Exception) -> CatalogError:
    """Return the error response for a request head that gunicorn could not parse."""
    match error:
        case http_errors.LimitRequestLine():
            return UriTooLong("The request line is too long")
        case http_errors.LimitRequestHeaders():
            return HeadersTooLarge("The request's header fields are too large or too many")
        case http_errors.ExpectationFailed():
            return ExpectationFailed("Only Expect: 100-continue is understood")
        case http_errors.UnsupportedTransferCoding():
            return UnsupportedTransferCoding("The request's transfer coding is not supported")
        case _:
            return BadRequest(f"Malformed request: {error}"[:200])


def render_error(error: CatalogError, head: bytes, arrived: float) -> bytes:
    """Render the complete response, which closes the connection, and write the log line of the request.

    `head` is the received part of the request, `arrived` its time of arrival (monotonic seconds).
    """
    request_id, error_id = choose_request_id(_request_id_header(head)), str(new_id())
    body = write_json(error.envelope(error_id=error_id))
    method, path = _first_line(head)
    seconds = monotonic() - arrived
    request_ended(method, None, error.status, seconds, RequestContext())
    write_line(
        {
            **request_id.log_fields(),
            "method": method,
            "route": None,
            "path": path,
            "status": error.status,
            "duration_ms": round(seconds * 1000, 3),
            "bytes": len(body),
            "user": "anonymous",
            "user_agent": None,
            "error_type": error.wire_type,
            "error_id": error_id,
            "error": error.message[:MAX_PATH_LENGTH],
        }
    )
    lines = [
        f"HTTP/1.1 {error.status} {_REASONS[error.status]}",
        f"Date: {http_date()}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"X-Request-Id: {request_id.text}",
        "Cache-Control: no-store",
    ]
    if error.retry_after is not None:
        lines.append(f"Retry-After: {error.retry_after}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if method == "HEAD" else body)


def _first_line(head: bytes) -> tuple[str | None, str | None]:
    """Method and path for the log, None when unreadable; without the query and without secrets of tokens."""
    words = head[:8192].lstrip(b"\r\n").split(b"\r\n", 1)[0].split(b" ")
    if len(words) < 2:  # noqa: PLR2004
        return None, None
    method, target = words[0][:20].decode("latin-1"), words[1].split(b"?", 1)[0].decode("latin-1")
    return method, redact_tokens(target)[:MAX_PATH_LENGTH]


def _request_id_header(head: bytes) -> str | None:
    """The value of `X-Request-ID`, if its line is complete."""
    fields, end, _ = head.partition(b"\r\n\r\n")
    found = _REQUEST_ID.search(fields + end[:2])
    return found[1].decode("latin-1") if found else None
