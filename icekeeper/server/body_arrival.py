"""Detection of the end of a request body, for the event loop.

It only decides when a request is passed to a thread. The parser decides whether the request is well-formed: a body with
malformed framing is not awaited.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from gunicorn.http.unreader import Unreader

from icekeeper.http.request_body import body_too_large
from icekeeper.kernel.errors.types import BadRequest, CatalogError
from icekeeper.server.sockets import ClientSocket

MAX_CHUNK_LINE: Final = 32_768
MAX_TRAILERS: Final = 131_072
"""Bytes; the parser rejects longer ones."""

MAX_FRAMING: Final = 65_536
"""Bytes of chunk sizes and their line ends, beyond an eighth of the payload: each chunk takes time."""

_MAX_READ_BYTES: Final = 1_048_576
_FRAMING_READ: Final = 8192
"""Bytes of one read where chunks may begin, each of which takes time of the event loop."""

_FRAMING = re.compile(rb"\n(content-length|transfer-encoding)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]+)(?:[ \t]*;.*)?", re.DOTALL)
_EXPECTS_CONTINUE = re.compile(rb"\nexpect[ \t]*:[ \t]*100-continue[ \t]*\r\n", re.IGNORECASE)
_MAX_DIGITS: Final = 18


class ExpectedBody(Protocol):
    """`is_awaited` is false for a body that is not received before the request runs: it is too large or malformed.

    `error` is set when the rest of the body need not be received.
    """

    is_awaited: bool
    error: CatalogError | None

    def has_arrived(self, received: bytearray) -> bool: ...

    def read_size(self, received: bytearray) -> int:
        """Return the size of the next read while the body has not arrived."""


class SizedBody:
    """A body that ends at the index `end` of the received bytes; an empty one for a request without a body."""

    is_awaited = True
    error: CatalogError | None = None

    def __init__(self, end: int) -> None:
        self._end = end

    def has_arrived(self, received: bytearray) -> bool:
        return len(received) >= self._end

    def read_size(self, received: bytearray) -> int:
        return min(self._end - len(received), _MAX_READ_BYTES)


class UnreadBody:
    """A body that is not read: the request is rejected because of its head."""

    is_awaited = False
    error: CatalogError | None = None

    def has_arrived(self, received: bytearray) -> bool:
        return True

    def read_size(self, received: bytearray) -> int:
        return _FRAMING_READ


class ChunkedBody:
    """A chunked body of at most `limit` bytes, whose first chunk begins at `start`.

    Its framing is limited as well, so that bodies of tiny chunks do not take all time of the event loop.
    """

    def __init__(self, start: int, limit: int) -> None:
        self._start = self._position = start
        self._limit, self._size = limit, 0
        self.is_awaited = True
        self.error: CatalogError | None = None

    def has_arrived(self, received: bytearray) -> bool:
        while self.error is None and self.is_awaited:
            line_end = received.find(b"\r\n", self._position)
            if line_end < 0:
                self.is_awaited = len(received) - self._position <= MAX_CHUNK_LINE
                return not self.is_awaited
            line = _CHUNK_SIZE.fullmatch(received, self._position, line_end)
            if line is None:
                self.is_awaited = False
                return True
            size = int(line[1], 16)
            if size == 0:
                return self._has_trailers(received, line_end)
            if line_end - self._start - self._size > MAX_FRAMING + self._size // 8:
                self.error = BadRequest("Malformed request: the chunks of the body are too small")
            self._size += size
            self._position = line_end + 2 + size + 2
            if self._size > self._limit:
                self.error = body_too_large(self._limit)
        return not self.is_awaited

    def read_size(self, received: bytearray) -> int:
        return min(max(self._position - len(received), _FRAMING_READ), _MAX_READ_BYTES)

    def _has_trailers(self, received: bytearray, line_end: int) -> bool:
        """Return whether the empty line after the trailers has arrived; the last chunk's line ends at `line_end`."""
        if received.find(b"\r\n\r\n", line_end) >= 0:
            return True
        self.is_awaited = len(received) - line_end <= MAX_TRAILERS
        return not self.is_awaited


def expected_body(received: bytearray, head_size: int, limit: int) -> ExpectedBody:
    """Return the body that the head, the first bytes of `received`, announces; `limit` is the maximum body size."""
    fields = _FRAMING.findall(received, 0, head_size)
    if not fields:
        return SizedBody(head_size)
    if len(fields) > 1:
        return UnreadBody()
    [(name, value)] = fields
    text = value.strip(b" \t").lower()
    if name.lower() == b"transfer-encoding":
        return ChunkedBody(head_size, limit) if text == b"chunked" else UnreadBody()
    is_number = text.isdigit() and len(text) <= _MAX_DIGITS
    return SizedBody(head_size + int(text)) if is_number and int(text) <= limit else UnreadBody()


def expects_continue(received: bytearray, head_size: int) -> bool:
    """Return whether the client waits for `100 Continue` before it sends the body."""
    return _EXPECTS_CONTINUE.search(received, 0, head_size) is not None


class ReceivedBytes(Unreader):  # type: ignore[misc]  # gunicorn has no types
    """A source for gunicorn's parser: the received bytes, then the socket."""

    def __init__(self, received: bytearray, socket: ClientSocket) -> None:
        super().__init__()
        self._received, self._position, self._socket = memoryview(received), 0, socket

    def chunk(self, size_hint: int | None = None) -> bytes:
        end = self._position + max(8192, min(size_hint or 0, 1_048_576))
        piece = bytes(self._received[self._position : end])
        self._position += len(piece)
        return piece or self._socket.recv(8192)

    def take_rest(self) -> bytes:
        """Return the bytes that the parser has not read: the beginning of the next request."""
        rest: bytes = self.take_buffered()
        rest += self._received[self._position :]
        self._position = len(self._received)
        return rest
