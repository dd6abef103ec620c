"""Spark and PyIceberg with tables on a real S3 store, with credentials from the catalog and none of their own.

A recorder between Spark and MinIO shows for each request the key of its signature and the user agent. PyIceberg is
tested with vended credentials only: of its file systems only s3fs uses remote signing, and s3fs is not among the
packages of this project.
"""

# ruff: noqa: S608 statements are built from names of the tests themselves

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

from tasks.spark.readback import connect_pyiceberg
from tasks.spark.session import rest_catalog
from tests.harness.run_environment import RunEnvironment
from tests.parts.minio import Minio
from tests.parts.recorder import Recorder
from tests.parts.server import CatalogServer

SOURCES_OF_KEYS = re.compile("AWS_(ACCESS|SECRET|SESSION|PROFILE|WEB_IDENTITY|CONTAINER|SHARED_CREDENTIALS)")
"""Variables by which clients of AWS find keys."""

SIGN = re.compile(r"/catalog/v1/signer/[^/]+/(tabular-id|staged)/[^/]+/v1/aws/s3/sign")


@pytest.fixture(scope="module")
def recorder(minio: Minio) -> Iterator[Recorder]:
    with Recorder(minio.port) as recorder:
        yield recorder


@pytest.fixture(scope="module")
def bucket(minio: Minio) -> str:
    return minio.create_bucket("without-keys")


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory,
    run_environment: RunEnvironment,
    minio: Minio,
    recorder: Recorder,
    bucket: str,
) -> Iterator[CatalogServer]:
    """A catalog with two warehouses in the bucket, with vended credentials and remote signing: `recorded` in `wh`,
    `lake` in `py`. Requests to the first go through the recorder, which does not support the chunked uploads of
    Arrow.
    """
    url = run_environment.own_database("without_keys")
    settings = {"LAKEKEEPER__PG_ENCRYPTION_KEY": "k" * 40}
    with CatalogServer(tmp_path_factory.mktemp("without-keys"), database_url=url, settings=settings) as server:
        server.create_warehouse_on("recorded", minio.storage(bucket, "wh", endpoint=recorder.endpoint))
        server.create_warehouse_on("lake", minio.storage(bucket, "py"))
        yield server


def add_catalog(spark: SparkSession, name: str, server: CatalogServer, delegation: str | None) -> None:
    """Add the warehouse to SQL as `name`; Spark is configured with its URL and access delegation, without any setting
    of the store.
    """
    for key, value in rest_catalog(name, uri=server.uri, warehouse="recorded").items():
        spark.conf.set(key, value)
    if delegation is not None:
        spark.conf.set(f"spark.sql.catalog.{name}.header.X-Iceberg-Access-Delegation", delegation)


def assert_has_no_key(spark: SparkSession) -> None:
    """Assert that neither this session nor its Java process has keys for a store from another source."""
    assert spark._jvm is not None
    system = spark._jvm.java.lang.System
    assert not [name for name in system.getenv() if SOURCES_OF_KEYS.match(name)]
    assert not [name for name in system.getProperties() if str(name).startswith("aws.")]
    assert not (Path.home() / ".aws").exists()
    reported = [f"{name}={value}" for name, value in dict(spark.conf.getAll).items()]
    assert not [
        each for each in reported if re.search("(access|secret)[.-]key|session[.-]token", each) or Minio.user in each
    ]


def responded(spark: SparkSession, table: str) -> list[dict[str, str]]:
    """Return the client's settings for the store: the table's config, and the prefix of each vended credential."""
    assert spark._jvm is not None
    io = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table).io()
    return [dict(io.properties()), *(dict(each.config()) for each in io.credentials())]


def keys_of_java(recorder: Recorder) -> set[str | None]:
    """Return the access keys that signed the requests of Java, None for a request without signature."""
    sent = [
        request.headers for request in recorder.requests if "s3fileio" in request.headers.get("user-agent", "").lower()
    ]
    found = [re.search(r"Credential=([^/]+)/", headers.get("authorization", "")) for headers in sent]
    return {each[1] if each else None for each in found}


