"""One client's connection, and who may touch it."""

from __future__ import annotations

import socket
from enum import Enum, auto
from time import monotonic
from typing import Any

from icekeeper.kernel.errors.types import BadRequest, CatalogError, HeadersTooLarge, UriTooLong
from icekeeper.server.body_arrival import ExpectedBody, ReceivedBytes, expected_body, expects_continue
from icekeeper.server.client_socket import ClientSocket

_FIRST_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ\r")

MAX_REQUEST_LINE_BYTES = 32_768
"""Bytes of a request line: five namespace levels and a table of 255 characters each, percent-encoded, fit."""

MAX_HEAD_BYTES = 131_072
"""Bytes of request line and header fields together."""

MAX_LOGGED_HEAD_BYTES = 8192
"""Bytes of a head that are kept for the log line of a request that cannot be parsed."""

_HEAD_READ = 16_384
_DISCARD_READ = 65_536
"""Bytes read at once before the head is complete, and of what is thrown away."""

_IPV4_MAPPED = bytes(10) + b"\xff\xff"

_LIVENESS = (b"GET /health/live HTTP/1.", b"HEAD /health/live HTTP/1.")


class Phase(Enum):
    """Who owns a connection. Only the owner reads, writes, closes it or gives it away."""

    RECEIVE = auto()
    """The event loop waits for (the rest of) a request; idle connections are here."""
    QUEUE = auto()
    """Its request waits for a thread; whoever takes its ticket owns it."""
    RUN = auto()
    """A thread parses, runs and answers its request."""
    SEND = auto()
    """The event loop sends what the client did not take at once."""
    LINGER = auto()
    """The event loop waits for the client to take the last response and close."""
    CLOSED = auto()


