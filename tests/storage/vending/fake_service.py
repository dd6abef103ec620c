"""A fake of services that issue credentials and cannot run here; it records requests and returns prepared responses.

It proves the requests and the parsing of responses. It cannot prove that the real service accepts the requests or
returns such responses, nor the scope of a credential.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import ssl
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        pairs = parse_qsl(self.body.decode(), keep_blank_values=True, strict_parsing=True)
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)


@dataclass(frozen=True)
class Said:
    """A response; with `drips` it is sent byte by byte, five per second."""

    status: int = 200
    body: bytes = b"{}"
    content_type: str = "application/json"
    location: str | None = None
    drips: bool = False


def said(document: Any, status: int = 200) -> Said:
    return Said(status, json.dumps(document).encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that close the connection because they do not trust the certificate."""


class FakeService:
    """A server that returns the responses in `responses` for each path; the last of them repeats, other paths return
    404.

    A context manager; it uses TLS when a folder for its certificate, `ca_file`, is given.
    """

    def __init__(self, home: Path | None = None) -> None:
        self.asked: list[Asked] = []
        self.responses: dict[str, list[Said]] = {}
        self._server = _Server(("127.0.0.1", 0), _handler_of(self))
        self.scheme = "http"
        if home is not None:
            self.scheme, self.ca_file = "https", home / "ca.crt"
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(_create_certificate(home, self.ca_file))
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def response(self, asked: Asked) -> Said:
        self.asked.append(asked)
        responses = self.responses.get(asked.path, [Said(404)])
        return responses.pop(0) if len(responses) > 1 else responses[0]


def _handler_of(service: FakeService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Keep the output of tests clean."""

        def _response(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            asked = Asked(
                self.command, parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)), dict(self.headers), body
            )
            response = service.response(asked)
            self.send_response(response.status)
            self.send_header("Content-Type", response.content_type)
            self.send_header("Content-Length", str(len(response.body)))
            if response.location is not None:
                self.send_header("Location", response.location)
            self.end_headers()
            try:
                for byte in response.body if response.drips else ():
                    self.wfile.write(bytes([byte]))
                    time.sleep(0.2)
                if not response.drips:
                    self.wfile.write(response.body)
            except OSError:
                self.close_connection = True  # the client closed the connection

        do_GET = do_POST = _response  # noqa: N815

    return Handler


def _create_certificate(home: Path, ca_file: Path) -> Path:
    """Create a self-signed certificate for 127.0.0.1, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a fake")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    ca_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    both = home / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    both.write_bytes(private + ca_file.read_bytes())
    return both
