"""`GET /metrics` on a port of its own, from a process of its own, so that scrapes take nothing from the APIs.

One thread serves all clients, and none of them blocks another one: a request is small, arrives soon, and is answered
from memory; then the connection is closed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from icekeeper.server.exposition import CONTENT_TYPE

MAX_CLIENTS: Final = 32
"""Connections at once; one more closes the oldest, which had the most time for its request."""
PATIENCE: Final = 5.0
"""Seconds from the connection to the end of the answer."""
LONGEST_HEAD: Final = 8192
"""Bytes."""
MOST_DRAINED: Final = 8
"""How often as much again is read and thrown away of a client that goes on sending."""
_REQUEST_LINE: Final = 3
"""Words."""


class MetricsListener:
    """Answers with what `page` gives, on a socket that listens already."""

    def __init__(self, listening: socket.socket, page: Callable[[], str]) -> None:
        self._listening, self._page = listening, page
        self._clients: list[asyncio.WriteTransport] = []

    def run(self, parent: int) -> None:
        """Until SIGTERM, or until the process `parent` is gone. Ctrl-C is the arbiter's: it ends this one."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        asyncio.run(self._serve(parent))

    async def _serve(self, parent: int) -> None:
        server = await asyncio.start_server(self._meet, sock=self._listening, limit=LONGEST_HEAD)
        async with server:
            while os.getppid() == parent:
                await asyncio.sleep(1.0)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.append(writer.transport)
        if len(self._clients) > MAX_CLIENTS:
            self._clients.pop(0).abort()
        try:
            async with asyncio.timeout(PATIENCE):
                await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):  # gone, or too slow: the page itself is made of memory alone
            pass
        finally:
            if writer.transport in self._clients:
                self._clients.remove(writer.transport)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            writer.write(_refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
        else:
            writer.write(self._answer_to(head))
        writer.write_eof()
        await writer.drain()
        for _ in range(MOST_DRAINED):  # closing on unread bytes would destroy the answer on its way
            if not await reader.read(LONGEST_HEAD):
                break

    def _answer_to(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != _REQUEST_LINE or not words[2].startswith(b"HTTP/1."):
            return _refusal(HTTPStatus.BAD_REQUEST)
        method, target, _ = words
        if target.split(b"?", 1)[0] != b"/metrics":
            return _refusal(HTTPStatus.NOT_FOUND)
        if method not in (b"GET", b"HEAD"):
            return _refusal(HTTPStatus.METHOD_NOT_ALLOWED, "Allow: GET, HEAD")
        body = self._page().encode()
        head = _head(HTTPStatus.OK, len(body), f"Content-Type: {CONTENT_TYPE}")
        return head if method == b"HEAD" else head + body


def _refusal(status: HTTPStatus, *fields: str) -> bytes:
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
