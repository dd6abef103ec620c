"""Builders of batch check requests, and readers of their responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catalog.models import Tabular
from tests.harness.wsgi_client import Response

CHECK = "/management/v1/action/batch-check"
WITH_ERRORS = {"x-icekeeper-extensions": "true"}
Check = dict[str, Any]
Ask = Callable[..., Response]
"""`(name, *checks, **more)`: the response to the checks of the user `name`; `more` are members of the document."""


def on_table(table: Tabular, action: str = "read_data", **more: Any) -> Check:
    return {"operation": {"table": {"action": {"action": action}, **more, **by_id(table)}}}


def by_id(table: Tabular) -> dict[str, str]:
    return {"warehouse-id": str(table.warehouse_id), "table-id": str(table.uuid)}


def of(identity: Any, check: Check) -> Check:
    return {"identity": identity, **check}


def reported(response: Response) -> list[Any]:
    """Return the verdicts; for a check that failed, the type of the error."""
    assert response.status == 200, response.body
    results = response.json()["results"]
    for result in results:
        assert set(result) - {"error"} == {"id", "allowed"}
        if "error" in result:
            assert set(result["error"]) == {"message", "type", "code"}
            assert result["allowed"] is False
    return [result["error"]["type"] if "error" in result else result["allowed"] for result in results]
