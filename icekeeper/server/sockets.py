"""Sockets of clients, which do not block their callers, and the poller that waits for many of them."""

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
"""Bytes of a response in several parts that are buffered for a slow client before its thread waits."""

_PIECE: Final = 1_048_576
"""Maximum bytes of one `send_unsent`, so that the event loop can serve the next client."""


class ClientSocket(socket.socket):
    """A non-blocking socket that buffers what the client does not receive immediately; `send_unsent` sends it.

    Only `drain` waits, and `sendall` if more than `MAX_UNSENT` bytes of a response in several parts, such as an export,
    are buffered. `timeout` and `min_rate` (bytes a second) limit these waits.
    """

    def __init__(self, accepted: socket.socket, timeout: float, min_rate: int) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self.settimeout(0.0)
        self._timeout, self._min_rate = timeout, min_rate
        self._unsent: deque[tuple[memoryview, int]] = deque()
        self.unsent_bytes = 0
        """Size of the parts that are not completely sent."""

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Return bytes from the client, b"" when it has closed the connection. Raises TimeoutError without any.

        For the parser, which runs only when the whole request has arrived.
        """
        try:
            return super().recv(size, flags)
        except BlockingIOError:
            raise TimeoutError("the rest of the request has not arrived") from None

    def recv_now(self, size: int) -> bytes:
        """Return the bytes that have arrived; raises BlockingIOError without any."""
        return super().recv(size)

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """Send what the client receives immediately, and buffer the rest.

        Waits only when the response is in parts and `MAX_UNSENT` is exceeded. Raises TimeoutError if the client is too
        slow.
        """
        rest = memoryview(data)
        if self._unsent:
            if self.unsent_bytes > MAX_UNSENT:
                self._wait_for_client(MAX_UNSENT // 2)
        else:
            with suppress(BlockingIOError):
                rest = rest[super().send(rest, flags) :]
        if rest:
            self._unsent.append((rest, len(data)))
            self.unsent_bytes += len(data)

    def send_unsent(self) -> int:
        """Send buffered bytes as far as the client receives them now; return their number."""
        sent = 0
        while self._unsent and sent < _PIECE:
            part, size_of_part = self._unsent[0]
            try:
                size = super().send(part[:_PIECE])
            except BlockingIOError:
                break
            sent += size
            if size == len(part):
                self._unsent.popleft()
                self.unsent_bytes -= size_of_part
            else:
                self._unsent[0] = (part[size:], size_of_part)
        return sent

    def drain(self) -> None:
        """Send all buffered bytes; wait for the client within the limits of `sendall`. Raises as `sendall`."""
        if self._unsent:
            self._wait_for_client(0)

    def has_disconnected(self) -> bool:
        """Return whether the client has closed the connection, or its sending side."""
        try:
            return not super().recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def undelivered_bytes(self) -> int:
        """Return the bytes in the system's send buffer; 0 where the system does not report them."""
        try:
            return int.from_bytes(fcntl.ioctl(self.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
        except OSError:
            return 0

    def discard_unsent(self) -> None:
        """Let `close` reset the connection immediately, without sending the buffered bytes."""
        self._unsent.clear()
        self.unsent_bytes = 0
        with suppress(OSError):
            self.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _wait_for_client(self, max_bytes: int) -> None:
        """Wait until at most `max_bytes` are buffered."""
        until = monotonic() + self._timeout + self.unsent_bytes / self._min_rate
        poll = select.poll()
        poll.register(self.fileno(), select.POLLOUT)
        while self.unsent_bytes > max_bytes:
            seconds = min(self._timeout, until - monotonic())
            if seconds <= 0 or not poll.poll(seconds * 1000):
                raise TimeoutError("the client takes its response too slowly")
            self.send_unsent()


if sys.platform == "linux":

    class Poller:
        """Reports an armed descriptor once. Unlike with `selectors`, a thread can arm it again during `wait`."""

        def __init__(self) -> None:
            self._epoll = select.epoll()
            self.close = self._epoll.close

        def watch(self, descriptor: int) -> None:
            """Report `descriptor` whenever it is readable (listeners, pipes)."""
            self._epoll.register(descriptor, select.EPOLLIN)

        def add(self, descriptor: int) -> None:
            """Arm a new descriptor for the first time."""
            self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLONESHOT)

        def arm(self, descriptor: int) -> None:
            self._epoll.modify(descriptor, select.EPOLLIN | select.EPOLLONESHOT)

        def arm_writing(self, descriptor: int) -> None:
            """Report the descriptor when it can be written to."""
            self._epoll.modify(descriptor, select.EPOLLOUT | select.EPOLLONESHOT)

        def remove(self, descriptor: int) -> None:
            self._epoll.unregister(descriptor)

        def wait(self, seconds: float) -> list[int]:
            return [descriptor for descriptor, _ in self._epoll.poll(seconds)]

else:

    class Poller:
        """The implementation for BSD and macOS."""

        def __init__(self) -> None:
            self._kqueue = select.kqueue()
            self.close = self._kqueue.close

        def watch(self, descriptor: int) -> None:
            self._change(descriptor, select.KQ_EV_ADD)

        def add(self, descriptor: int) -> None:
            self._change(descriptor, select.KQ_EV_ADD | select.KQ_EV_ONESHOT)

        arm = add

        def arm_writing(self, descriptor: int) -> None:
            self._change(descriptor, select.KQ_EV_ADD | select.KQ_EV_ONESHOT, select.KQ_FILTER_WRITE)

        def remove(self, descriptor: int) -> None:
            with suppress(FileNotFoundError):  # it is not armed
                self._change(descriptor, select.KQ_EV_DELETE)

        def wait(self, seconds: float) -> list[int]:
            return [event.ident for event in self._kqueue.control(None, 256, seconds)]

        def _change(self, descriptor: int, action: int, direction: int = select.KQ_FILTER_READ) -> None:
            self._kqueue.control([select.kevent(descriptor, direction, action)], 0)
