"""A small real identity provider on loopback: it publishes keys, signs tokens, counts requests, and can misbehave."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

DISCOVERY, KEYS = "/.well-known/openid-configuration", "/keys"
PrivateKey = RSAKey | ECKey | OKPKey
Misbehaviour = Callable[[BaseHTTPRequestHandler], None]


class IdentityProvider:
    """A provider that signs with `private_keys`, by key id; the first is used unless a token names another.

    `asked` counts requests by path. `misbehave[path]` replaces the provider's response; `is_down` closes every
    connection. `published` are members of its documents that differ from the usual ones.
    """

    def __init__(self, *keys: PrivateKey) -> None:
        created = keys or (ECKey.generate_key("P-256"),)
        self.private_keys: dict[str, PrivateKey] = {f"key-{number}": key for number, key in enumerate(created)}
        self.asked: Counter[str] = Counter()
        self.misbehave: dict[str, Misbehaviour] = {}
        self.published: dict[str, dict[str, Any]] = {DISCOVERY: {}, KEYS: {}}
        self.is_down = False
        self.stopping = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def issuer(self) -> str:
        return self.address

    @property
    def settings(self) -> dict[str, str]:
        """The variables of a catalog that accepts its tokens, except those for other audiences."""
        return {"LAKEKEEPER__OPENID_PROVIDER_URI": self.address, "LAKEKEEPER__OPENID_AUDIENCE": "icekeeper"}

    def start(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()

    def rotate(self, *, keeps_old: bool = False) -> None:
        """Add a key, which signs from now on."""
        fresh: dict[str, PrivateKey] = {f"key-{time.monotonic_ns()}": ECKey.generate_key("P-256")}
        self.private_keys = fresh | self.private_keys if keeps_old else fresh

    def documents(self) -> dict[str, dict[str, Any]]:
        discovery = {"issuer": self.issuer, "jwks_uri": self.address + KEYS}
        keys = {"keys": [key.as_dict(private=False, kid=kid, use="sig") for kid, key in self.private_keys.items()]}
        return {DISCOVERY: discovery | self.published[DISCOVERY], KEYS: keys | self.published[KEYS]}

    def claims(self, **changed: Any) -> dict[str, Any]:
        """Return the claims of a valid token; a claim that is None is omitted."""
        now = int(time.time())
        usual = {"iss": self.issuer, "aud": "icekeeper", "sub": "anna", "iat": now, "exp": now + 300}
        return {name: value for name, value in (usual | changed).items() if value is not None}

    def token(self, **changed: Any) -> str:
        """Return a valid token with these claims."""
        return self.sign({}, self.claims(**changed))

    def sign(self, header: dict[str, Any], claims: dict[str, Any] | bytes, *, key: PrivateKey | None = None) -> str:
        """Return a token with exactly these claims and, in addition to `alg` and `kid`, these members of the
        header.

        A member that is None is omitted.
        """
        kid, usual_key = next(iter(self.private_keys.items()))
        key = key or self.private_keys.get(str(header.get("kid", kid)), usual_key)
        whole = {"alg": algorithm_of(key), "kid": kid, "typ": "JWT"} | header
        return sign(json.dumps({name: value for name, value in whole.items() if value is not None}), claims, key)


def sign(header: str | bytes, claims: dict[str, Any] | bytes, key: Any, algorithm: str | None = None) -> str:
    """Return a token of exactly these bytes."""
    head = header.encode() if isinstance(header, str) else header
    body = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    text = f"{encoded(head)}.{encoded(body)}"
    signer = JWSRegistry.algorithms[algorithm or algorithm_of(key)]
    return f"{text}.{encoded(signer.sign(text.encode(), key))}"


def algorithm_of(key: Any) -> str:
    if isinstance(key, RSAKey):
        return "RS256"
    return {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}.get(key.curve_name, "EdDSA")


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def running(*keys: PrivateKey) -> Iterator[IdentityProvider]:
    """Run a provider, for fixtures."""
    provider = IdentityProvider(*keys).start()
    try:
        yield provider
    finally:
        provider.stop()


def hangs(provider: IdentityProvider) -> Misbehaviour:
    """Accept the request and send nothing until the provider stops."""

    def hang(_handler: BaseHTTPRequestHandler) -> None:
        provider.stopping.wait()

    return hang


def trickles_head(provider: IdentityProvider) -> Misbehaviour:
    """Send a header without end, byte by byte."""

    def trickle(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Padding: ")
        _drip(handler, provider)

    return trickle


def trickles_body(provider: IdentityProvider) -> Misbehaviour:
    def trickle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        _drip(handler, provider)

    return trickle


def _drip(handler: BaseHTTPRequestHandler, provider: IdentityProvider) -> None:
    while not provider.stopping.wait(0.02):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def responses(status: int, body: bytes = b"", **headers: str) -> Misbehaviour:
    def response(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return response


def sends_without_end(handler: BaseHTTPRequestHandler) -> None:
    """Send 500 MB of JSON, or as much as the client reads."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.end_headers()
    handler.wfile.write(b'{"keys":[')
    for _ in range(500):
        handler.wfile.write(b" " * 1_000_000)


def _handler_of(provider: IdentityProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.asked[self.path] += 1
            if provider.is_down:
                return
            try:
                if self.path in provider.misbehave:
                    provider.misbehave[self.path](self)
                elif (document := provider.documents().get(self.path)) is not None:
                    responses(200, json.dumps(document).encode(), Content_Type="application/json")(self)
                else:
                    responses(404)(self)
            except OSError:
                return  # the client closed the connection

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
