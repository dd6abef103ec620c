"""PyIceberg authenticates at Keycloak, or with tokens of the catalog itself, and works with a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import OAuthError, UnauthorizedError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.identity_fixtures import OwnTokens
from tests.parts.keycloak import Keycloak
from tests.parts.server import CatalogServer

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
Connect = Callable[..., Catalog]


@pytest.fixture
def connect(guarded_catalog: CatalogServer) -> Iterator[Connect]:
    """Return PyIceberg's client with further properties, as a user writes them."""
    with ExitStack() as clients:

        def connect(**access: Any) -> Catalog:
            catalog = load_catalog(
                "guarded", type="rest", uri=guarded_catalog.uri, warehouse=guarded_catalog.warehouse, **access
            )
            clients.callback(catalog.close)
            return catalog

        yield connect


def works(catalog: Catalog, name: str) -> bool:
    """Create, write, read and drop a table."""
    catalog.create_namespace_if_not_exists("py")
    table = catalog.create_table(("py", name), SCHEMA)
    table.append(pa.table({"id": [1, 2]}))
    found = catalog.load_table(("py", name)).scan().to_arrow().to_pydict()["id"]
    catalog.drop_table(("py", name))
    return sorted(found) == [1, 2]


def test_with_the_token_of_a_user(connect: Connect, keycloak: Keycloak) -> None:
    assert works(connect(token=keycloak.sign_in("alice")), "token")


def test_with_a_credential_of_keycloak(connect: Connect, keycloak: Keycloak) -> None:
    access = {"credential": "spark:spark-secret", "oauth2-server-uri": keycloak.token_endpoint(), "scope": "catalog"}
    assert works(connect(**access), "credential")


def test_with_a_credential_in_the_newer_form(connect: Connect, keycloak: Keycloak) -> None:
    oauth2 = {
        "client_id": "spark",
        "client_secret": "spark-secret",
        "token_url": keycloak.token_endpoint(),
        "scope": "catalog",
    }
    assert works(connect(auth={"type": "oauth2", "oauth2": oauth2}), "newer")


def test_a_client_outlives_its_tokens(connect: Connect, keycloak: Keycloak) -> None:
    """They expire after 5 s; on the 401 that follows PyIceberg fetches another one."""
    access = {"credential": "brief:brief-secret", "oauth2-server-uri": keycloak.token_endpoint(), "scope": "catalog"}
    catalog = connect(**access)
    assert works(catalog, "outlived")
    time.sleep(8)
    assert works(catalog, "outlived")


def test_with_a_personal_token_of_the_catalog(connect: Connect, own_tokens: OwnTokens) -> None:
    assert works(connect(token=own_tokens.personal), "personal")


def test_with_a_service_account_of_the_catalog(
    connect: Connect, own_tokens: OwnTokens, guarded_catalog: CatalogServer
) -> None:
    endpoint = f"{guarded_catalog.uri}/v1/oauth/tokens"
    assert works(connect(credential=own_tokens.credential, **{"oauth2-server-uri": endpoint}), "account")


@pytest.mark.filterwarnings("ignore:Deprecated in 0.8.0:DeprecationWarning")
def test_without_its_address_the_catalog_is_asked_for_tokens(connect: Connect, own_tokens: OwnTokens) -> None:
    """For now: PyIceberg requires `oauth2-server-uri` in a later release."""
    assert works(connect(credential=own_tokens.credential), "account")


@pytest.mark.filterwarnings("ignore:Deprecated in 0.8.0:DeprecationWarning")
def test_without_a_token_that_holds_nothing_works(connect: Connect, keycloak: Keycloak, own_tokens: OwnTokens) -> None:
    for token in ("garbage", keycloak.sign_in("alice", client="elsewhere"), f"{own_tokens.personal}x"):
        with pytest.raises(UnauthorizedError):
            connect(token=token)
    with pytest.raises(OAuthError):
        connect(credential=f"{own_tokens.credential}x")
