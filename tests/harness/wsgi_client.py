"""A client that calls the real WSGI application in this process: the raw path, both stacks, no socket."""

from __future__ import annotations

import json
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from urllib.parse import unquote_to_bytes

from icekeeper.kernel.request_context import end_request
from icekeeper.wsgi import application


@dataclass(frozen=True)
class Response:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = self.json()["error"]
        return error

    def refused(self, status: int, wire_type: str, text: str = "") -> bool:
        """Return whether this is exactly that error, in the envelope of the specification."""
        error = self.error
        assert set(error) == {"message", "type", "code", "stack"}
        assert error["code"] == self.status
        assert (self.status, error["type"]) == (status, wire_type), error
        assert text in error["message"], error["message"]
        return True


def call(
    method: str,
    target: str,
    *,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    content_type: str = "application/json",
) -> Response:
    """Send one request. `target` is sent unchanged: percent-encode it first."""
    path, _, query = target.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "RAW_URI": target,
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": query,
        "SCRIPT_NAME": "",
        "SERVER_NAME": "testserver",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "192.0.2.7",
        "HTTP_HOST": "testserver",
        "CONTENT_TYPE": content_type,
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": BytesIO(body),
        "wsgi.errors": BytesIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in (headers or {}).items():
        environ["HTTP_" + name.upper().replace("-", "_")] = value
    started: dict[str, Any] = {}

    def start_response(status: str, response_headers: list[tuple[str, str]], exc_info: object = None) -> None:
        started.update(status=int(status.split(maxsplit=1)[0]), headers=dict(response_headers))

    result = application(environ, start_response)
    try:
        content = b"".join(result)
    finally:
        if hasattr(result, "close"):
            result.close()
        end_request()  # as the server does between requests
    return Response(started["status"], started["headers"], content)


class ApiClient:
    """Calls below one address, with JSON bodies."""

    def __init__(self, base: str) -> None:
        self.base = base

    def get(self, target: str = "", **headers: str) -> Response:
        return call("GET", self.base + target, headers=headers)

    def head(self, target: str = "") -> Response:
        return call("HEAD", self.base + target)

    def delete(self, target: str = "", **headers: str) -> Response:
        return call("DELETE", self.base + target, headers=headers)

    def post(self, target: str = "", body: Any = None, *, raw: bytes | None = None, **headers: str) -> Response:
        sent = json.dumps(body).encode() if raw is None else raw
        return call("POST", self.base + target, body=sent, headers=headers)

    def put(self, target: str = "", body: Any = None, *, raw: bytes | None = None, **headers: str) -> Response:
        sent = json.dumps(body).encode() if raw is None else raw
        return call("PUT", self.base + target, body=sent, headers=headers)
