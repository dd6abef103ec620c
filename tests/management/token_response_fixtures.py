"""Created tokens in responses, and whether a token is accepted."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.harness.wsgi_client import Response
from tests.token_fixtures import TokenClient


def created(response: Response) -> dict[str, Any]:
    assert response.status == 201, response.body
    content: dict[str, Any] = response.json()
    return content


def lifetime(token: dict[str, Any]) -> float:
    start, end = (datetime.fromisoformat(token[name]) for name in ("created-at", "expires-at"))
    return (end - start).total_seconds()


def works(token: str) -> bool:
    response = TokenClient(token).get("/token")
    assert response.status == 200 or response.refused(401, "AuthenticationFailed", "The token was not accepted")
    return response.status == 200
