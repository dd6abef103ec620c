"""Fixtures of tests that need a real identity provider: Keycloak, and a catalog that believes its tokens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.parts.keycloak import Keycloak
from tests.parts.server import CatalogServer
from tests.run_environment import RunEnvironment

AUDIENCE = "icekeeper"
PARTNER = "partner"
"""A second realm, which the catalog knows as a provider of that name and whose groups it takes as roles."""


@pytest.fixture(scope="session")
def keycloak(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keycloak]:
    with Keycloak(tmp_path_factory.mktemp("keycloak") / "home") as server:
        server.create_realm(PARTNER)
        yield server


@pytest.fixture(scope="session")
def guarded_catalog(
    run_environment: RunEnvironment, keycloak: Keycloak, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CatalogServer]:
    """The real server with the warehouse `guarded`, which admits the people and programs of Keycloak."""
    postgres = run_environment.postgres
    server = CatalogServer(
        tmp_path_factory.mktemp("guarded"),
        database_url=postgres.create_database("guarded_catalog") if postgres else None,
        settings={
            "LAKEKEEPER__OPENID_PROVIDER_URI": keycloak.issuer(),
            "LAKEKEEPER__OPENID_AUDIENCE": AUDIENCE,
            "LAKEKEEPER__OPENID_ROLES_CLAIM": "roles",
            f"LAKEKEEPER__OPENID_PROVIDERS__{PARTNER.upper()}__URI": keycloak.issuer(PARTNER),
            f"LAKEKEEPER__OPENID_PROVIDERS__{PARTNER.upper()}__AUDIENCE": AUDIENCE,
            f"LAKEKEEPER__OPENID_PROVIDERS__{PARTNER.upper()}__ROLES_CLAIM": "groups",
        },
    )
    with server:
        server.create_warehouse("guarded", token=keycloak.sign_in("alice"))
        yield server
