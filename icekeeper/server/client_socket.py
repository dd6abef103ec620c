"""A client's connection as a socket that never waits longer than it promised, however slow the client is."""

from __future__ import annotations

import select
import socket
from time import monotonic
from typing import Any

SLOWEST_READER = 65_536
"""Bytes a second that a client must at least take of an answer; else it is cut off."""


class ClientSocket(socket.socket):
    """Non-blocking for the event loop, waiting with a limit for the thread that runs a request.

    The first try is always without a wait, so a client that is not slow costs one system call a direction.
    """

    def __init__(self, accepted: socket.socket, patience: float) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self.settimeout(0.0)
        self.patience = patience
        self.read_until = 0.0
        self.owes_continue = False

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Bytes from the client, b"" when it is gone.

        Raises TimeoutError when it sends nothing for `patience` seconds, or goes on sending beyond `read_until`
        (monotonic seconds). Sends the `100 Continue` that a client waits for when its body is first asked for.
        """
        if self.owes_continue:
            self.owes_continue = False
            self.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while True:
            try:
                if monotonic() > self.read_until:
                    raise TimeoutError("the request did not arrive in time")
                return super().recv(size, flags)
            except BlockingIOError:
                self._wait(select.POLLIN, min(self.patience, self.read_until - monotonic()))

    def recv_now(self, size: int) -> bytes:
        """What has arrived; raises BlockingIOError when nothing has."""
        return super().recv(size)

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """Send everything; raises TimeoutError when the client takes less than `SLOWEST_READER` a second."""
        try:
            sent = super().send(data, flags)
        except BlockingIOError:
            sent = 0
        size = len(data)
        if sent == size:
            return
        until = monotonic() + self.patience + size / SLOWEST_READER
        rest = memoryview(data)[sent:]
        while rest:
            self._wait(select.POLLOUT, min(self.patience, until - monotonic()))
            try:
                rest = rest[super().send(rest, flags) :]
            except BlockingIOError:
                continue

    def _wait(self, direction: int, seconds: float) -> None:
        poll = select.poll()
        poll.register(self.fileno(), direction)
        if seconds <= 0 or not poll.poll(seconds * 1000):
            raise TimeoutError("the client is too slow")
