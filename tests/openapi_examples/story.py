"""Stories: sequences of requests to the real application, recorded with their responses as examples."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from management.openapi.examples import Exchanges
from tests.harness.openapi_documents import built_document
from tests.harness.wsgi_client import Response, call
from tests.openapi_examples.stand_ins import STORY_BEGINS_MS, StandIns

FORM = "application/x-www-form-urlencoded"


class Clock:
    """A clock that changes only when the story sets it."""

    def __init__(self) -> None:
        self.at = datetime.fromtimestamp(STORY_BEGINS_MS / 1000, UTC)

    def later(self, **passed: float) -> None:
        self.at += timedelta(**passed)

    def now(self, zone: Any) -> datetime:
        return self.at.astimezone(zone)

    def time(self) -> float:
        return self.at.timestamp()

    def time_ns(self) -> int:
        return int(self.at.timestamp()) * 1_000_000_000


class Story:
    """Send requests of the user of `token` to the operations in the document `name`."""

    def __init__(self, name: str, token: str, folder: Path, clock: Clock) -> None:
        self.exchanges: Exchanges = {}
        self.folder, self.clock = folder, clock
        self._token, self._stand_ins = token, StandIns(folder)
        self._operations = {
            operation["operationId"]: (method.upper(), path, operation)
            for path, item in built_document(name).content["paths"].items()
            for method, operation in item.items()
        }

    def send(
        self,
        operation_id: str,
        parameters: dict[str, Any] | None = None,
        body: Any = None,
        *,
        summary: str | None = None,
        refused: int | None = None,
    ) -> Any:
        """Send one request that succeeds (or fails if `refused`), record the exchange, and return the response body."""
        parameters = parameters or {}
        response = self._send(operation_id, parameters, body)
        assert response.status == refused or (refused is None and response.status < 400), (operation_id, response.body)
        received = response.json() if response.body else None
        exchange: dict[str, Any] = {
            "summary": summary,
            "parameters": parameters,
            "request": body,
            "status": response.status,
            "response": received,
        }
        own = self.exchanges.setdefault(operation_id, [])
        path = f"{operation_id}/{len(own)}"
        own.append({key: self._stand_ins.instead_of(value, f"{path}/{key}") for key, value in exchange.items()})
        return received

    def call(self, method: str, target: str, body: Any = None) -> Any:
        """Send a request without recording it."""
        data = b"" if body is None else json.dumps(body).encode()
        response = call(method, target, body=data, headers=self._headers)
        assert response.status < 400, response.body
        return response.json() if response.body else None

    @property
    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._token}"}

    def _send(self, operation_id: str, parameters: dict[str, Any], body: Any) -> Response:
        method, target, operation = self._operations[operation_id]
        headers, query, unused = self._headers, [], dict(parameters)
        for name, part in [(each["name"], each["in"]) for each in operation.get("parameters", [])]:
            if name not in unused:
                continue
            given = unused.pop(name)
            if part == "path":
                target = target.replace(f"{{{name}}}", quote(_text(given), safe=""))
            elif part == "header":
                headers[name] = _text(given)
            else:
                query += [(name, _text(each)) for each in (given if isinstance(given, list) else [given])]
        assert not unused, f"{operation_id} has no parameters {sorted(unused)}"
        content_type = next(iter(operation.get("requestBody", {}).get("content", ["application/json"])))
        data = b"" if body is None else urlencode(body) if content_type == FORM else json.dumps(body)
        data = data.encode() if isinstance(data, str) else data
        return call(
            method,
            target + ("?" + urlencode(query) if query else ""),
            body=data,
            headers=headers,
            content_type=content_type,
        )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
