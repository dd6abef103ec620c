"""Finds the HTTP interface of an OpenFGA whose gRPC interface is configured, as in Lakekeeper's deployment files."""

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

from icekeeper.kernel import request_context
from icekeeper.kernel.threads import release_thread_slot
from tenancy.authz.openfga.client import (
    RETRY_PAUSE_SECONDS,
    ConnectionLimits,
    OpenFgaConnection,
    OpenFgaEndpointIsGrpc,
    OpenFgaUnavailable,
)

HTTP_PORT: Final = 8080
"""The default port of OpenFGA and its chart for HTTP; gRPC uses 8081."""

STARTUP_TIMEOUT_SECONDS: Final = 10.0
"""How long a command waits for the HTTP interface of an OpenFGA whose gRPC interface already responds."""

T = TypeVar("T")

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + struct.pack(">HBBBL", 0, 0, 4, 0, 0)
"""The HTTP/2 connection preface (RFC 9113, 3.4): the fixed text and an empty SETTINGS frame."""
_FRAME_HEADER: Final = 9
_SETTINGS: Final = 4


def find_http_interface(endpoint: str, connection: OpenFgaConnection, limits: ConnectionLimits) -> str | None:
    """Return the HTTP address of the OpenFGA at `endpoint`, which does not support HTTP/1.1; None if it is not gRPC.

    It is port 8080 of the same host. Raises `OpenFgaEndpointIsGrpc` if no OpenFGA responds there.
    """
    parts = urlsplit(endpoint)
    if not _supports_http2(parts, limits):
        return None
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    found = parts._replace(netloc=f"{host}:{HTTP_PORT}").geturl()
    if parts.port == HTTP_PORT or not _is_openfga(found, connection):
        raise OpenFgaEndpointIsGrpc(
            f"LAKEKEEPER__OPENFGA__ENDPOINT, {endpoint}, is a gRPC interface, which this server does not support, and "
            f"no OpenFGA responds at {found}. Set it to the address of OpenFGA's HTTP interface (its OPENFGA_HTTP_ADDR)"
        )
    return found


def retry_during_startup(request: Callable[[], T]) -> T:
    """Call `request` until it succeeds: OpenFGA may be starting, and opens its gRPC interface first.

    It is called again while it raises `OpenFgaEndpointIsGrpc`, which propagates after `STARTUP_TIMEOUT_SECONDS`. The
    pause is that of the circuit breaker, which would reject an earlier request.
    """
    until = time.monotonic() + STARTUP_TIMEOUT_SECONDS
    while True:
        try:
            return request()
        except OpenFgaEndpointIsGrpc:
            if time.monotonic() >= until:
                raise
        sleep(RETRY_PAUSE_SECONDS)


def _is_openfga(address: str, connection: OpenFgaConnection) -> bool:
    """Check the health endpoint without the credential, as the port may belong to another server."""
    try:
        reply = connection.request("GET", f"{address}/healthz", body=None, headers={})
    except OpenFgaUnavailable:
        return False
    return reply.status == 200 and reply.document == {"status": "SERVING"}  # noqa: PLR2004


def _supports_http2(parts: SplitResult, limits: ConnectionLimits) -> bool:
    """Return whether the server responds to the HTTP/2 preface with a SETTINGS frame."""
    left = request_context.remaining_seconds()
    seconds = limits.connect if left is None else min(left, limits.connect)
    if seconds <= 0:
        return False
    until = time.monotonic() + seconds
    try:
        with release_thread_slot(), closing(_connect(parts, limits, seconds)) as connected:
            connected.sendall(_PREFACE)
            header = _receive_header(connected, until)
    except (OSError, ValueError):  # ValueError: a host that cannot be encoded
        return False
    length_high, length_low, kind, flags, stream = struct.unpack(">HBBBL", header.ljust(_FRAME_HEADER, b"\xff"))
    return kind == _SETTINGS and not flags and not stream and (length_high << 8 | length_low) % 6 == 0


def _connect(parts: SplitResult, limits: ConnectionLimits, seconds: float) -> socket.socket:
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


def _receive_header(connected: socket.socket, until: float) -> bytes:
    """Return the header of the first frame, or less if the server closes the connection before."""
    header = b""
    while len(header) < _FRAME_HEADER:
        connected.settimeout(max(0.001, until - time.monotonic()))
        piece = connected.recv(_FRAME_HEADER - len(header))
        if not piece:
            break
        header += piece
    return header
