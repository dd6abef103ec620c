"""One client's connection and whose turn it is to touch it."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from gunicorn.http.unreader import SocketUnreader

from icekeeper.kernel.errors import BadRequest, CatalogError, HeadersTooLarge, UriTooLong
from icekeeper.server.client_socket import ClientSocket

_FIRST_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ\r")

LARGEST_LINE = 32_768
"""Bytes of a request line: five namespace levels and a table of 255 characters each, percent-encoded, fit."""

LARGEST_HEAD = 131_072
"""Bytes of request line and header fields together."""


class Turn(Enum):
    """Who owns a connection. Only the owner reads, writes, closes it or gives it away."""

    LOOP = auto()
    """The event loop waits for (the rest of) a request's head; idle connections are here."""
    QUEUE = auto()
    """Its request waits for a thread; whoever takes its ticket owns it."""
    THREAD = auto()
    LINGER = auto()
    """The event loop waits for the client to take the last answer and close."""
    CLOSED = auto()


class Connection:
    """`expires` (monotonic seconds) is when the event loop gives up waiting, `arrived` when the head was complete."""

    __slots__ = ("address", "arrived", "descriptor", "expires", "head", "linger_left", "server", "socket", "turn")

    def __init__(self, socket: ClientSocket, address: Any, server: Any, expires: float) -> None:
        self.socket, self.address, self.server = socket, address, server
        self.descriptor = socket.fileno()
        self.expires = expires
        self.arrived = 0.0
        self.head = bytearray()
        self.turn = Turn.LOOP
        self.linger_left = 0

    @property
    def is_idle(self) -> bool:
        """Whether closing it loses nothing."""
        return self.turn is Turn.LOOP and not self.head

    def add(self, data: bytes) -> None:
        self.head += data
        # RFC 9112 §2.2: an empty line before a request is to be ignored. One, as gunicorn does.
        if self.head.startswith(b"\r\n") and not self.head.startswith(b"\r\n\r\n"):
            del self.head[:2]

    def has_head(self) -> bool:
        """Whether the head is complete, or so wrong that the parser can say so at once."""
        return b"\r\n\r\n" in self.head or b"\n\n" in self.head

    def refusal(self) -> CatalogError | None:
        """Why an incomplete head need not be waited for: it is no HTTP, or too long already."""
        if self.head[0] not in _FIRST_BYTES:
            return BadRequest("Malformed request: not HTTP/1.1 (TLS must end in front of this port)")
        if len(self.head) > LARGEST_LINE and b"\r\n" not in self.head:
            return UriTooLong("The request line is too long")
        if len(self.head) > LARGEST_HEAD:
            return HeadersTooLarge("The request's header fields are too large or too many")
        return None

    def take_head(self) -> SocketUnreader:
        """A source for gunicorn's parser: what has arrived, then the socket."""
        unreader = SocketUnreader(self.socket)
        unreader.unread(bytes(self.head))
        self.head.clear()
        return unreader
