"""A client's connection: its phase, which decides who owns it, and its current request."""

from __future__ import annotations

import socket
from enum import Enum, auto
from time import monotonic
from typing import Any

from icekeeper.kernel.errors.types import BadRequest, CatalogError, HeadersTooLarge, UriTooLong
from icekeeper.server.body_arrival import ExpectedBody, ReceivedBytes, expected_body, expects_continue
from icekeeper.server.sockets import ClientSocket

_FIRST_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ\r")

MAX_REQUEST_LINE_BYTES = 32_768
"""Bytes of a request line: five namespace levels and a table of 255 characters each, percent-encoded, fit."""

MAX_HEAD_BYTES = 131_072
"""Bytes of request line and header fields together."""

MAX_LOGGED_HEAD_BYTES = 8192
"""Bytes of a head for the log line of a request that cannot be parsed."""

_HEAD_READ = 16_384
_DISCARD_READ = 65_536
"""Bytes of one read: before the head is complete, and of discarded bytes."""

_IPV4_MAPPED = bytes(10) + b"\xff\xff"

_LIVENESS = (b"GET /health/live HTTP/1.", b"HEAD /health/live HTTP/1.")


class Phase(Enum):
    """Decides who owns a connection. Only the owner reads, writes or closes it, or passes it on."""

    RECEIVE = auto()
    """The event loop waits for (the rest of) a request; idle connections are here."""
    QUEUE = auto()
    """Its request waits for a thread; the thread that takes its ticket owns it."""
    RUN = auto()
    """A thread parses and runs its request and writes the response."""
    SEND = auto()
    """The event loop sends the rest of the response."""
    LINGER = auto()
    """The event loop waits until the client has received the last response and closes."""
    CLOSED = auto()


class Connection:
    """All times are in seconds on the monotonic clock.

    At `expires` the event loop checks the connection again, or gives up waiting. `arrived` is when the head was
    complete, `began` when the transfer of the request or response began. `has_all`: the whole request was received;
    only then the beginning of the next one is known. `network` is the client's address, the /64 of an IPv6 address.
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
        """Wait for the next request, whose first bytes are in `received`."""
        self.received = received
        self.arrived = 0.0
        self.head_size = 0
        self.has_all = False
        self.body: ExpectedBody | None = None
        self._continued = self._has_skipped_line = False

    @property
    def is_idle(self) -> bool:
        """Whether it is between two requests."""
        return self.phase is Phase.RECEIVE and not self.received

    @property
    def is_in_transfer(self) -> bool:
        """Whether the event loop waits for a client in the middle of a request or a response."""
        return self.phase is Phase.SEND or (self.phase is Phase.RECEIVE and bool(self.received))

    @property
    def held_bytes(self) -> int:
        """Memory of the received request and of the unsent response."""
        return len(self.received) + self.socket.unsent_bytes

    # --- receiving -----------------------------------------------------------------------------------------------

    @property
    def read_size(self) -> int:
        """The size of the next read."""
        if self.phase is Phase.LINGER:
            return _DISCARD_READ
        return _HEAD_READ if self.body is None else self.body.read_size(self.received)

    def add(self, data: bytes) -> None:
        """Append received bytes. `received` stays empty when only an empty line has arrived."""
        self.received += data
        self._window_bytes += len(data)
        # RFC 9112 §2.2: an empty line before a request is ignored; one only, as in gunicorn.
        if not self._has_skipped_line and self.received.startswith(b"\r\n") and self.received[2:4] != b"\r\n":
            del self.received[:2]
            self._has_skipped_line = True

    def has_request(self, body_limit: int) -> bool:
        """Return whether the request is complete, or the parser can already reject it."""
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
        """Return whether to send `100 Continue`; true at most once for each request."""
        if self.body is None or self._continued:
            return False
        self._continued = True
        return expects_continue(self.received, self.head_size)

    def is_liveness_probe(self) -> bool:
        """Return whether exactly a `GET /health/live` without a body has arrived."""
        return len(self.received) == self.head_size and self.received.startswith(_LIVENESS)

    def body_error(self) -> CatalogError | None:
        """Return the error of an incomplete request that is rejected early: it is not HTTP, or too long; else None."""
        if self.body is not None:
            return self.body.error
        if self.received[0] not in _FIRST_BYTES:
            return BadRequest("Malformed request: not HTTP/1.1 (a proxy must terminate TLS)")
        if len(self.received) > MAX_REQUEST_LINE_BYTES and b"\r\n" not in self.received:
            return UriTooLong("The request line is too long")
        if len(self.received) > MAX_HEAD_BYTES:
            return HeadersTooLarge("The request's header fields are too large or too many")
        return None

    def logged_head(self) -> bytes:
        return bytes(self.received[:MAX_LOGGED_HEAD_BYTES])

    def take_request(self) -> ReceivedBytes:
        """Return a source for gunicorn's parser: the received bytes, then the socket."""
        received, self.received = self.received, bytearray()
        return ReceivedBytes(received, self.socket)

    # --- the rate of a transfer ----------------------------------------------------------------------------------

    def begin_transfer(self, now: float) -> None:
        self.began = now
        self.begin_window(now)

    def begin_window(self, now: float) -> None:
        """Measure the transfer rate from now on."""
        self._window_began, self._window_bytes = now, 0
        self._window_undelivered = self._undelivered()

    def begin_body_window(self, now: float, read_timeout: float, request_time: float) -> None:
        """Measure the rate of the body from now on, for `read_timeout` or until the request has no time left."""
        self.begin_window(now)
        self.expires = min(now + read_timeout, self.arrived + request_time)

    def send_unsent(self) -> None:
        self._window_bytes += self.socket.send_unsent()

    def is_slower_than(self, min_rate: int, now: float) -> bool:
        """Return whether the client transferred fewer than `min_rate` bytes a second in this window, or none."""
        return self._transferred() < max(1.0, min_rate * (now - self._window_began))

    def rate(self, now: float) -> float:
        """Return the bytes a second in this window; a transfer that has just begun does not count as slow."""
        return self._transferred() / (now - self._window_began + 1.0)

    def _transferred(self) -> int:
        """Return the bytes that the client has sent or received in this window."""
        return self._window_bytes + self._window_undelivered - self._undelivered()

    def _undelivered(self) -> int:
        return self.socket.undelivered_bytes() if self.socket.unsent_bytes else 0


def client_network(address: str) -> str:
    """Return an IPv4 address, or the /64 of an IPv6 address, which one client usually has."""
    if ":" not in address:
        return address
    packed = socket.inet_pton(socket.AF_INET6, address.split("%", 1)[0])
    if packed.startswith(_IPV4_MAPPED):
        return socket.inet_ntop(socket.AF_INET, packed[len(_IPV4_MAPPED) :])
    return socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8)) + "/64"
