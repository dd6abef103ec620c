"""Storage profiles of each type, callers and authorizers for tests of warehouses."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from pydantic import SecretStr

from tenancy.actor import Actor, Identity
from tenancy.authz import port
from tenancy.authz.actions import SEEN_BY, Can
from tests.harness.wsgi_client import ApiClient, Response

S3: dict[str, Any] = {"type": "s3", "bucket": "my-bucket", "key-prefix": "wh", "region": "eu-1", "sts-enabled": False}
KEY: dict[str, Any] = {
    "type": "s3", "credential-type": "access-key", "access-key-id": "an-id", "secret-access-key": "a-secret",
}  # fmt: skip
NO_ONE = "0198e0f4-3f6e-7c31-8c7d-000000000000"


def post_warehouse(name: str = "s3", **more: Any) -> Response:
    """Send the request to create a warehouse on S3; `more` are further or other members of its body."""
    return ApiClient("/management/v1").post("/warehouse", {"warehouse-name": name, "storage-profile": S3, **more})


def use_settings(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update=changed))


def keep_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    use_settings(monkeypatch, pg_encryption_key=SecretStr("a long random text"))


def call_as(monkeypatch: pytest.MonkeyPatch, user_id: str, *, assumed_role: UUID | None = None) -> Actor:
    """Send every further request of the test as this user."""
    identity = Identity(user_id, user_id.partition("~")[0], "human", name="Alice", email="alice@example.com")
    actor = Actor(user_id=user_id, identity=identity, assumed_role=assumed_role)
    monkeypatch.setattr("management.api.base.authenticate_request", lambda request, *, is_reading: actor)
    return actor


class Refusing(port.AllowAll):
    """Deny everything except `granted`, and record the checked actions: object type and object.

    Checks that only distinguish hidden from forbidden are not recorded.
    """

    def __init__(self, *granted: Can) -> None:
        self.granted = granted
        self.asked: list[tuple[Can, str]] = []
        self.asked_of: list[tuple[Can, str]] = []

    def decide(self, actor: Actor, questions: Sequence[port.PermissionCheck]) -> list[bool]:
        first, *more = dict.fromkeys(questions)
        kept = [first, *((action, ref) for action, ref in more if action != SEEN_BY.get(ref[0]))]
        self.asked += [(action, str(kind.value)) for action, (kind, _) in kept]
        self.asked_of += [(action, f"{kind.value}:{object_id}") for action, (kind, object_id) in kept]
        return [action in self.granted for action, _ in questions]

    def visible_ids(self, actor: Actor, **_: Any) -> list[UUID]:
        return []


class Choosing(port.AllowAll):
    """Allow everything except `refused`; lists are filtered, and objects in `hidden` are denied.

    `batches` has the number of objects of each check for a list.
    """

    def __init__(self, hidden: Container[str]) -> None:
        self.hidden = hidden
        self.refused: list[Can] = []
        self.batches: list[int] = []

    def decide(self, actor: Actor, questions: Sequence[port.PermissionCheck]) -> list[bool]:
        in_list = sum(action == Can.INCLUDE_IN_LIST for action, _ in questions)
        if in_list:
            self.batches.append(in_list)
        no = {Can.LIST_EVERYTHING, *self.refused}
        return [action not in no and str(object_id) not in self.hidden for action, (_, object_id) in questions]


def choose(monkeypatch: pytest.MonkeyPatch, hidden: Container[str]) -> Choosing:
    """Deny everything on the objects with these ids from now on, and filter lists for every user."""
    choosing = Choosing(hidden)
    monkeypatch.setattr("tenancy.authz.port.authorizer", lambda: choosing)
    return choosing


def refuse(monkeypatch: pytest.MonkeyPatch, *granted: Can) -> Refusing:
    """Deny everything except `granted` from now on; objects are hidden unless a granted permission shows them."""
    refusing = Refusing(*granted)
    monkeypatch.setattr("tenancy.authz.port.authorizer", lambda: refusing)
    return refusing


def forbid(monkeypatch: pytest.MonkeyPatch, *granted: Can) -> Refusing:
    """As `refuse`, but every user sees every object."""
    return refuse(monkeypatch, *SEEING, *granted)


SEEING = (Can.USE, Can.GET_METADATA, Can.READ)


def reported(failure: Response, named: object) -> tuple[int, str, str]:
    """Return an error without the name of its object: the errors for hidden and for missing objects must be equal."""
    error = failure.error
    assert str(named) in error["message"], error
    return failure.status, error["type"], error["message"].replace(str(named), "...")