def work(sql: Callable[[str], list[Row]], at: str) -> None:
    """Run typical operations on tables, from their creation on."""
    sql(f"CREATE NAMESPACE {at}")
    merge_on_read = "TBLPROPERTIES ('write.delete.mode'='merge-on-read')"
    sql(f"CREATE TABLE {at}.t (id bigint, name string) USING iceberg {merge_on_read}")
    sql(f"INSERT INTO {at}.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    sql(f"UPDATE {at}.t SET name = 'B' WHERE id = 2")
    sql(f"DELETE FROM {at}.t WHERE id = 3")
    assert [tuple(row) for row in sql(f"SELECT * FROM {at}.t ORDER BY id")] == [(1, "a"), (2, "B")]
    sql(f"CREATE TABLE {at}.copied USING iceberg AS SELECT id + 10 AS id FROM {at}.t")
    assert [row[0] for row in sql(f"SELECT id FROM {at}.copied ORDER BY id")] == [11, 12]


def folder_of(sql: Callable[[str], list[Row]], table: str, bucket: str) -> str:
    """Return the folder of the table's metadata, as a prefix of keys in the bucket; it contains all files of the
    table.
    """
    (row,) = sql(f"SELECT file FROM {table}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1")
    folder = row[0].removeprefix(f"s3://{bucket}/").partition("metadata/")[0]
    files = [row[0] for row in sql(f"SELECT file_path FROM {table}.all_files")]
    assert files
    assert all(file.startswith(f"s3://{bucket}/{folder}data/") for file in files)
    return str(folder)


def signatures_given(server: CatalogServer, since: int) -> set[str]:
    """Return the sign routes that the catalog received after so many requests; each of them succeeded."""
    asked = [line for line in server.log_lines("icekeeper.access")[since:] if line["path"].endswith("/sign")]
    assert {line["status"] for line in asked} <= {200}
    found = [SIGN.fullmatch(line["path"]) for line in asked]
    assert all(found)
    return {each[1] for each in found if each}


@pytest.mark.parametrize("delegation", [None, "remote-signing"], ids=["as the server decides", "by signatures"])
def test_spark_without_keys(
    s3_spark: SparkSession, server: CatalogServer, minio: Minio, recorder: Recorder, bucket: str, delegation: str | None
) -> None:
    name = "by_signatures" if delegation else "by_vended_keys"
    add_catalog(s3_spark, name, server, delegation)
    assert_has_no_key(s3_spark)
    recorder.requests.clear()
    kept, logged = set(minio.keys(bucket)), len(server.log_lines("icekeeper.access"))

    def sql(statement: str) -> list[Row]:
        return s3_spark.sql(statement).collect()

    at = f"{name}.{name}"
    work(sql, at)
    used = keys_of_java(recorder)
    assert used
    assert not used & {Minio.user, None}
    t, copied = folder_of(sql, f"{at}.t", bucket), folder_of(sql, f"{at}.copied", bucket)
    assert t != copied
    keys = set(minio.keys(bucket)) - kept
    assert all(key.startswith((t, copied)) for key in keys)
    for folder in (t, copied):
        assert [key for key in keys if key.startswith(f"{folder}data/") and key.endswith(".parquet")]
        assert [key for key in keys if key.startswith(f"{folder}metadata/") and key.endswith(".metadata.json")]
    signatures = signatures_given(server, logged)
    properties, *vended = responded(s3_spark, f"{at}.t")
    if delegation == "remote-signing":
        assert properties["s3.remote-signing-enabled"] == "true"
        for each in (properties, *vended):
            assert not {"s3.access-key-id", "s3.secret-access-key", "s3.session-token"} & each.keys()
        assert signatures == {"tabular-id", "staged"}
    else:
        assert properties.get("s3.remote-signing-enabled") != "true"
        assert all({"s3.access-key-id", "s3.session-token"} <= each.keys() for each in vended or [properties])
        assert signatures == set()
    sql(f"DROP TABLE {at}.copied")
    assert minio.keys(bucket, copied), "files are kept unless the purge is asked for"
    if delegation is None:  # Spark deletes the files itself, of a dropped table that has no remote signing any more
        sql(f"DROP TABLE {at}.t PURGE")
        assert minio.keys(bucket, t) == []
    else:
        sql(f"DROP TABLE {at}.t")
    sql(f"DROP NAMESPACE {at}")


def test_pyiceberg_without_keys(server: CatalogServer, minio: Minio, bucket: str) -> None:
    assert not [name for name in os.environ if SOURCES_OF_KEYS.match(name)]
    catalog = connect_pyiceberg(uri=server.uri, warehouse="lake", token=None)
    catalog.create_namespace("ns")
    rows: Any = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})
    table = catalog.create_table("ns.t", schema=rows.schema)
    assert table.io.properties["s3.access-key-id"] != Minio.user
    assert table.io.properties["s3.session-token"]
    table.append(rows)
    table.delete("id = 3")
    table.upsert(pa.table({"id": pa.array([2], pa.int64()), "name": ["B"]}), join_cols=["id"])
    read = catalog.load_table("ns.t").scan().to_arrow().sort_by("id")
    assert read.to_pydict() == {"id": [1, 2], "name": ["a", "B"]}
    folder = table.location().removeprefix(f"s3://{bucket}/") + "/"
    keys = minio.keys(bucket, "py/")
    assert all(key.startswith((f"{folder}data/", f"{folder}metadata/")) for key in keys)
    assert [key for key in keys if key.startswith(f"{folder}data/") and key.endswith(".parquet")]
    catalog.drop_table("ns.t", purge_requested=True)
    assert catalog.list_tables("ns") == []
