"""Spark authenticates with tokens and credentials of Keycloak, and with those of the catalog itself."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tasks.spark.session import rest_catalog
from tests.identity_fixtures import OwnTokens
from tests.parts.keycloak import Keycloak
from tests.parts.server import CatalogServer

_numbers = itertools.count(1)
Connect = Callable[..., str]


@pytest.fixture
def connect(spark: SparkSession, guarded_catalog: CatalogServer) -> Connect:
    """Add the catalog to Spark with further settings, as a user writes them; return its name in SQL."""

    def connect(**access: str) -> str:
        name = f"guarded_{next(_numbers)}"
        usual = rest_catalog(name, uri=guarded_catalog.uri, warehouse=guarded_catalog.warehouse)
        own = {f"spark.sql.catalog.{name}.{setting}": value for setting, value in access.items()}
        for setting, value in (usual | own).items():
            spark.conf.set(setting, value)
        return name

    return connect


def works(spark: SparkSession, catalog: str) -> bool:
    """Create, write, read and drop a table."""
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.sp")
    spark.sql(f"CREATE TABLE {catalog}.sp.t (id INT)")
    spark.sql(f"INSERT INTO {catalog}.sp.t VALUES (1), (2)")  # noqa: S608
    found = sorted(row.id for row in spark.table(f"{catalog}.sp.t").collect())
    spark.sql(f"DROP TABLE {catalog}.sp.t")
    return found == [1, 2]


def test_with_the_token_of_a_user(spark: SparkSession, connect: Connect, keycloak: Keycloak) -> None:
    assert works(spark, connect(token=keycloak.sign_in("alice")))


def test_with_a_credential_of_keycloak(spark: SparkSession, connect: Connect, keycloak: Keycloak) -> None:
    access = {"credential": "spark:spark-secret", "oauth2-server-uri": keycloak.token_endpoint(), "scope": "catalog"}
    assert works(spark, connect(**access))


def test_a_session_outlives_its_tokens(spark: SparkSession, connect: Connect, keycloak: Keycloak) -> None:
    """They expire after 5 s.

    Keycloak exchanges no tokens by default, so the client fetches new ones with its credential.
    """
    access = {"credential": "brief:brief-secret", "oauth2-server-uri": keycloak.token_endpoint(), "scope": "catalog"}
    catalog = connect(**access, **{"token-exchange-enabled": "false"})
    assert works(spark, catalog)
    time.sleep(8)
    assert works(spark, catalog)


def test_with_a_personal_token_of_the_catalog(spark: SparkSession, connect: Connect, own_tokens: OwnTokens) -> None:
    assert works(spark, connect(token=own_tokens.personal))


def test_with_a_service_account_of_the_catalog_and_nothing_else(
    spark: SparkSession, connect: Connect, own_tokens: OwnTokens
) -> None:
    assert works(spark, connect(credential=own_tokens.credential))


def test_without_a_token_that_holds_nothing_works(
    spark: SparkSession, connect: Connect, keycloak: Keycloak, own_tokens: OwnTokens
) -> None:
    for access in (
        {"token": "garbage"},
        {"token": keycloak.sign_in("alice", client="elsewhere")},
        {"credential": f"{own_tokens.credential}x"},
    ):
        with pytest.raises(Py4JJavaError, match="NotAuthorizedException: Not authorized"):
            spark.sql(f"SHOW NAMESPACES IN {connect(**access)}").collect()
