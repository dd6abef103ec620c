"""Each route checks the recorded permissions, and callers without permissions get an error.

The stories of the OpenAPI documents, which contain every operation, run with an authorizer that records what is
checked. Each request is sent first while all permissions are denied. `tests/route_actions.json` records the status of
that response and the checked permissions; `UPDATE_ROUTE_ACTIONS=1` updates it. A route that checks no permission, or
succeeds although all are denied, must be listed below with a reason.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from management.openapi import documents as openapi
from tenancy.actor import Actor
from tenancy.authz import port
from tests.harness.fingerprint import take_fingerprint
from tests.harness.routes import ROUTES
from tests.harness.wsgi_client import Response
from tests.management.warehouse_request_fixtures import use_settings
from tests.openapi_examples.story import Story

pytestmark = pytest.mark.both_databases

RECORD = Path(__file__).parents[1] / "route_actions.json"

OWN_TOKENS = "tokens of the caller; those of other users need permissions"
OWN_RIGHTS = "every user may read their own permissions"

ASKS_NOTHING = {
    "POST /catalog/v1/oauth/tokens": "the client authenticates with its credential",
    "POST /catalog/v1/aws/s3/sign": "is always rejected: the request names no warehouse",
    "GET /management/v1/info": "every authenticated caller may read the server's version and capabilities",
    "GET /management/v1/icekeeper-info": "as info",
    "GET /management/v1/whoami": "every user may read their own identity",
    "POST /management/v1/bootstrap": "before it no user has permissions; a second one is rejected",
    "GET /management/v1/grants/grantable-privileges": "the vocabulary, the same on every server",
    "GET /management/v1/user/{user_id}": "every authenticated caller may read every user, as in Lakekeeper",
    "POST /management/v1/user": "the user of the caller; adding others needs permissions",
    "GET /management/v1/token": OWN_TOKENS,
    "POST /management/v1/token": OWN_TOKENS,
    "GET /management/v1/token/{token_id}": OWN_TOKENS,
    "DELETE /management/v1/token/{token_id}": OWN_TOKENS,
    "POST /management/v1/token/{token_id}/rotate": OWN_TOKENS,
    "POST /management/v1/warehouse/{warehouse_id}/managed-by": "is for instance admins, a status that no grant gives",
}
"""Routes that check no permission, at least for some callers."""

OTHER_NAMES = {"warehouse-queue-config", "project-queue-config"}
"""Routes that serve former names of queues, in the same views as the documented routes."""

RESPONSES_WITHOUT_RIGHTS = {
    "POST /management/v1/action/batch-check": OWN_RIGHTS,
    "GET /management/v1/server/actions": OWN_RIGHTS,
    "GET /management/v1/project/actions": OWN_RIGHTS,
    "GET /management/v1/user/{user_id}/actions": OWN_RIGHTS,
    "GET /management/v1/server/grants/grantable-privileges": OWN_RIGHTS,
    "GET /management/v1/project/grants/grantable-privileges": OWN_RIGHTS,
    "GET /management/v1/permissions/server/authorizer-actions": OWN_RIGHTS,
    "GET /management/v1/permissions/project/authorizer-actions": OWN_RIGHTS,
    "GET /management/v1/permissions/project/{project_id}/access": OWN_RIGHTS,
    "GET /management/v1/project-list": "lists what the caller may see: nothing",
    "GET /management/v1/role/{role_id}/metadata": "a caller who has a role's id may read its name",
    "POST /management/v1/search/user": "users are visible to every caller; permissions show more members",
}
"""Routes that check permissions but succeed without them. Servers, projects and users are not secret."""


class Recorder(port.Authorizer):
    """Allow or deny everything and record the checked permissions; internal commands do not use it."""

    name = "recorder"

    def __init__(self) -> None:
        self.allows = True
        self.asked: set[str] = set()

    def decide(self, actor: Actor, questions: Sequence[port.PermissionCheck]) -> list[bool]:
        self.asked |= {f"{kind.value}.{action.value}" for action, (kind, _) in questions}
        return [self.allows] * len(questions)

    def visible_ids(self, actor: Actor, **_: Any) -> list[UUID]:
        return []


class AskingStory(Story):
    """Record for every route its response without permissions, and the permissions that it checks."""

    def __init__(self, recorder: Recorder, *about: Any) -> None:
        super().__init__(*about)
        self._recorder = recorder
        self._seen: dict[str, set[str]] = {operation_id: set() for operation_id in self._operations}

    @property
    def responses(self) -> dict[str, list[str]]:
        """Return the records by method and path; empty where no request of the story succeeds."""
        routes = {each: f"{method} {path}" for each, (method, path, _) in self._operations.items()}
        return {routes[operation_id]: sorted(seen) for operation_id, seen in self._seen.items()}

    def _send(self, operation_id: str, parameters: dict[str, Any], body: Any) -> Response:
        without = self._without_rights(lambda: super(AskingStory, self)._send(operation_id, parameters, body))
        self._recorder.asked.clear()
        response = super()._send(operation_id, parameters, body)
        if response.status < 400:
            asked = ", ".join(sorted(self._recorder.asked))
            self._seen[operation_id].add(f"{without.status} without {asked}" if asked else f"{without.status} unasked")
        return response

    def _without_rights(self, send: Callable[[], Response]) -> Response:
        """Send the request while all permissions are denied, and roll back its changes."""
        before, files = take_fingerprint(self.folder), set(self.folder.rglob("*"))
        savepoint = transaction.savepoint()
        self._recorder.allows = False
        with pytest.MonkeyPatch.context() as patch:
            use_settings(patch, instance_admins=[])
            response = send()
        self._recorder.allows = True
        assert response.status < 400 or take_fingerprint(self.folder) == before, response.body
        transaction.savepoint_rollback(savepoint)
        for path in sorted(set(self.folder.rglob("*")) - files, reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        return response


def recorded() -> dict[str, dict[str, list[str]]]:
    """Return the recorded responses without permissions, by API and route."""
    record: dict[str, dict[str, list[str]]] = json.loads(RECORD.read_text())
    return record


@pytest.mark.django_db
@pytest.mark.parametrize("name", openapi.APIS)
def test_routes_check_the_recorded_permissions(name: str, play_story: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr(port, "authorizer", lambda: recorder)
    # Without this bypass the authorizer receives every check; routes for instance admins only use another one.
    monkeypatch.setattr("tenancy.authz.permissions.is_instance_admin", lambda actor: False)
    responses = play_story(name, partial(AskingStory, recorder)).responses
    if os.environ.get("UPDATE_ROUTE_ACTIONS") == "1":
        RECORD.write_text(json.dumps({**recorded(), name: responses}, indent=1, sort_keys=True) + "\n")
    assert responses == recorded()[name]


def test_every_route_is_in_the_record() -> None:
    """Routes outside the APIs are public, with a reason (`tests/management/test_every_route.py`)."""
    prefixes = tuple(api.prefix for api in openapi.APIS.values())
    of_apis = [route for route in ROUTES if route.pattern.startswith(prefixes) and route.name not in OTHER_NAMES]
    routes = {f"{method} {route.template}" for route in of_apis for method in route.methods}
    assert routes == {route for responses in recorded().values() for route in responses}


def test_users_without_permissions_are_denied_except_on_listed_routes() -> None:
    responses = {route: seen for of_api in recorded().values() for route, seen in of_api.items()}
    asks_nothing = {route for route, seen in responses.items() if not seen or any("unasked" in each for each in seen)}
    assert asks_nothing == ASKS_NOTHING.keys(), "routes without permission checks and the listed reasons differ"
    responded = {route for route, seen in responses.items() if any(each.startswith("2") for each in seen)}
    assert responded - asks_nothing == RESPONSES_WITHOUT_RIGHTS.keys(), (
        "routes that allow every caller and the listed reasons differ"
    )
