"""Requests to the API of event sinks."""

from __future__ import annotations

from typing import Any

from tests.harness.wsgi_client import ApiClient

api = ApiClient("/management/v1/event-sinks")

SIGNING_SECRET = "whsec_" + "A" * 43 + "="
SECRETS = ("Bearer hidden-1", "hidden-2", SIGNING_SECRET)
WEBHOOK: dict[str, Any] = {"type": "webhook", "url": "https://127.0.0.1:9/hook"}
WEBHOOK_WITH_SECRETS = WEBHOOK | {
    "headers": {"Authorization": SECRETS[0]},
    "query": f"key={SECRETS[1]}",
    "signing-secrets": [SECRETS[2]],
}
SECRET_NAMES = ["query", "headers.Authorization", "signing-secrets"]
LOG = {"type": "log"}


def create_sink(name: str = "pipeline", configuration: dict[str, Any] = LOG, **more: Any) -> dict[str, Any]:
    """Create a sink by the API; `more` are further members of the request, with `_` for `-`."""
    members = {key.replace("_", "-"): value for key, value in more.items()}
    response = api.post("", {"name": name, "configuration": configuration, **members})
    assert response.status == 201, response.body
    created: dict[str, Any] = response.json()
    return created


def read_sink(sink: dict[str, Any]) -> dict[str, Any]:
    response = api.get(f"/{sink['id']}")
    assert response.status == 200, response.body
    found: dict[str, Any] = response.json()
    return found
