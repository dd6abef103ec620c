"""A client's connection as a socket that does not make its callers wait for the client."""

from __future__ import annotations

import fcntl
import select
import socket
import struct
import sys
import termios
from collections import deque
from contextlib import suppress
from time import monotonic
from typing import Any, Final

MAX_UNSENT: Final = 4_194_304
"""Bytes of a response in several parts that are kept for a slow client before its thread waits."""

_PIECE: Final = 1_048_576
"""Bytes that one `send_unsent` sends at most, so that the event loop gets to the next client."""


class ClientSocket(socket.socket):
    """Non-blocking. What the client does not take at once is kept, and sent by `send_unsent`.

    `timeout` and `min_rate` (bytes a second) limit the one wait that there is: for the client of a response in several
    parts, such as an export, of which more than `MAX_UNSENT` bytes are kept.
    """

    def __init__(self, accepted: socket.socket, timeout: float, min_rate: int) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self.settimeout(0.0)
        self._timeout, self._min_rate = timeout, min_rate
        self._unsent: deque[tuple[memoryview, int]] = deque()
        self.unsent_bytes = 0
        """Memory of the parts that are not sent in full; 0 when there are none."""

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Bytes from the client, b"" when it has ended the connection; raises TimeoutError when nothing has arrived.

        For the parser: it gets a request when all of it has arrived, so it never needs to wait.
        """
        try:
            return super().recv(size, flags)
        except BlockingIOError:
            raise TimeoutError("the rest of the request has not arrived") from None

    def recv_now(self, size: int) -> bytes:
        """What has arrived; raises BlockingIOError when nothing has."""
        return super().recv(size)

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """Send what the client takes at once and keep the rest.

        Waits only when the response is in parts and `MAX_UNSENT` is exceeded; then raises TimeoutError when the client
        is too slow.
        """
        rest = memoryview(data)
        if self._unsent:
            if self.unsent_bytes > MAX_UNSENT:
                self._wait_for_client()
        else:
            with suppress(BlockingIOError):
                rest = rest[super().send(rest, flags) :]
        if rest:
            self._unsent.append((rest, len(data)))
            self.unsent_bytes += len(data)

    def send_unsent(self) -> int:
        """Send what the client takes now of what is kept; how many bytes that was."""
        sent = 0
        while self._unsent and sent < _PIECE:
            part, held = self._unsent[0]
            try:
                size = super().send(part[:_PIECE])
            except BlockingIOError:
                break
            sent += size
            if size == len(part):
                self._unsent.popleft()
                self.unsent_bytes -= held
            else:
                self._unsent[0] = (part[size:], held)
        return sent

    def undelivered_bytes(self) -> int:
        """What the system has taken and the client has not; 0 where the system does not say."""
        try:
            return int.from_bytes(fcntl.ioctl(self.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
        except OSError:
            return 0

    def discard_unsent(self) -> None:
        """Have `close` end the connection at once, without what the client has not taken."""
        self._unsent.clear()
        self.unsent_bytes = 0
        with suppress(OSError):
            self.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _wait_for_client(self) -> None:
        until = monotonic() + self._timeout + self.unsent_bytes / self._min_rate
        poll = select.poll()
        poll.register(self.fileno(), select.POLLOUT)
        while self.unsent_bytes > MAX_UNSENT // 2:
            seconds = min(self._timeout, until - monotonic())
            if seconds <= 0 or not poll.poll(seconds * 1000):
                raise TimeoutError("the client takes its response too slowly")
            self.send_unsent()
