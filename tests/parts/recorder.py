"""A proxy in front of a part that records requests and can replace its responses."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Self

OF_ONE_CONNECTION = {"connection", "keep-alive", "transfer-encoding"}
SECONDS_TO_RESPONSE = 60


@dataclass(frozen=True)
class Recorded:
    """A request; the names of `headers` are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """A response; `pause` is the delay before each byte of the body (seconds), None for a body that is sent at once."""

    status: int
    headers: dict[str, str]
    body: bytes
    pause: float | None = None


Answerer = Callable[[Recorded, Callable[[], Reply]], Reply | None]
"""Called with a request and a function that forwards it to the part; None closes the connection without a reply."""


class Recorder:
    """A proxy for the server at `target` on 127.0.0.1, with TLS if a context is given. A context manager.

    `host` is the host name that the part expects, where it is not signed. `requests` are those since the start or since
    a test cleared them. `answerer` may replace the responses of the part.
    """

    def __init__(self, target: int, tls: ssl.SSLContext | None = None, *, host: str | None = None) -> None:
        self.requests: list[Recorded] = []
        self.open: set[socket.socket] = set()
        self.answerer: Answerer = lambda _, ask: ask()
        self._target, self._host = target, host
        self._scheme = "http" if tls is None else "https"
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"recorder": self}))
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    @property
    def endpoint(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}/"

    @property
    def asked(self) -> list[str]:
        """Return the methods of the requests, in order."""
        return [request.method for request in self.requests]

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the open connections of clients and their threads, too."""
        self._server.shutdown()
        self._server.server_close()
        for connection in list(self.open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def ask(self, request: Recorded) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self._target, timeout=SECONDS_TO_RESPONSE)
        try:
            connection.putrequest(request.method, request.target, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                if name not in OF_ONE_CONNECTION:
                    connection.putheader(name, self._host if name == "host" and self._host else value)
            connection.endheaders(request.body)
            response = connection.getresponse()
            headers = {name: value for name, value in response.getheaders() if name.lower() not in OF_ONE_CONNECTION}
            return Reply(response.status, headers, response.read())
        finally:
            connection.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    recorder: Recorder

    def setup(self) -> None:
        super().setup()
        self.recorder.open.add(self.connection)

    def finish(self) -> None:
        self.recorder.open.discard(self.connection)
        super().finish()

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        request = Recorded(self.command, self.path, headers, body)
        self.recorder.requests.append(request)
        reply = self.recorder.answerer(request, lambda: self.recorder.ask(request))
        if reply is None:
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            if name.lower() not in {"content-length", "date", "server"}:
                self.send_header(name, value)
        self.send_header("Content-Length", reply.headers.get("Content-Length", str(len(reply.body))))
        self.end_headers()
        if self.command != "HEAD":
            self._send_body(reply)

    def _send_body(self, reply: Reply) -> None:
        if reply.pause is None:
            self.wfile.write(reply.body)
            return
        with suppress(OSError):  # the client may have closed the connection
            for byte in reply.body:
                time.sleep(reply.pause)
                self.wfile.write(bytes([byte]))

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815  as http.server calls them

    def log_message(self, *_: object) -> None:
        """Log nothing to stderr."""
