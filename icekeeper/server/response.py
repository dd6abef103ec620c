"""Writes responses: gunicorn's rules for status, headers and framing, in as few packets as possible."""

from __future__ import annotations

from time import time
from typing import Any

from gunicorn.http.wsgi import Response
from gunicorn.util import http_date

from icekeeper.server.client_socket import ClientSocket

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
