"""Users and service accounts of a real Keycloak: their identities, and the tokens that are rejected."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from storage.models import Warehouse
from tenancy.authn.requests import identify
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import Response, call
from tests.identity_fixtures import PARTNER
from tests.parts.keycloak import Keycloak

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("warehouse", "authentication")]


def claims_of(token: str) -> dict[str, Any]:
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "==="))
    return claims


def ask(target: str, token: str) -> Response:
    return call("GET", target, headers={"authorization": f"Bearer {token}"})


def namespaces(warehouse: Warehouse, token: str) -> Response:
    return ask(f"/catalog/v1/{warehouse.pk}/namespaces", token)


def test_a_user_signs_in_by_password_and_is_registered(keycloak: Keycloak, warehouse: Warehouse) -> None:
    token = keycloak.sign_in("alice")
    assert ask(f"/catalog/v1/config?warehouse={warehouse.name}", token).status == 200
    known = ask("/management/v1/whoami", token)
    assert known.status == 200, known.body
    user = known.json()
    assert user["id"] == f"oidc~{claims_of(token)['sub']}"
    assert (user["name"], user["email"], user["user-type"]) == ("Alice Archer", "alice@example.com", "human")
    assert user["last-updated-with"] == "config-call-creation"


def test_a_program_is_known_by_its_credential(keycloak: Keycloak, warehouse: Warehouse) -> None:
    token = keycloak.credential_token("spark")
    assert ask(f"/catalog/v1/config?warehouse={warehouse.name}", token).status == 200
    program = ask("/management/v1/whoami", token).json()
    assert program["id"] == f"oidc~{claims_of(token)['sub']}"
    assert (program["name"], program["user-type"]) == ("service-account-spark", "application")


def test_the_same_subject_is_another_user_in_another_realm(keycloak: Keycloak) -> None:
    here, there = identify(keycloak.sign_in("alice")), identify(keycloak.sign_in("alice", realm=PARTNER))
    assert (here.provider_id, there.provider_id) == ("oidc", PARTNER)
    assert here.user_id.startswith("oidc~")
    assert there.user_id.startswith(f"{PARTNER}~")
    assert here.name == there.name == "Alice Archer"


def test_roles_are_what_the_claim_of_the_realm_says(keycloak: Keycloak) -> None:
    assert set(identify(keycloak.sign_in("alice")).roles) == {"analyst", "engineer"}
    assert identify(keycloak.sign_in("bob")).roles == ("analyst",)
    assert identify(keycloak.sign_in("alice", realm=PARTNER)).roles == ("data",)
    assert identify(keycloak.sign_in("bob", realm=PARTNER)).roles == ("sales",)
    assert identify(keycloak.credential_token("spark", realm=PARTNER)).roles == ()


def test_tokens_for_another_audience_are_refused(
    keycloak: Keycloak, warehouse: Warehouse, everything: Callable[[], Fingerprint]
) -> None:
    good = keycloak.sign_in("alice")
    head, body, signature = good.split(".")
    forged = base64.urlsafe_b64encode(json.dumps(claims_of(good) | {"sub": "root"}).encode()).decode().rstrip("=")
    unsigned = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
    before = everything()
    for token in (
        keycloak.sign_in("alice", client="elsewhere"),  # no audience
        keycloak.credential_token("spark", scope="email"),  # and none here, because the scope was not requested
        keycloak.administrator_token(),  # a realm that is not configured as a provider
        f"{head}.{forged}.{signature}",
        f"{head}.{body}.{signature[:-8]}AAAAAAAA",
        f"{unsigned}.{body}.",
        f"{head}.{body}",
        good[:-1],
    ):
        assert namespaces(warehouse, token).refused(401, "AuthenticationFailed"), token
    assert namespaces(warehouse, good).status == 200
    assert everything() == before


def test_a_token_that_has_ended_is_refused(keycloak: Keycloak, warehouse: Warehouse) -> None:
    """Also one that was accepted, and cached, while it was valid."""
    token = keycloak.credential_token("brief")
    assert namespaces(warehouse, token).status == 200
    response = namespaces(warehouse, token)
    while response.status == 200:
        time.sleep(0.2)
        response = namespaces(warehouse, token)
    assert response.refused(401, "AuthenticationFailed")
