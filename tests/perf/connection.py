"""A keep-alive connection with low CPU cost for the load generator: bytes out, status and body in."""

from __future__ import annotations

import json
import re
import socket
from typing import Any

CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
BODYLESS = (204, 304)


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """Return a whole HTTP/1.1 request, without `Accept-Encoding`, so that the response is not compressed."""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n"
    for name, value in headers.items():
        head += f"{name.replace('_', '-')}: {value}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Connection:
    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def send(self, message: bytes) -> tuple[int, bytes]:
        """Return status and body of the response; reopen a connection that the server closed between two requests."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=60)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(message)
        received = self._socket.recv(65_536)
        if not received:
            self.close()
            return self.send(message)
        while (head_end := received.find(b"\r\n\r\n")) < 0:
            received += self._more()
        head = received[:head_end]
        status = int(head[9:12])
        has_body = status not in BODYLESS and not message.startswith(b"HEAD")
        length = CONTENT_LENGTH.search(head)
        if has_body and length is None:
            raise ConnectionError(f"a response without Content-Length: {head!r}")
        end = head_end + 4 + (int(length[1]) if has_body and length else 0)
        while len(received) < end:
            received += self._more()
        if b"\r\nconnection: close" in head.lower():
            self.close()
        return status, received[head_end + 4 : end]

    def call(self, method: str, path: str, content: Any = None) -> Any:
        """Send and receive JSON for preparations; raise an error for any status but 2xx."""
        status, body = self.send(request(method, path, b"" if content is None else json.dumps(content).encode()))
        if status // 100 != 2:
            raise ConnectionError(f"{method} {path} returned {status}: {body[:1000]!r}")
        return json.loads(body) if body else None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _more(self) -> bytes:
        more = self._socket.recv(65_536) if self._socket else b""
        if not more:
            raise ConnectionError("the server closed the connection within a response")
        return more
