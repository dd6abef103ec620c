"""A FAKE catalog: the token endpoint, `GET /catalog/v1/config` and `POST /management/v1/action/batch-check`. It
records requests and allows what a test grants. It proves what the policies request and how they use a response, not
that a catalog accepts the request; a test against the real route proves that.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.parts.relay import Relay

CLIENT_ID, CLIENT_SECRET = "opa & co", "canary-opa-secret+/%"
WAREHOUSES = {
    "lakehouse": "01a20000-0000-7000-8000-000000000001",
    "other & 50%/ü+": "01a20000-0000-7000-8000-000000000002",
}

Operation = Mapping[str, Any]
Response = tuple[int, bytes]


@dataclass(frozen=True)
class Asked:
    """A request; the names of `headers` are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def checks(self) -> list[dict[str, Any]]:
        checks: list[dict[str, Any]] = json.loads(self.body)["checks"]
        return checks

    @property
    def operations(self) -> list[Operation]:
        return [check["operation"] for check in self.checks]


class FakeBatchCheck:
    """One server in this process, as a context manager; requests go through `relay`, which can cut its network."""

    def __init__(self) -> None:
        self._responses = {"/token": self._token, "/catalog/v1/config": self._config, BATCH_CHECK: self._batch_check}
        owner = self

        class Handler(_Handler):
            fake = owner

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.relay = Relay(self._server.server_port)
        self.asked: list[Asked] = []
        self.reset()

    def reset(self) -> None:
        """Remove all recorded requests and all grants."""
        self.asked.clear()
        self.is_granted: Callable[[str, Operation], bool] = lambda user, operation: False
        self.existing: list[Operation] = []
        """Operations on tables and views that there are; of others it says so where it is asked to."""
        self.instead: dict[str, Callable[[Asked], Response]] = {}
        """Handlers that replace those of this fake, by path."""
        self.access_token = "token-of-opa"
        """The one that is handed out and taken; others are 401."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.relay.port}"

    def grant(self, *operations: Operation, user: str = "oidc~alice") -> None:
        """Grant exactly these to that user."""
        self.is_granted = lambda asker, operation: asker == user and operation in operations

    def requests(self, path: str) -> list[Asked]:
        return [each for each in self.asked if urlsplit(each.target).path == path]

    @property
    def batches(self) -> list[Asked]:
        return self.requests(BATCH_CHECK)

    @property
    def operations(self) -> list[Operation]:
        """Return all operations that were checked, in order."""
        return [operation for batch in self.batches for operation in batch.operations]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.relay.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.relay.__exit__()
        self._server.shutdown()
        self._server.server_close()

    def response(self, asked: Asked) -> Response:
        path = urlsplit(asked.target).path
        self.asked.append(asked)
        if path in self.instead:
            return self.instead[path](asked)
        if path != "/token" and asked.headers.get("authorization") != f"Bearer {self.access_token}":
            return failure(401, "AuthenticationFailed")
        response = self._responses.get(path)
        return failure(404, "NotFound") if response is None else response(asked)

    def _token(self, asked: Asked) -> Response:
        form = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
        wanted = {"grant_type": "client_credentials", "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
        if asked.method != "POST" or wanted.items() - form.items():
            return failure(401, "invalid_client")
        return encoded(200, {"access_token": self.access_token, "token_type": "Bearer", "expires_in": 300})

    def _config(self, asked: Asked) -> Response:
        [name] = parse_qs(urlsplit(asked.target).query)["warehouse"]
        if asked.method != "GET" or name not in WAREHOUSES:
            return failure(404, "NoSuchWarehouseException")
        return encoded(200, {"defaults": {"prefix": WAREHOUSES[name]}, "overrides": {}})

    def _batch_check(self, asked: Asked) -> Response:
        if json.loads(asked.body)["error-on-not-found"]:
            missing = [operation for operation in asked.operations if operation not in self.existing]
            if missing:
                return failure(404, "NoSuchViewException" if "view" in missing[0] else "NoSuchTableException")
        return encoded(200, {"results": self.results(asked)})

    def results(self, asked: Asked) -> list[dict[str, Any]]:
        return [
            {"id": check["id"], "allowed": self.is_granted(check["identity"]["user"], check["operation"])}
            for check in asked.checks
        ]


BATCH_CHECK = "/management/v1/action/batch-check"


def encoded(status: int, body: Any) -> Response:
    return status, json.dumps(body).encode()


def failure(status: int, kind: str) -> Response:
    return encoded(status, {"error": {"message": "as a fake says", "type": kind, "code": status}})


class _Handler(BaseHTTPRequestHandler):
    fake: FakeBatchCheck
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one piece: two would wait for each other's acknowledgement

    def do_POST(self) -> None:
        self._handle()

    def do_GET(self) -> None:
        self._handle()

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, response = self.fake.response(Asked(self.command, self.path, headers, body))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(response)))
        if 300 <= status < 400:
            self.send_header("Location", f"{self.fake.url}/elsewhere")
        self.end_headers()
        self.wfile.write(response)

    def log_message(self, *_: object) -> None:
        """Print nothing to stderr."""
