"""Listening sockets, and the error when one cannot be bound."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager


class CannotListen(Exception):
    """A port cannot be bound; the message has the address, the reason and the settings."""


@contextmanager
def listening_on(address: str, port: int, *, setting: str) -> Iterator[None]:
    """Raise `CannotListen` for an OSError in the block; `setting` is the variable of the port."""
    try:
        yield
    except OSError as error:
        reason = "it is in use" if error.errno == errno.EADDRINUSE else os.strerror(error.errno or 0)
        raise CannotListen(
            f"cannot listen on {address}:{port}: {reason}. "
            f"Free it, or choose another with {setting} and LAKEKEEPER__BIND_IP"
        ) from error


def listen(address: str, port: int, *, setting: str, backlog: int) -> socket.socket:
    """Return a listening socket. Raises `CannotListen`."""
    is_v6 = ":" in address
    with listening_on(address, port, setting=setting):
        return socket.create_server(
            (address, port),
            family=socket.AF_INET6 if is_v6 else socket.AF_INET,
            backlog=backlog,
            dualstack_ipv6=is_v6 and socket.has_dualstack_ipv6(),
        )
