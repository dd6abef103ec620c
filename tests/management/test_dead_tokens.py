"""An access token stays cached for some seconds after its end, but does not restore a deleted user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from icekeeper.kernel.clock import now
from tenancy.actor import Actor, AuthenticationFailed, Identity
from tenancy.models import AccessToken, Grant, Server, User
from tenancy.services.registration import register_principal, registered_users
from tenancy.services.server import bootstrap
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import Response
from tests.token_fixtures import TokenClient, new_token

pytestmark = pytest.mark.django_db

ALICE = "local~alice"
INVALID = ["deleted", "deleted and revoked", "revoked", "expired", "purged"]
"""What another node did to the token or its user; this one has not read it yet."""


@pytest.fixture
def alice(access_tokens: None, bootstrapped: None) -> TokenClient:
    return TokenClient(new_token(scopes=["catalog", "management"]))


def end(how: str) -> None:
    if "deleted" in how:
        User.objects.filter(pk=ALICE).update(deleted_at=now())
    if "revoked" in how:
        AccessToken.objects.filter(user_id=ALICE).update(revoked_at=now())
    if how == "expired":
        AccessToken.objects.filter(user_id=ALICE).update(expires_at=now())
    if how == "purged":
        AccessToken.objects.filter(user_id=ALICE).delete()


def config(alice: TokenClient) -> Response:
    registered_users.clear()
    return TokenClient(alice.token, "/catalog/v1").get("/config?warehouse=missing")


CALLS: dict[str, Callable[[TokenClient], Response]] = {
    "config": config,
    "register": lambda alice: alice.post("/user", {}),
    "register by id": lambda alice: alice.post("/user", {"id": ALICE}),
    "update": lambda alice: alice.post("/user", {"name": "Back", "update-if-exists": True}),
    "create a project": lambda alice: alice.post("/project", {"project-name": "mine"}),
}


@pytest.mark.parametrize("how", INVALID)
@pytest.mark.parametrize("call", [name for name in CALLS if name != "config"])
def test_an_expired_token_registers_no_user(
    alice: TokenClient, everything: Callable[[], Fingerprint], call: str, how: str
) -> None:
    assert alice.get("/whoami").status == 200
    end(how)
    before = everything()
    assert CALLS[call](alice).refused(401, "AuthenticationFailed")
    assert everything() == before


@pytest.mark.parametrize("how", ["deleted", "deleted and revoked"])
def test_the_first_call_of_a_client_restores_no_user(
    alice: TokenClient, everything: Callable[[], Fingerprint], how: str
) -> None:
    assert alice.get("/whoami").status == 200
    end(how)
    before = everything()
    assert config(alice).refused(401, "AuthenticationFailed")
    assert everything() == before


def test_a_live_token_may_do_all_that(alice: TokenClient) -> None:
    statuses = {name: call(alice).status for name, call in CALLS.items()}
    assert statuses == {
        "config": 404, "register": 409, "register by id": 409, "update": 200, "create a project": 201,
    }  # fmt: skip
    assert User.objects.get(pk=ALICE).name == "Back"
    assert Grant.objects.filter(user_id=ALICE).exists()


def identity() -> Identity:
    return Identity(ALICE, "local", "human", "Alice", access_token_id=AccessToken.objects.get().pk)


@pytest.mark.usefixtures("access_tokens")
@pytest.mark.parametrize("how", INVALID)
def test_a_dead_token_does_not_bootstrap(everything: Callable[[], Fingerprint], how: str) -> None:
    new_token()
    actor = Actor(ALICE, identity=identity())
    end(how)
    before = everything()
    with pytest.raises(AuthenticationFailed):
        bootstrap(actor=actor, accept_terms_of_use=True)
    assert everything() == before
    assert not Server.objects.filter(bootstrapped_at__isnull=False).exists()


@pytest.mark.usefixtures("access_tokens")
def test_a_token_never_creates_a_user() -> None:
    new_token()
    own: dict[str, Any] = {"provider_id": "local", "user_type": "human", "access_token_id": identity().access_token_id}
    actor = Actor("local~bob", identity=Identity(user_id="local~bob", **own))
    with pytest.raises(AuthenticationFailed):
        register_principal(actor=actor)
    assert not User.objects.filter(pk="local~bob").exists()