class Connection:
    """`expires` (monotonic seconds) is when the event loop looks at it again, or gives up waiting.

    `arrived` is when the head was complete, `began` when the transfer of the request or the response began. `has_all`:
    the whole request has been received; where the next one begins is certain only then. `network` is the client's
    address; of an IPv6 address its /64, which is what one client has.
    """

    __slots__ = (
        "_continued",
        "_has_skipped_line",
        "_window_began",
        "_window_bytes",
        "_window_undelivered",
        "address",
        "arrived",
        "began",
        "body",
        "descriptor",
        "expires",
        "has_all",
        "head_size",
        "is_reusable",
        "linger_left",
        "network",
        "phase",
        "received",
        "server",
        "socket",
    )

    def __init__(self, client: ClientSocket, address: Any, server: Any, expires: float) -> None:
        self.socket, self.address, self.server = client, address, server
        self.network = client_network(address[0])
        self.descriptor = client.fileno()
        self.expires = expires
        self.phase = Phase.RECEIVE
        self.linger_left = 0
        self.is_reusable = False
        self.began = self._window_began = 0.0
        self._window_bytes = self._window_undelivered = 0
        self.expect_request(bytearray())

    def expect_request(self, received: bytearray) -> None:
        """Wait for the next request, of which `received` has come already."""
        self.received = received
        self.arrived = 0.0
        self.head_size = 0
        self.has_all = False
        self.body: ExpectedBody | None = None
        self._continued = self._has_skipped_line = False

    @property
    def is_idle(self) -> bool:
        """Whether closing it loses nothing."""
        return self.phase is Phase.RECEIVE and not self.received

    @property
    def is_in_transfer(self) -> bool:
        """Whether the event loop waits for a client in the middle of a request or a response."""
        return self.phase is Phase.SEND or (self.phase is Phase.RECEIVE and bool(self.received))

    @property
    def held_bytes(self) -> int:
        """Memory that is held for a client that sends or reads slowly, and for a request in the queue."""
        return len(self.received) + self.socket.unsent_bytes

    # --- receiving -----------------------------------------------------------------------------------------------

    @property
    def read_size(self) -> int:
        """How many bytes to read at once."""
        if self.phase is Phase.LINGER:
            return _DISCARD_READ
        return _HEAD_READ if self.body is None else self.body.read_size(self.received)

    def add(self, data: bytes) -> None:
        """`received` is empty after this when only an empty line has come."""
        self.received += data
        self._window_bytes += len(data)
        # RFC 9112 §2.2: an empty line before a request is to be ignored. One, as gunicorn does.
        if not self._has_skipped_line and self.received.startswith(b"\r\n") and self.received[2:4] != b"\r\n":
            del self.received[:2]
            self._has_skipped_line = True

    def has_request(self, body_limit: int) -> bool:
        """Whether there is nothing more to wait for: all has arrived, or the parser can refuse it as it is."""
        if self.body is None:
            head_end = self.received.find(b"\r\n\r\n")
            if head_end < 0:
                return b"\n\n" in self.received
            self.arrived = monotonic()
            self.head_size = head_end + 4
            self.body = expected_body(self.received, self.head_size, body_limit)
        has_arrived = self.body.has_arrived(self.received)
        self.has_all = has_arrived and self.body.is_awaited
        return has_arrived

    def wants_continue(self) -> bool:
        """Whether the client has to be sent `100 Continue`; true once a request."""
        if self.body is None or self._continued:
            return False
        self._continued = True
        return expects_continue(self.received, self.head_size)

    def is_liveness_probe(self) -> bool:
        """Whether `GET /health/live` without a body is all that has arrived."""
        return len(self.received) == self.head_size and self.received.startswith(_LIVENESS)

    def body_error(self) -> CatalogError | None:
        """Why the rest of an incomplete request need not be waited for: it is no HTTP, or too long already."""
        if self.body is not None:
            return self.body.error
        if self.received[0] not in _FIRST_BYTES:
            return BadRequest("Malformed request: not HTTP/1.1 (TLS must end in front of this port)")
        if len(self.received) > MAX_REQUEST_LINE_BYTES and b"\r\n" not in self.received:
            return UriTooLong("The request line is too long")
        if len(self.received) > MAX_HEAD_BYTES:
            return HeadersTooLarge("The request's header fields are too large or too many")
        return None

    def logged_head(self) -> bytes:
        return bytes(self.received[:MAX_LOGGED_HEAD_BYTES])

    def take_request(self) -> ReceivedBytes:
        """A source for gunicorn's parser: what has arrived, then the socket."""
        received, self.received = self.received, bytearray()
        return ReceivedBytes(received, self.socket)

    # --- the rate of a transfer ----------------------------------------------------------------------------------

    def begin_transfer(self, now: float) -> None:
        self.began = now
        self.begin_window(now)

    def begin_window(self, now: float) -> None:
        """Measure the rate from now on."""
        self._window_began, self._window_bytes = now, 0
        self._window_undelivered = self._undelivered()

    def send_unsent(self) -> None:
        self._window_bytes += self.socket.send_unsent()

    def is_slower_than(self, min_rate: int, now: float) -> bool:
        """Whether the client transferred fewer than `min_rate` bytes a second in this window, or none at all."""
        return self._transferred() < max(1.0, min_rate * (now - self._window_began))

    def rate(self, now: float) -> float:
        """Bytes a second in this window; a transfer that has just begun does not count as slow."""
        return self._transferred() / (now - self._window_began + 1.0)

    def _transferred(self) -> int:
        """Bytes that the client has sent or taken in this window."""
        return self._window_bytes + self._window_undelivered - self._undelivered()

    def _undelivered(self) -> int:
        return self.socket.undelivered_bytes() if self.socket.unsent_bytes else 0


def client_network(address: str) -> str:
    if ":" not in address:
        return address
    packed = socket.inet_pton(socket.AF_INET6, address.split("%", 1)[0])
    if packed.startswith(_IPV4_MAPPED):
        return socket.inet_ntop(socket.AF_INET, packed[len(_IPV4_MAPPED) :])
    return socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8)) + "/64"
