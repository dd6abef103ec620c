"""Spark with a credential: Iceberg's Java client gets a short-lived token, and renews it during its work."""

from __future__ import annotations

import json
import time

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tasks.spark.session import rest_catalog
from tests.harness.run_environment import RunEnvironment
from tests.parts.server import CatalogServer


def test_spark_renews_its_token_until_the_credential_is_revoked(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, run_environment: RunEnvironment
) -> None:
    database_url = run_environment.own_database("spark_credential")
    settings = {"ICEKEEPER__ACCESS_TOKENS": "true", "ICEKEEPER__OAUTH_TOKEN_LIFETIME": "10s"}
    home = tmp_path_factory.mktemp("credential")
    with CatalogServer(home, database_url=database_url, workers=2, settings=settings) as server:
        server.manage("create_warehouse", "wh", "--local-path", str(server.storage_root / "wh"))
        secret = json.loads(server.manage("create_token", "--service-account", "spark", "--scope", "catalog", "--json"))
        catalogs = {"by_credential": {"credential": f"{secret['user-id']}:{secret['token']}"}}
        catalogs |= {"by_secret": {"credential": secret["token"]}, "by_token": {"token": secret["token"]}}
        for name, login in catalogs.items():
            for key, value in rest_catalog(name, uri=server.uri, warehouse="wh").items():
                spark.conf.set(key, value)
            for key, value in login.items():
                spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
        spark.sql("CREATE NAMESPACE by_credential.ns")
        spark.sql("CREATE TABLE by_secret.ns.t (id bigint) USING iceberg")
        written, give_up = 0, time.monotonic() + 300
        while _tokens_given(server) < 6 or written < 3:
            assert time.monotonic() < give_up
            spark.sql("INSERT INTO by_credential.ns.t VALUES (1)")
            written += 1
            time.sleep(2)  # tokens are valid for ten seconds: a query at full speed would prove nothing more
        assert spark.sql("SELECT count(*) FROM by_token.ns.t").collect()[0][0] == written
        assert not [line for line in server.log_lines("icekeeper.access") if line["status"] in {400, 401, 403}]
        server.manage("revoke_token", secret["id"])
        with pytest.raises(Py4JJavaError, match="NotAuthorizedException"):
            _insert_until(spark, give_up)


def _insert_until(spark: SparkSession, give_up: float) -> None:
    while time.monotonic() < give_up:
        spark.sql("INSERT INTO by_credential.ns.t VALUES (1)")
        time.sleep(1)


def _tokens_given(server: CatalogServer) -> int:
    lines = server.log_lines("icekeeper.access")
    return sum(line["path"] == "/catalog/v1/oauth/tokens" and line["status"] == 200 for line in lines)
