"""A FAKE Vault for runs without a real one: the requests of this server, with the responses of the HTTP API of Vault
1.21.

It proves that requests and the parsing of responses follow the documentation. It does not prove that Vault accepts
them: policies, renewal, revocation and versions are a few lines here. Where a real Vault (`tests/parts/vault.py`) is
installed, `tests/storage/test_vault.py` runs on it too; Kubernetes sign-in and namespaces are proved by this fake
alone.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.parts.relay import Relay

USER, PASSWORD, ROLE_ID, SECRET_ID = "icekeeper", "canary-vault-password", "role-1", "canary-vault-secret-id"
MOUNT = "lake"
POD_TOKEN = "canary-pod-token"


class FakeVault:
    """One server in this process.

    `lifetime` is that of new tokens in seconds, `longest` the maximum that renewals cannot exceed. A context manager;
    clients connect through `relay`, which can interrupt the network.
    """

    is_real = False
    lifetime, longest = 3600.0, 7200.0

    def __init__(self) -> None:
        self.tokens: dict[str, tuple[float, float]] = {}
        """Ends now, ends at the latest; on the monotonic clock."""
        self.entries: dict[str, list[Any]] = {}
        self.logins: list[str] = []
        self.renewals = 0
        self.namespaces: set[str | None] = set()
        self.is_sealed = self.denies = False
        self.failing: list[int] = []
        """Statuses of the next responses."""
        owner, self._lock = self, threading.Lock()

        class Handler(_Handler):
            vault = owner

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.relay = Relay(self._server.server_port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.relay.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.relay.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.relay.__exit__()
        self._server.shutdown()
        self._server.server_close()

    def set_lifetime(self, seconds: int, longest: int) -> None:
        self.lifetime, self.longest = seconds, longest

    def role(self) -> tuple[str, str]:
        """Return role id and secret id."""
        return ROLE_ID, SECRET_ID

    def new_token(self) -> str:
        token, now = f"hvs.{secrets.token_urlsafe(24)}", time.monotonic()
        self.tokens[token] = (now + self.lifetime, now + self.longest)
        return token

    def revoke_all(self) -> None:
        self.tokens.clear()

    def deny(self, *, denies: bool) -> None:
        self.denies = denies

    def seal(self, *, is_sealed: bool) -> None:
        self.is_sealed = is_sealed

    def stored(self) -> dict[str, Any]:
        """Return the stored entries by path below the mount."""
        return {path: versions[-1] for path, versions in self.entries.items()}

    def response(self, method: str, path: str, body: dict[str, Any], headers: Any) -> tuple[int, Any]:
        with self._lock:
            if self.failing or self.is_sealed:
                return self.failing.pop(0) if self.failing else 503, {"errors": ["as the test wants"]}
            self.namespaces.add(headers.get("X-Vault-Namespace"))
            parts = path.removeprefix("/v1/").split("/")
            if parts[0] == "auth" and "login" in parts:
                return self._login(parts, body)
            token = headers.get("X-Vault-Token", "")
            if self.tokens.get(token, (0.0, 0.0))[0] <= time.monotonic():
                return 403, {"errors": ["permission denied"]}
            if parts[:2] == ["auth", "token"]:
                return self._of_token(parts[2], token)
            if self.denies or parts[0] != MOUNT:
                return 403, {"errors": ["1 error occurred: permission denied"]}
            return self._kept(method, parts[1], "/".join(parts[2:]), body)

    def _of_token(self, what: str, token: str) -> tuple[int, Any]:
        now, (ends, latest) = time.monotonic(), self.tokens[token]
        if what == "lookup-self":
            return 200, {"data": {"ttl": int(ends - now), "renewable": True}}
        self.renewals += 1
        ends = min(now + self.lifetime, latest)
        self.tokens[token] = (ends, latest)
        return 200, {"auth": {"client_token": token, "lease_duration": int(ends - now), "renewable": True}}

    def _login(self, parts: list[str], body: dict[str, Any]) -> tuple[int, Any]:
        self.logins.append("/".join(parts[1:]))
        good = {
            ("userpass", "login", USER): body.get("password") == PASSWORD,
            ("approle", "login"): (body.get("role_id"), body.get("secret_id")) == (ROLE_ID, SECRET_ID),
            ("kubernetes", "login"): (body.get("role"), body.get("jwt")) == ("icekeeper", POD_TOKEN),
        }
        if not good.get(tuple(parts[1:]), False):
            return 400, {"errors": ["invalid username or password"]}
        lease = int(self.lifetime)
        return 200, {"auth": {"client_token": self.new_token(), "lease_duration": lease, "renewable": True}}

    def _kept(self, method: str, kind: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        match kind, method:
            case "data", "POST" | "PUT":
                self.entries.setdefault(path, []).append(body["data"])
                return 200, {"data": {"version": len(self.entries[path])}}
            case "data", "GET" if path in self.entries:
                return 200, {"data": {"data": self.entries[path][-1], "metadata": {"version": len(self.entries[path])}}}
            case "metadata", "DELETE":
                self.entries.pop(path, None)
                return 204, None
            case "metadata", "LIST":
                keys = sorted(each.removeprefix(f"{path}/") for each in self.entries if each.startswith(f"{path}/"))
                return (200, {"data": {"keys": keys}}) if keys else (404, {"errors": []})
        return 404, {"errors": []}


class _Handler(BaseHTTPRequestHandler):
    vault: FakeVault
    protocol_version = "HTTP/1.1"

    def _do(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length) or b"{}")
        status, content = self.vault.response(self.command, self.path.partition("?")[0], body, self.headers)
        raw = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        if status in {301, 307}:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST = do_PUT = do_DELETE = do_LIST = _do  # noqa: N815 - the names of HTTP

    def log_message(self, *_: Any) -> None:
        pass
