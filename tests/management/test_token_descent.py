"""Tokens created with other tokens: their lifetime, that of their replacements, and the maximum per user."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from icekeeper.kernel.clock import now
from tenancy.actor import INTERNAL
from tenancy.authn.own_tokens.stored_tokens import read_token
from tenancy.models import AccessToken
from tenancy.services import access_tokens as service
from tenancy.services.access_tokens import rotate_token
from tenancy.services.users import create_service_account
from tests.token_fixtures import TokenClient, new_token

pytestmark = pytest.mark.django_db


def created(client: TokenClient, target: str = "/token", **body: Any) -> dict[str, Any]:
    response = client.post(target, body if "rotate" in target else {"name": "t", **body})
    assert response.status == 201, response.body
    token: dict[str, Any] = response.json()
    return token


def rotated(token: dict[str, Any], by: TokenClient | None = None, **body: Any) -> dict[str, Any]:
    """The token's replacement, or another token that it creates."""
    return created(by or TokenClient(token["token"]), f"/token/{token['id']}/rotate", **body)


def id_of(client: TokenClient) -> UUID:
    text = read_token(client.token)
    assert text is not None
    return text.token_id


def test_objects_created_with_a_token_do_not_outlive_it_by_rotation(access_tokens: None) -> None:
    end = now() + timedelta(seconds=60)
    first = TokenClient(new_token(expires_at=end))
    child = created(first)
    for _ in range(3):
        assert (child["expires-at"], child["not-after"]) == (end.isoformat(), end.isoformat())
        child = rotated(child)
    assert TokenClient(first.token).delete(f"/token/{id_of(first)}").status == 204
    child = rotated(child, **{"overlap-seconds": 0})
    assert child["expires-at"] == end.isoformat()
    grandchild = created(TokenClient(child["token"]))
    assert rotated(grandchild)["expires-at"] == end.isoformat()


def test_no_other_user_extends_its_lifetime(alice: TokenClient) -> None:
    end = now() + timedelta(seconds=60)
    child = created(TokenClient(new_token(expires_at=end)))
    child = rotated(child, by=alice)
    assert child["expires-at"] == end.isoformat()
    assert rotate_token(actor=INTERNAL, token_id=UUID(child["id"])).row.expires_at == end


def test_of_two_ends_the_earlier_one_counts(access_tokens: None) -> None:
    later, sooner = now() + timedelta(hours=2), now() + timedelta(hours=1)
    child = created(TokenClient(new_token(expires_at=later)))
    child = rotated(child, by=TokenClient(new_token(expires_at=sooner)))
    assert (child["expires-at"], child["not-after"]) == (sooner.isoformat(), sooner.isoformat())
    assert rotated(child)["expires-at"] == sooner.isoformat()


def test_a_service_account_outlives_its_creator(access_tokens: None) -> None:
    robot = create_service_account(actor=INTERNAL, name="robot").user_id
    admin = TokenClient(new_token(expires_in=30))
    secret = created(admin, **{"user-id": robot, "expires-in-seconds": 86_400})
    assert (secret["not-after"], secret["created-with"]) == (None, str(id_of(admin)))


def test_a_replaced_token_takes_no_slot(
    alice: TokenClient, monkeypatch: pytest.MonkeyPatch, access_tokens: None
) -> None:
    robot = create_service_account(actor=INTERNAL, name="robot").user_id
    monkeypatch.setattr(service, "MAX_LIVE_TOKENS", 2)
    one, _ = (created(alice, **{"user-id": robot}) for _ in range(2))
    one = rotated(one, by=alice, **{"overlap-seconds": 0})
    assert AccessToken.objects.filter(user_id=robot, expires_at__gt=now()).count() == 2
    one = rotated(one, by=alice, **{"overlap-seconds": 3600})
    response = alice.post(f"/token/{one['id']}/rotate", {})
    assert response.refused(409, "TooManyAccessTokens"), "the replaced token stays valid, so it counts"
    assert AccessToken.objects.get(pk=one["id"]).replaced_by_id is None
    assert alice.post("/token", {"name": "t", "user-id": robot}).refused(409, "TooManyAccessTokens", robot)
