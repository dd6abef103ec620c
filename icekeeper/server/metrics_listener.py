"""`GET /metrics` on a port of its own, from a separate process, so that scrapes do not slow the APIs.

One thread serves all clients, and none of them blocks another one: requests are small and
responses come from memory; then the connection is closed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

MAX_CLIENTS: Final = 32
"""Connections at once; one more closes the oldest, which had the most time for its request."""
CLIENT_TIMEOUT_SECONDS: Final = 5.0
"""From the connection to the end of the response."""
MAX_HEAD_BYTES: Final = 8192
MAX_DRAINED_READS: Final = 8
"""Reads of up to `MAX_HEAD_BYTES` that are discarded when a client continues to send."""
_REQUEST_LINE: Final = 3
"""Words."""


class MetricsListener:
    """Serves the text that `page` returns, on a listening socket."""

    def __init__(self, listening: socket.socket, page: Callable[[], bytes]) -> None:
        self._listening, self._page = listening, page
        self._clients: list[asyncio.WriteTransport] = []

    def run(self, parent: int) -> None:
        """Serve until SIGTERM, or until the process `parent` has ended. Only the arbiter handles SIGINT."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        asyncio.run(self._serve(parent))

    async def _serve(self, parent: int) -> None:
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        server = await asyncio.start_server(self._serve_client, sock=self._listening, limit=MAX_HEAD_BYTES)
        async with server:
            while os.getppid() == parent and not stopped.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopped.wait(), 1.0)
            for client in self._clients:
                client.abort()

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.append(writer.transport)
        if len(self._clients) > MAX_CLIENTS:
            self._clients.pop(0).abort()
        try:
            async with asyncio.timeout(CLIENT_TIMEOUT_SECONDS):
                await self._respond(reader, writer)
        except (OSError, asyncio.IncompleteReadError):  # disconnected or too slow
            pass
        finally:
            if writer.transport in self._clients:
                self._clients.remove(writer.transport)
            writer.transport.abort()

    async def _respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            writer.write(_error_response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
        else:
            writer.write(self._response_to(head))
        writer.write_eof()
        await writer.drain()
        for _ in range(MAX_DRAINED_READS):  # closing on unread bytes would destroy the response in transit
            if not await reader.read(MAX_HEAD_BYTES):
                break

    def _response_to(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != _REQUEST_LINE or not words[2].startswith(b"HTTP/1."):
            return _error_response(HTTPStatus.BAD_REQUEST)
        method, target, _ = words
        if target.split(b"?", 1)[0] != b"/metrics":
            return _error_response(HTTPStatus.NOT_FOUND)
        if method not in (b"GET", b"HEAD"):
            return _error_response(HTTPStatus.METHOD_NOT_ALLOWED, "Allow: GET, HEAD")
        body = self._page()
        head = _head(HTTPStatus.OK, len(body), f"Content-Type: {CONTENT_TYPE_PLAIN_0_0_4}")
        return head if method == b"HEAD" else head + body


def _error_response(status: HTTPStatus, *fields: str) -> bytes:
    return _head(status, 0, *fields)


def _head(status: HTTPStatus, length: int, *fields: str) -> bytes:
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        *fields,
        f"Content-Length: {length}",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()
