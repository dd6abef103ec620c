"""The HTTP interface of an OpenFGA whose gRPC interface was configured, as Lakekeeper's deployment files do."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable
from contextlib import closing
from time import sleep
from typing import Final, TypeVar
from urllib.parse import SplitResult, urlsplit

from icekeeper.kernel.request import deadline
from icekeeper.kernel.request.thread_slots import release_thread_slot
from tenancy.authz.openfga.client import PAUSE, Connection, Limits, OpenFgaEndpointIsGrpc, OpenFgaUnavailable

HTTP_PORT: Final = 8080
"""Where OpenFGA and its chart serve HTTP unless they are told otherwise; gRPC is at 8081."""

STARTING_SECONDS: Final = 10.0
"""How long a command waits for the HTTP interface of an OpenFGA whose gRPC interface answers already."""

T = TypeVar("T")

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + struct.pack(">HBBBL", 0, 0, 4, 0, 0)
"""Of HTTP/2 (RFC 9113, 3.4): the fixed text and an empty SETTINGS frame, which a server answers with its own."""
_FRAME_HEADER: Final = 9
_SETTINGS: Final = 4


def find_http_interface(endpoint: str, connection: Connection, limits: Limits) -> str | None:
    """The address to ask in the place of `endpoint`, which did not answer HTTP/1.1; None where it is no gRPC either.

    It is port 8080 of the same host, and only where an OpenFGA answers there. Raises `OpenFgaEndpointIsGrpc` where none
    does.
    """
    parts = urlsplit(endpoint)
    if not _speaks_http2(parts, limits):
        return None
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    found = parts._replace(netloc=f"{host}:{HTTP_PORT}").geturl()
    if parts.port == HTTP_PORT or not _is_openfga(found, connection):
        raise OpenFgaEndpointIsGrpc(
            f"LAKEKEEPER__OPENFGA__ENDPOINT, {endpoint}, is a gRPC interface, which this server does not speak, and no "
            f"OpenFGA answers at {found}. Set it to the address of OpenFGA's HTTP interface (its OPENFGA_HTTP_ADDR)"
        )
    return found


def ask_at_start(ask: Callable[[], T]) -> T:
    """The outcome of `ask`, for commands that are started together with OpenFGA, whose gRPC interface opens first.

    `ask` is called again while it raises `OpenFgaEndpointIsGrpc`, which is raised after `STARTING_SECONDS`. The pause
    is that of the circuit breaker, which would refuse to ask earlier.
    """
    until = time.monotonic() + STARTING_SECONDS
    while True:
        try:
            return ask()
        except OpenFgaEndpointIsGrpc:
            if time.monotonic() >= until:
                raise
        sleep(PAUSE)


def _is_openfga(address: str, connection: Connection) -> bool:
    """Asked without the credential: nobody has said yet that this port is OpenFGA's."""
    try:
        reply = connection.request("GET", f"{address}/healthz", body=None, headers={})
    except OpenFgaUnavailable:
        return False
    return reply.status == 200 and reply.document == {"status": "SERVING"}  # noqa: PLR2004


def _speaks_http2(parts: SplitResult, limits: Limits) -> bool:
    """Whether the other side answers the preface of HTTP/2 as only a server of HTTP/2 does."""
    left = deadline.remaining()
    seconds = limits.connect if left is None else min(left, limits.connect)
    if seconds <= 0:
        return False
    until = time.monotonic() + seconds
    try:
        with release_thread_slot(), closing(_connected(parts, limits, seconds)) as connected:
            connected.sendall(_PREFACE)
            header = _received(connected, until)
    except (OSError, ValueError):  # ValueError: a host that cannot be encoded
        return False
    length_high, length_low, kind, flags, stream = struct.unpack(">HBBBL", header.ljust(_FRAME_HEADER, b"\xff"))
    return kind == _SETTINGS and not flags and not stream and (length_high << 8 | length_low) % 6 == 0


def _connected(parts: SplitResult, limits: Limits, seconds: float) -> socket.socket:
    port = parts.port or (443 if parts.scheme == "https" else 80)
    connected = socket.create_connection((parts.hostname or "", port), timeout=seconds)
    if parts.scheme != "https":
        return connected
    context = ssl.create_default_context(cafile=None if limits.ca_file is None else str(limits.ca_file))
    context.set_alpn_protocols(["h2"])
    try:
        return context.wrap_socket(connected, server_hostname=parts.hostname)
    except BaseException:
        connected.close()
        raise


def _received(connected: socket.socket, until: float) -> bytes:
    """The header of the first frame, or less where the other side ends before."""
    header = b""
    while len(header) < _FRAME_HEADER:
        connected.settimeout(max(0.001, until - time.monotonic()))
        piece = connected.recv(_FRAME_HEADER - len(header))
        if not piece:
            break
        header += piece
    return header
