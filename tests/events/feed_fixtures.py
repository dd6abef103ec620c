"""Reads of the feed of events in this process."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from tenancy.actor import INTERNAL
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import OutboxEvent, OutboxState
from tests.events.event_fixtures import newest_position
from tests.harness.wsgi_client import ApiClient, Response

api = ApiClient("/management/v1/events")
JSON = dict[str, Any]


def publish() -> int:
    """Publish all events within the transaction of a test; return the newest position."""
    OutboxState.objects.filter(pk=1).update(published_through=newest_position())
    return newest_position()


def page(query: str = "", *, client: ApiClient = api, **headers: str) -> JSON:
    """Return a page of the feed."""
    response = client.get(f"?{query}", **headers)
    assert response.status == 200, response.body
    assert response.headers["Content-Type"] == "application/json"
    found: JSON = response.json()
    assert found.keys() == {"events", "next", "has-more"}
    return found


def subjects(query: str = "", *, client: ApiClient = api, **headers: str) -> list[str]:
    """Return the ids of the objects of a page."""
    return [each["subject"] for each in page(query, client=client, **headers)["events"]]


def read_all(query: str = "", *, after: str = "0", client: ApiClient = api) -> list[JSON]:
    """Return the events of all pages."""
    found: list[JSON] = []
    while True:
        read = page(f"after={after}&{query}", client=client)
        found += read["events"]
        after = read["next"]
        if not read["has-more"]:
            return found


def create_role(subject: str, *, project: str | None = None, warehouse: UUID | None = None) -> None:
    with change(INTERNAL) as tx:
        tx.record(Change.ROLE_CREATED, subject=subject, project=project, warehouse=warehouse)


def delete_through(position: int) -> None:
    """Delete events as retention does."""
    OutboxEvent.objects.filter(position__lte=position).delete()
    OutboxState.objects.update(deleted_through=position)


def messages(response: Response) -> list[dict[str, str]]:
    """Return the messages of a stream: their fields by name; comments have an empty name."""
    blocks = [each.split("\n") for each in response.body.decode().split("\n\n") if each]
    return [{line.partition(":")[0]: line.partition(":")[2].strip() for line in block} for block in blocks]


def event_of(message: dict[str, str]) -> JSON:
    found: JSON = json.loads(message["data"])
    assert (message["id"], message["event"]) == (found["position"], found["type"])
    return found
