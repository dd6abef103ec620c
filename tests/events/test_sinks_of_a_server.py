"""A server with its worker and a webhook: what the API says about a sink is what the receiver sees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.harness.run_environment import RunEnvironment
from tests.parts.server import CatalogServer
from tests.parts.webhook_receiver import Received, Response, WebhookReceiver
from tests.workers.wait_fixtures import until

pytestmark = pytest.mark.both_databases

ROLES = ["createRole", "updateRole"]


@pytest.fixture
def server(run_environment: RunEnvironment, tmp_path: Path) -> Iterator[CatalogServer]:
    with CatalogServer(tmp_path, database_url=run_environment.own_database("sinks")) as server:
        yield server


class Receiver:
    """The names of the roles of the events that a webhook accepted, in their order."""

    def __init__(self, webhook: WebhookReceiver) -> None:
        self.webhook, self.rejected = webhook, ""
        webhook.respond = self._respond

    @property
    def url(self) -> str:
        return self.webhook.url

    @property
    def positions(self) -> list[int]:
        return [int(_event(each)["position"]) for each in self._accepted()]

    @property
    def names(self) -> list[str]:
        return [_event(each)["name"] for each in self._accepted()]

    def _accepted(self) -> list[Received]:
        return [each for each in self.webhook.received if self._respond(each).status == 204]

    def _respond(self, request: Received) -> Response:
        return Response(status=422 if _event(request).get("name") == self.rejected else 204)


def _event(request: Received) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(request.body)
    return event


class Sink:
    """A sink of a server, by its API."""

    def __init__(self, server: CatalogServer, body: dict[str, Any]) -> None:
        self._base = f"{server.base_url}/management/v1"
        self._path = f"/event-sinks/{self._call('POST', '/event-sinks', body)['id']}"

    def create_roles(self, *names: str) -> None:
        for name in names:
            self._call("POST", "/role", {"name": name})

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = self._call("GET", self._path)
        return found

    def send(self, action: str, body: dict[str, Any] | None = None) -> Any:
        return self._call("POST", f"{self._path}/{action}", body or {})

    def put(self, **changed: Any) -> None:
        self._call("PUT", self._path, self.read() | changed)

    def delete(self) -> None:
        self._call("DELETE", self._path)

    def letters(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._call("GET", f"{self._path}/dead-letters")["dead-letters"]
        return found

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        response = requests.request(method, self._base + path, json=body, timeout=30)
        assert response.ok, response.text
        return response.json() if response.content else None


def test_deliveries_follow_the_api(server: CatalogServer) -> None:
    with WebhookReceiver() as first, WebhookReceiver() as second:
        one, other = Receiver(first), Receiver(second)
        configuration = {"type": "webhook", "url": one.url, "concurrency": 1}
        sink = Sink(server, {"name": "roles", "configuration": configuration, "filter": {"types": ROLES}})

        sink.create_roles("a", "b", "c")
        until(lambda: one.names == ["a", "b", "c"])
        until(lambda: sink.read()["delivery"]["status"] == "up-to-date")
        assert sink.read()["delivery"]["delivered"] == 3

        sink.send("pause")
        sink.create_roles("d")
        assert sink.read()["delivery"]["status"] == "paused"
        sink.send("test")
        assert (_event(first.received[-1])["type"], len(first.received)) == ("testEventSink", 4)
        first.received.pop()
        sink.send("resume")
        until(lambda: one.names == ["a", "b", "c", "d"])

        positions = one.positions
        assert sink.send("replay", {"position": positions[1]}) == {"position": positions[1]}
        until(lambda: one.names == ["a", "b", "c", "d", "c", "d"])
        assert one.positions == [*positions, *positions[2:]]

        sink.put(configuration=configuration | {"url": other.url})
        sink.create_roles("e", "f")
        until(lambda: other.names == ["e", "f"])

        other.rejected = "g"
        sink.create_roles("g", "h")
        until(lambda: other.names == ["e", "f", "h"])
        until(sink.letters)
        (letter,) = sink.letters()
        assert letter["error"] == "the webhook responded with status 422"
        other.rejected = ""
        second.received.clear()
        assert sink.send("dead-letters/redeliver", {"positions": [letter["position"]]}) == {"count": 1}
        until(lambda: other.names == ["g"])
        until(lambda: sink.letters() == [])

        status = server.manage("events", "status", "roles").splitlines()
        assert status[1].split()[:3] == ["roles", "webhook", "up-to-date"]
        sink.delete()
        assert server.manage("events", "status") == "There are no event sinks.\n"
        requests.post(f"{server.base_url}/management/v1/role", json={"name": "i"}, timeout=30)
        assert (len(one.names), other.names) == (6, ["g"])
