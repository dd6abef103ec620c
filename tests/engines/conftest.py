"""A catalog with a warehouse on MinIO and vended credentials, for engines that run as separate programs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from pyiceberg.catalog import Catalog

from tasks.spark.readback import connect_pyiceberg
from tests.harness.run_environment import RunEnvironment
from tests.parts.minio import Minio
from tests.parts.server import CatalogServer

_numbers = count(1)


@pytest.fixture(scope="session")
def lake(
    run_environment: RunEnvironment, minio: Minio, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CatalogServer]:
    """A catalog without authentication and its warehouse `lake`."""
    bucket = minio.create_bucket("engines")
    home, url = tmp_path_factory.mktemp("engines"), run_environment.own_database("engines")
    with CatalogServer(home, database_url=url, settings={"LAKEKEEPER__PG_ENCRYPTION_KEY": "k" * 40}) as server:
        server.create_warehouse_on("lake", minio.storage(bucket, "lake"))
        yield server


@pytest.fixture(scope="session")
def reader(lake: CatalogServer) -> Catalog:
    """A PyIceberg client, which reads what an engine wrote."""
    return connect_pyiceberg(uri=lake.uri, warehouse=lake.warehouse, token=None)


@pytest.fixture
def namespace(reader: Catalog) -> str:
    """A new namespace."""
    name = f"engine_{next(_numbers)}"
    reader.create_namespace(name)
    return name
