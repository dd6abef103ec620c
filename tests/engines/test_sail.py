"""Sail, which encodes the hyphens of the prefix and has its own keys for the store."""

# ruff: noqa: S608 statements are built from names of the tests themselves

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from tests.parts import sail
from tests.parts.minio import Minio
from tests.parts.s3 import REGION
from tests.parts.server import CatalogServer

pytestmark = pytest.mark.part("sail")

PROGRAM = Path(__file__).with_name("sail_program.py")
SECONDS = 300


def run(server: CatalogServer, minio: Minio, *statements: str) -> list[Any]:
    """Return the rows of each statement; docs/engines.md has the same settings."""
    python = sail.find_python()
    assert python is not None
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    catalog = f'name="lake", type="iceberg-rest", uri="{server.uri}", warehouse="{server.warehouse}"'
    settings = {
        "SAIL_CATALOG__LIST": f"[{{{catalog}}}]",
        "AWS_ACCESS_KEY_ID": minio.user,
        "AWS_SECRET_ACCESS_KEY": minio.password,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT": minio.endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
    }
    done = subprocess.run(
        [python, PROGRAM], input=json.dumps(statements), capture_output=True, text=True, check=False,
        timeout=SECONDS, env=inherited | settings,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    rows: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return rows


def test_sail_writes_and_reads_tables(lake: CatalogServer, minio: Minio, reader: Catalog, namespace: str) -> None:
    cities = f"lake.{namespace}.cities"
    _, _, _, selected, counted, tables = run(
        lake,
        minio,
        f"CREATE TABLE {cities} (id BIGINT, city STRING) USING iceberg",
        f"INSERT INTO {cities} VALUES (1, 'Rome'), (2, 'Oslo')",
        f"INSERT INTO {cities} VALUES (3, 'Lima')",
        f"SELECT * FROM {cities} ORDER BY id",
        f"SELECT count(*) FROM {cities} WHERE id > 1",
        f"SHOW TABLES IN lake.{namespace}",
    )
    assert selected == [[1, "Rome"], [2, "Oslo"], [3, "Lima"]]
    assert counted == [[2]]
    assert [row[1] for row in tables] == ["cities"]
    read = reader.load_table((namespace, "cities")).scan().to_arrow().sort_by("id").to_pylist()
    assert read == [{"id": 1, "city": "Rome"}, {"id": 2, "city": "Oslo"}, {"id": 3, "city": "Lima"}]


def test_sail_creates_and_drops_namespaces_and_tables(
    lake: CatalogServer, minio: Minio, reader: Catalog, namespace: str
) -> None:
    created = f"{namespace}_by_sail"
    run(
        lake,
        minio,
        f"CREATE DATABASE lake.{created}",
        f"CREATE TABLE lake.{created}.dropped (id BIGINT) USING iceberg",
        f"CREATE TABLE lake.{created}.kept (id BIGINT) USING iceberg",
        f"DROP TABLE lake.{created}.dropped",
    )
    assert reader.list_tables(created) == [(created, "kept")]
