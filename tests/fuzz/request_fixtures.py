"""Generated cases, sent as requests in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import requests
from schemathesis import Case
from schemathesis.core import NOT_SET

from tests.fuzz.object_id_fixtures import CALLER
from tests.fuzz.target_fixtures import Aim
from tests.harness.wsgi_client import Response, call

HOST = "http://testserver"
OWN_HEADERS = {"Content-Length", "Content-Type", "Accept-Encoding", "Authorization"}
"""Headers that the test client sets itself, and those that would change the encoding of the response."""
JSON = "application/json"


@dataclass(frozen=True)
class Exchange:
    """The request that was sent for `case`, and the response.

    `path` is the operation's, with its parameters in braces.
    """

    case: Case
    method: str
    path: str
    prepared: requests.PreparedRequest
    response: Response

    def __str__(self) -> str:
        body = self.prepared.body or b""
        text = body.decode(errors="backslashreplace") if isinstance(body, bytes) else str(body)
        response = self.response.body.decode(errors="backslashreplace")
        return f"{self.method} {self.prepared.url}\n{text[:3000]}\n-> {self.response.status} {response[:3000]}"


def send(case: Case, aim: Aim) -> Exchange:
    """Send `case`, with values of existing objects unless `aim` keeps the generated ones."""
    base = case.operation.schema.base_path.rstrip("/")
    given: dict[str, Any] = case.as_transport_kwargs(base_url=HOST + base)
    if aim.hits:
        path = case.path
        for name, value in aim.path(case.path, case.path_parameters or {}).items():
            path = path.replace(f"{{{name}}}", quote(str(value), safe="").replace(".", "%2E"))
        given["url"] = f"{HOST}{base}{path}"
        given["params"] = aim.query(given.get("params") or {})
        if isinstance(given.get("data"), dict):  # a form
            given["data"] = aim.body(given["data"])
        if case.body is not NOT_SET and "json" in given:
            given["json"] = aim.body(given["json"], kind="view" if "view" in case.path else "table")
    prepared = requests.Request(**given).prepare()
    target = urlsplit(prepared.url or "")._replace(scheme="", netloc="").geturl()
    body = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body or b""
    headers = {name: _latin(value) for name, value in prepared.headers.items() if name not in OWN_HEADERS}
    headers = (aim.headers(headers) if aim.hits else headers) | {"Authorization": f"Bearer {CALLER}"}
    content_type = _latin(prepared.headers.get("Content-Type", JSON))
    response = call(case.method, target, body=body, headers=headers, content_type=content_type)
    return Exchange(case, case.method, base + case.path, prepared, response)


def _latin(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
