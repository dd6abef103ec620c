"""Fixtures of tests that need a real identity provider: Keycloak, and catalogs that accept its tokens."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import requests
from django.conf import settings

from icekeeper.conf.environment import read_settings
from tenancy.authn import providers
from tenancy.authn.requests import verified_tokens
from tests.harness.run_environment import RunEnvironment
from tests.parts.keycloak import REALM, Keycloak
from tests.parts.server import CatalogServer

AUDIENCE = "icekeeper"
PARTNER = "partner"
"""A second realm, which the catalog knows as a provider of that name and whose groups it takes as roles."""


def provider_settings(keycloak: Keycloak, realm: str = REALM) -> dict[str, str]:
    """The variables of a catalog that accepts the users and service accounts of `realm`, and those of the
    partner.

    It issues its own tokens, too. The clock tolerance is one second, so that short-lived tokens expire.
    """
    partner = f"LAKEKEEPER__OPENID_PROVIDERS__{PARTNER.upper()}__"
    return {
        "LAKEKEEPER__OPENID_PROVIDER_URI": keycloak.issuer(realm),
        "LAKEKEEPER__OPENID_AUDIENCE": AUDIENCE,
        "LAKEKEEPER__OPENID_ROLES_CLAIM": "roles",
        f"{partner}URI": keycloak.issuer(PARTNER),
        f"{partner}AUDIENCE": AUDIENCE,
        f"{partner}ROLES_CLAIM": "groups",
        "ICEKEEPER__ACCESS_TOKENS": "true",
        "ICEKEEPER__AUTHENTICATION__LEEWAY": "1s",
    }


@pytest.fixture(scope="session")
def keycloak(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keycloak]:
    with Keycloak(tmp_path_factory.mktemp("keycloak") / "home") as server:
        server.create_realm(PARTNER)
        yield server


@pytest.fixture(scope="session")
def guarded_catalog(
    run_environment: RunEnvironment, keycloak: Keycloak, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CatalogServer]:
    """The real server with the warehouse `guarded`, which accepts the users of Keycloak."""
    server = CatalogServer(
        tmp_path_factory.mktemp("guarded"),
        database_url=run_environment.own_database("guarded_catalog"),
        settings=provider_settings(keycloak),
    )
    with server:
        server.create_warehouse("guarded", token=keycloak.sign_in("alice"))
        yield server


@dataclass(frozen=True)
class OwnTokens:
    """Tokens of the catalog: `personal` is alice's, `credential` is id and secret of a service account."""

    personal: str
    credential: str


@pytest.fixture(scope="session")
def own_tokens(guarded_catalog: CatalogServer, keycloak: Keycloak) -> OwnTokens:
    headers = {"Authorization": f"Bearer {keycloak.sign_in('alice')}"}

    def post(path: str, body: dict[str, str]) -> dict[str, str]:
        response = requests.post(guarded_catalog.base_url + path, json=body, headers=headers, timeout=30)
        assert response.status_code == 201, response.text
        created: dict[str, str] = response.json()
        return created

    personal = post("/management/v1/token", {"name": "laptop"})["token"]
    account = post("/management/v1/service-account", {"name": "nightly"})["id"]
    secret = post("/management/v1/token", {"name": "secret", "user-id": account})["token"]
    return OwnTokens(personal, f"{account}:{secret}")


@contextmanager
def believing(variables: Mapping[str, str]) -> Iterator[None]:
    """Authentication in this process with these `variables`; without a limit on the rate of key fetches."""
    believed, unread = read_settings({**os.environ, **variables})
    assert unread == []
    root = settings.ICEKEEPER.local_storage_root
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "ICEKEEPER", believed.model_copy(update={"local_storage_root": root}))
        patch.setattr("tenancy.authn.oidc.authenticators.REFRESH_PAUSE_SECONDS", 0.0)
        providers.authenticators.cache_clear()
        verified_tokens.clear()
        yield
    providers.authenticators.cache_clear()
    verified_tokens.clear()


@pytest.fixture
def authentication(keycloak: Keycloak) -> Iterator[None]:
    """Authentication in this process with the users of Keycloak."""
    with believing(provider_settings(keycloak)):
        yield
