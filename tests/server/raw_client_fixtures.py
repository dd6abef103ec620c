"""HTTP client that sends raw bytes as a faulty or hostile client does, and parses the responses."""

from __future__ import annotations

import select
import socket
import time
from dataclasses import dataclass
from typing import Any, Self

import orjson


@dataclass(frozen=True)
class RawResponse:
    """A response; `headers` keeps the spelling on the wire, `closes` is whether the server announced the end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def error_type(self) -> str:
        kind: str = self.json["error"]["type"]
        return kind

    @property
    def closes(self) -> bool:
        return self.headers.get("Connection") == "close"


class RawClient:
    """One connection, from the address `source`; a small `receive_buffer` keeps the system from reading ahead."""

    def __init__(
        self, port: int, *, timeout: float = 60.0, source: str | None = None, receive_buffer: int | None = None
    ) -> None:
        self._socket = socket.socket()
        self._socket.settimeout(timeout)
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source is not None:
            self._socket.bind((source, 0))
        try:
            self._socket.connect(("127.0.0.1", port))
        except OSError:
            self._socket.close()
            raise
        self._received = bytearray()

    def send(self, data: bytes) -> Self:
        self._socket.sendall(data)
        return self

    def trickle(self, data: bytes, *, pause: float) -> None:
        """Send one byte at a time, until the server closes the connection."""
        try:
            for byte in data:
                self._socket.sendall(bytes([byte]))
                time.sleep(pause)
        except OSError:
            return

    def get(self, target: str, *headers: str, method: str = "GET") -> RawResponse:
        lines = [f"{method} {target} HTTP/1.1", "Host: test", *headers, "", ""]
        self.send("\r\n".join(lines).encode("latin-1"))
        return self.response(has_body=method != "HEAD")

    def response(self, *, has_body: bool = True) -> RawResponse:
        """Return the next response; raise EOFError when the server has closed the connection instead."""
        while b"\r\n\r\n" not in self._received:
            self._more()
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        status = int(first.split(" ")[1])
        if "Transfer-Encoding" in headers:
            raise AssertionError("responses have a length")
        length = int(headers.get("Content-Length", "0")) if has_body and status not in {100, 204, 304} else 0
        while len(self._received) < length:
            self._more()
        body, self._received = bytes(self._received[:length]), self._received[length:]
        return RawResponse(status, headers, body)

    def _more(self) -> None:
        data = self._socket.recv(65_536)
        if not data:
            raise EOFError(f"the server closed; received {self._received!r}")
        self._received += data

    def receive(self, size: int) -> None:
        """Read until at least `size` bytes of the next response have arrived."""
        while len(self._received) < size:
            self._more()

    def is_silent(self) -> bool:
        """Return whether the server has neither sent anything nor closed the connection so far."""
        return self._received == b"" and not select.select([self._socket], [], [], 0)[0]

    def is_closed(self) -> bool:
        """Return whether the server closes the connection without sending anything more."""
        try:
            return self._received == b"" and self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def end_sending(self) -> None:
        """Close the client's half of the connection."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
