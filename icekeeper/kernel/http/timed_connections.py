"""Connections whose answers end in time, however they come.

The timeout of a socket is that of each wait: a server that sends byte after byte, one more header, or `100 Continue`
without end could hold a thread for ever. Here somebody else shuts the socket when the time for the whole is over.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Timer
from typing import Any, Final

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

LATE: Final = "did not send all of its answer in time"


@contextmanager
def time_limit(connected: socket.socket | None, seconds: float | None) -> Iterator[None]:
    """Raises TimeoutError when what is inside, which reads from `connected`, took so many seconds.

    The end of the stream that it has then may look like the end of an answer.
    """
    if connected is None or seconds is None:
        yield
        return
    is_over = Event()

    def shut() -> None:
        is_over.set()
        with suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)

    timer = Timer(max(0.0, seconds), shut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if is_over.is_set():
            raise TimeoutError(LATE) from error
        raise
    finally:
        timer.cancel()
    if is_over.is_set():
        raise TimeoutError(LATE)


class Timed:
    """Of a connection of urllib3: the head of an answer comes within its `timeout`, and the answer knows its `socket`.

    That is kept there as the connection forgets it where the answer is the last one.
    """

    sock: socket.socket
    timeout: float | None

    def getresponse(self) -> Any:
        connected, response = self.sock, None
        try:
            with time_limit(connected, self.timeout):
                response = super().getresponse()  # type: ignore[misc]  # of the connection that this is mixed into
        except TimeoutError:
            if response is not None:  # of half a head
                response.close()
            raise
        response.socket = connected
        return response


class TimedHTTPConnection(Timed, HTTPConnection):
    pass


class TimedHTTPSConnection(Timed, HTTPSConnection):
    pass


class TimedHTTPPool(HTTPConnectionPool):
    ConnectionCls = TimedHTTPConnection


class TimedHTTPSPool(HTTPSConnectionPool):
    ConnectionCls = TimedHTTPSConnection


POOLS = {"http": TimedHTTPPool, "https": TimedHTTPSPool}
