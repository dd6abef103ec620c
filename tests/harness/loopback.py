"""Tests may only connect to this machine: any other connection is denied before it is attempted."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any


def _check(address: Any) -> None:
    if not isinstance(address, tuple):
        return
    host = address[0]
    try:
        is_local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = host == "localhost"
    if not is_local:
        raise ConnectionRefusedError(f"tests may not connect to {host}: start a real part on 127.0.0.1 instead")


def refuse_other_networks() -> None:
    """Guard the sockets of this process; programs that tests start are not guarded."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded_connect(self: socket.socket, address: Any) -> None:
        _check(address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        _check(address)
        return connect_ex(self, address)

    socket.socket.connect = guarded_connect  # type: ignore[assignment, method-assign]
    socket.socket.connect_ex = guarded_connect_ex  # type: ignore[assignment, method-assign]
