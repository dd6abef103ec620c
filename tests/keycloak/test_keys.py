"""Key rotation, and an unavailable Keycloak, while the catalog serves requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from storage.models import Warehouse
from tenancy.authn.requests import verified_tokens
from tests.harness.wsgi_client import Response, call
from tests.identity_fixtures import believing, provider_settings
from tests.parts.keycloak import Keycloak

pytestmark = pytest.mark.django_db

REALM = "turning"


@pytest.fixture(scope="module")
def turning(keycloak: Keycloak) -> str:
    """A realm of this module, whose keys may change."""
    keycloak.create_realm(REALM)
    return REALM


@pytest.fixture(autouse=True)
def _only_that_realm_counts(keycloak: Keycloak, turning: str, warehouse: Warehouse) -> Iterator[None]:
    with believing(provider_settings(keycloak, turning)):
        yield


@pytest.fixture
def alice(keycloak: Keycloak, turning: str) -> str:
    return keycloak.sign_in("alice", realm=turning)


def ask(warehouse: Warehouse, token: str) -> Response:
    return call("GET", f"/catalog/v1/{warehouse.pk}/namespaces", headers={"authorization": f"Bearer {token}"})


def test_keys_change_while_the_catalog_runs(keycloak: Keycloak, turning: str, warehouse: Warehouse, alice: str) -> None:
    of_old_key = keycloak.sign_in("bob", realm=turning)
    assert ask(warehouse, alice).status == 200
    newest = keycloak.add_key(200, turning)
    of_new_key = keycloak.sign_in("alice", realm=turning)
    assert ask(warehouse, of_new_key).status == 200
    assert ask(warehouse, of_old_key).status == 200
    keycloak.remove_other_keys(newest, turning)
    # The old key no longer exists, which the catalog notices when it fetches the keys again: an unknown key causes
    # that.
    keycloak.add_key(300, turning)
    assert ask(warehouse, keycloak.sign_in("alice", realm=turning)).status == 200
    assert ask(warehouse, of_new_key).status == 200
    verified_tokens.clear()
    for token in (alice, of_old_key):
        assert ask(warehouse, token).refused(401, "AuthenticationFailed")
    assert ask(warehouse, of_new_key).status == 200


def test_tokens_with_cached_keys_are_accepted_without_keycloak(
    keycloak: Keycloak, turning: str, warehouse: Warehouse, alice: str
) -> None:
    assert ask(warehouse, alice).status == 200
    not_seen_yet = keycloak.sign_in("bob", realm=turning)
    keycloak.add_key(1000, turning)
    of_unknown_key = keycloak.sign_in("alice", realm=turning)
    with keycloak.relay.refusing():
        assert ask(warehouse, alice).status == 200
        assert ask(warehouse, not_seen_yet).status == 200
        response = ask(warehouse, of_unknown_key)
        assert response.refused(503, "IdentityProviderUnavailable")
        assert int(response.headers["Retry-After"]) > 0
        assert "127.0.0.1" not in response.error["message"]
        verified_tokens.clear()
        assert ask(warehouse, alice).status == 200
        assert ask(warehouse, "garbage").refused(401, "AuthenticationFailed")
    assert ask(warehouse, of_unknown_key).status == 200


def test_a_keycloak_that_was_never_there_leaves_every_token_unknown(
    keycloak: Keycloak, warehouse: Warehouse, alice: str
) -> None:
    with keycloak.relay.refusing():
        assert ask(warehouse, alice).refused(503, "IdentityProviderUnavailable")
    assert ask(warehouse, alice).status == 200


def test_a_silent_keycloak_holds_up_only_those_whose_keys_are_unknown(
    keycloak: Keycloak, turning: str, warehouse: Warehouse, alice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = {"ICEKEEPER__AUTHENTICATION__TIMEOUT": "1s"}
    with believing(provider_settings(keycloak, turning) | impatient):
        assert ask(warehouse, alice).status == 200
        keycloak.add_key(2000, turning)
        of_unknown_key = keycloak.sign_in("alice", realm=turning)
        with keycloak.relay.silent():
            assert ask(warehouse, of_unknown_key).refused(503, "IdentityProviderUnavailable")
            assert ask(warehouse, alice).status == 200
        assert ask(warehouse, of_unknown_key).status == 200
