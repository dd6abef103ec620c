"""Rotation of access tokens: overlap, lifetime and scopes of the new token."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from icekeeper.kernel.clock import now
from tenancy.actor import INTERNAL
from tenancy.authn.own_tokens.access_tokens import create_session_token
from tenancy.authn.own_tokens.stored_tokens import find_live_token, read_token
from tenancy.authn.requests import identify
from tenancy.models import AccessToken
from tenancy.services.users import create_service_account
from tests.harness.fingerprint import Fingerprint
from tests.management.token_response_fixtures import created, lifetime, works
from tests.token_fixtures import TokenClient, new_token

pytestmark = pytest.mark.django_db


@pytest.fixture
def robot(access_tokens: None) -> str:
    """The user id of a service account."""
    return create_service_account(actor=INTERNAL, name="robot").user_id


def test_rotation_lets_both_work_for_a_while(alice: TokenClient, robot: str) -> None:
    wish = {"name": "spark", "user-id": robot, "scopes": ["catalog:read"], "expires-in-seconds": 86_400}
    old = created(alice.post("/token", wish))
    new = created(alice.post(f"/token/{old['id']}/rotate", {"overlap-seconds": 600}))
    assert {name: new[name] for name in ("name", "user-id", "scopes")} == {
        "name": "spark", "user-id": robot, "scopes": ["catalog:read"],
    }  # fmt: skip
    assert new["id"] != old["id"]
    assert lifetime(new) == 86_400
    reported = alice.get(f"/token/{old['id']}").json()
    assert (reported["status"], reported["replaced-by"]) == ("replaced", new["id"])
    end = datetime.fromisoformat(reported["expires-at"])
    assert end - datetime.fromisoformat(new["created-at"]) == timedelta(seconds=600)
    for token in (old, new):
        assert identify(token["token"]).user_id == robot
    AccessToken.objects.filter(pk=old["id"]).update(expires_at=now())
    alice.post(f"/token/{new['id']}/rotate", {"overlap-seconds": 0})
    for token in (old, new):
        assert not works(token["token"])


def test_rotation_without_overlap_ends_the_old_token_at_once(alice: TokenClient) -> None:
    old = created(alice.post("/token", {"name": "t"}))
    assert works(old["token"])
    new = created(alice.post(f"/token/{old['id']}/rotate", {"overlap-seconds": 0}))
    assert not works(old["token"])
    assert works(new["token"])


def test_the_usual_overlap_is_an_hour_and_never_longer_than_the_old_life(alice: TokenClient, robot: str) -> None:
    for seconds, overlap in ((86_400, 3600), (60, 60)):
        old = created(alice.post("/token", {"name": "t", "user-id": robot, "expires-in-seconds": seconds}))
        new = created(alice.post(f"/token/{old['id']}/rotate", {}))
        end = datetime.fromisoformat(alice.get(f"/token/{old['id']}").json()["expires-at"])
        assert (end - datetime.fromisoformat(new["created-at"])).total_seconds() == pytest.approx(overlap, abs=5)


def test_a_token_rotates_itself_for_its_whole_lifetime(access_tokens: None) -> None:
    text = new_token(expires_in=1000)
    own = read_token(text)
    assert own is not None
    AccessToken.objects.update(created_at=now() - timedelta(seconds=900), expires_at=now() + timedelta(seconds=100))
    client = TokenClient(text)
    assert lifetime(created(client.post("/token", {"name": "other"}))) <= 100
    new = created(client.post(f"/token/{own.token_id}/rotate", {}))
    assert lifetime(new) == pytest.approx(1000, abs=1)
    assert new["not-after"] is None


def test_rotation_with_another_token_cannot_grant_more_than_that_token_has(access_tokens: None) -> None:
    wide = read_token(new_token(expires_in=86_400))
    assert wide is not None
    end = now() + timedelta(hours=1)
    short = TokenClient(new_token(expires_at=end))
    narrow = TokenClient(new_token(scopes=["management"]))
    assert narrow.post(f"/token/{wide.token_id}/rotate", {}).refused(403, "InsufficientScope")
    assert created(short.post(f"/token/{wide.token_id}/rotate", {}))["expires-at"] == end.isoformat()


def test_a_token_is_rotated_once_while_it_lives(alice: TokenClient, everything: Callable[[], Fingerprint]) -> None:
    rotated, revoked, expired = (created(alice.post("/token", {"name": "t"}))["id"] for _ in range(3))
    created(alice.post(f"/token/{rotated}/rotate", {}))
    alice.delete(f"/token/{revoked}")
    AccessToken.objects.filter(pk=expired).update(expires_at=now())
    before = everything()
    for token_id in (rotated, revoked, expired):
        assert alice.post(f"/token/{token_id}/rotate", {}).refused(409, "AccessTokenEnded")
    for overlap in (-1, 7 * 86_400 + 1, 1.5, "60", True, [1]):
        assert alice.post(f"/token/{expired}/rotate", {"overlap-seconds": overlap}).refused(400, "BadRequestException")
    assert everything() == before


def test_a_short_lived_token_cannot_create_or_rotate_tokens(
    alice: TokenClient, robot: str, everything: Callable[[], Fingerprint]
) -> None:
    """A stolen short-lived token stays short-lived."""
    own = read_token(alice.token)
    assert own is not None
    other = created(alice.post("/token", {"name": "other", "expires-in-seconds": 60}))["id"]
    of_robot = created(alice.post("/token", {"name": "spark", "user-id": robot}))["id"]
    text, _ = create_session_token(find_live_token(own.token_id), frozenset({"catalog", "management"}))
    stolen = TokenClient(text)
    before = everything()
    for target, body in (
        ("/token", {"name": "t"}),
        ("/token", {"name": "t", "expires-in-seconds": 1}),
        ("/token", {"name": "t", "user-id": robot}),
        (f"/token/{own.token_id}/rotate", {"overlap-seconds": 0}),
        (f"/token/{other}/rotate", {}),
        (f"/token/{of_robot}/rotate", {}),
    ):
        assert stolen.post(target, body).refused(403, "ForbiddenException", "short-lived")
    assert everything() == before
    assert stolen.get("/token").status == 200
    assert stolen.delete(f"/token/{other}").status == 204
    assert works(alice.token)
