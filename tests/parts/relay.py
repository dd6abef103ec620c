"""A relay in front of a part: its clients can be refused or get no response while the part keeps running."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from typing import Self

PIECE = 65_536


class LateRequest:
    """The first request with `text` in its first bytes, held on its way to `target`."""

    def __init__(self, text: bytes, target: int) -> None:
        self._text, self._target = text, target
        self._lock = threading.Lock()
        self.request = b""

    def takes(self, piece: bytes, source: socket.socket) -> bool:
        """Return whether this is the request; if so, it has been read to its end."""
        with self._lock:
            if self.request or self._text not in piece:
                return False
            while b"\r\n\r\n" not in piece:
                piece += source.recv(PIECE)
            head, _, body = piece.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *([0-9]+)", head)
            while length is not None and len(body) < int(length[1]):
                body += source.recv(PIECE)
            self.request = head + b"\r\n\r\n" + body
            return True

    def send_on(self) -> bytes:
        """Send the request to the part, and return the beginning of the response, which no client gets."""
        with socket.create_connection(("127.0.0.1", self._target)) as part:
            part.sendall(self.request)
            return part.recv(PIECE)


class Relay:
    """Forwards every connection to `port` to `target` of 127.0.0.1. A context manager.

    Within `refusing()` connections are refused, and open ones are closed: as when the part's process has ended. Within
    `silent()` connections are accepted and get no response: as when its machine is unreachable. `withholding()` does
    this for some requests, and with `late()` one of them arrives after all.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener: socket.socket | None = None
        self._is_silent = False
        self._withheld: tuple[bytes, threading.Event] | None = None
        self._late: LateRequest | None = None
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.port = 0

    def __enter__(self) -> Self:
        self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        self._cut()

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        self._cut()
        try:
            yield
        finally:
            self._listen()

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        self._is_silent = True
        self._cut_connections()
        try:
            yield
        finally:
            self._is_silent = False
            self._cut_connections()

    @contextlib.contextmanager
    def withholding(self, text: bytes) -> Iterator[threading.Event]:
        """Withhold requests with `text` in their first bytes; the event is set when there was one."""
        seen = threading.Event()
        self._withheld = (text, seen)
        try:
            yield seen
        finally:
            self._withheld = None
            self._cut_connections()

    @contextlib.contextmanager
    def late(self, text: bytes) -> Iterator[LateRequest]:
        """Hold the first request with `text` back and close its connection; it arrives when it is sent on."""
        kept = LateRequest(text, self._target)
        self._late = kept
        try:
            yield kept
        finally:
            self._late = None

    def _listen(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _cut(self) -> None:
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept()
            self._listener.close()
            self._listener = None
        self._cut_connections()

    def _cut_connections(self) -> None:
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                part = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open |= {client, part}
            threading.Thread(target=self._serve, args=(client, part), daemon=True).start()

    def _serve(self, client: socket.socket, part: socket.socket) -> None:
        """Copy both directions until one side closes; only this function closes the two sockets."""
        back = threading.Thread(target=self._copy, args=(part, client), daemon=True)
        back.start()
        self._copy(client, part)
        back.join()
        with self._lock:
            self._open -= {client, part}
        client.close()
        part.close()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(PIECE):
                if self._late is not None and self._late.takes(piece, source):
                    break
                if self._withheld is not None and self._withheld[0] in piece:
                    self._withheld[1].set()
                elif not self._is_silent:
                    target.sendall(piece)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
