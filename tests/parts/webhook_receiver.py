"""A receiver of webhooks that records requests; it can respond with any status, delay, reset, or never respond."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Self


@dataclass(frozen=True)
class Received:
    """A request; the names of `headers` are in lower case, their values as they were sent."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Response:
    status: int = 204
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0.0
    """Seconds before the response."""


HANG = "hang"
"""No response until the receiver stops."""
RESET = "reset"
"""The connection is reset without a response."""

Behaviour = Callable[[Received], Response | str]


class WebhookReceiver:
    """A server on 127.0.0.1, with TLS if a context is given. A context manager; its end closes all connections.

    `respond` returns the response to a request; `received` are all requests, `concurrent` the most at one time.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, *, port: int = 0) -> None:
        self.respond: Behaviour = lambda _: Response()
        self.received: list[Received] = []
        self.concurrent = 0
        self.stopping = Event()
        self._open, self._lock = 0, Lock()
        self._connections: set[socket.socket] = set()
        self._scheme = "http" if tls is None else "https"
        self._server = _Server(("127.0.0.1", port), type("Handler", (_Handler,), {"receiver": self}))
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}/hook"

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            for each in self._connections:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def opened(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.discard(connection)

    def begin(self, request: Received) -> None:
        with self._lock:
            self.received.append(request)
            self._open += 1
            self.concurrent = max(self.concurrent, self._open)

    def end(self) -> None:
        with self._lock:
            self._open -= 1


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        """Connections that clients close or reset are a part of tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    receiver: WebhookReceiver

    def setup(self) -> None:
        super().setup()
        self.receiver.opened(self.connection)

    def finish(self) -> None:
        self.receiver.closed(self.connection)
        super().finish()

    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        request = Received(self.command, self.path, headers, body)
        self.receiver.begin(request)
        try:
            self._respond(self.receiver.respond(request))
        finally:
            self.receiver.end()

    do_GET = do_PUT = do_POST  # noqa: N815  as http.server calls them

    def _respond(self, response: Response | str) -> None:
        if isinstance(response, str):
            if response == HANG:
                self.receiver.stopping.wait()
            self.close_connection = True
            with suppress(OSError):
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            return
        self.receiver.stopping.wait(response.delay)
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        if response.status != 204:
            self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        self.wfile.write(response.body)

    def log_message(self, *_: object) -> None:
        """Log nothing to stderr."""
