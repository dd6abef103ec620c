"""One Spark for the run, clients of the live catalog through PyIceberg and SQL, and a namespace for each test."""

from __future__ import annotations

import gc
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyspark.sql import Row, SparkSession

from tasks.spark.readback import connect_pyiceberg
from tasks.spark.session import LOCAL_PACKAGES, S3_PACKAGES, iceberg_session, rest_catalog
from tests.parts.server import CatalogServer
from tests.spark.session_fixtures import SPARK_SETTINGS

HERE = Path(__file__).parent
LIVE = "live"
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # pyspark leaves the socket of each collect() to the garbage collector
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(autouse=True)
def _no_sockets_left() -> Iterator[None]:
    """Collect those sockets here, before a test of another folder that treats them as an error."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A local Spark with Iceberg's classes, also for Java through `spark._jvm`; it needs no catalog.

    Its class path includes the S3 classes if a test of the run requests `s3_spark`, because Java reads it at the
    start.
    """
    on_s3 = any("s3_spark" in getattr(item, "fixturenames", ()) for item in request.session.items)
    session = iceberg_session(packages=S3_PACKAGES if on_s3 else LOCAL_PACKAGES, extra=SPARK_SETTINGS)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3_spark(spark: SparkSession) -> SparkSession:
    """The same Spark, with read and write access to warehouses on S3."""
    return spark


@pytest.fixture(scope="session")
def live_spark(spark: SparkSession, live_catalog: CatalogServer) -> SparkSession:
    """The same Spark, with the live catalog in SQL as `live`, the default catalog."""
    for key, value in rest_catalog(LIVE, uri=live_catalog.uri, warehouse=live_catalog.warehouse).items():
        spark.conf.set(key, value)
    spark.sql(f"USE {LIVE}")
    return spark


@pytest.fixture(scope="session")
def catalog(live_catalog: CatalogServer) -> Catalog:
    """PyIceberg as a client of the live catalog."""
    return connect_pyiceberg(uri=live_catalog.uri, warehouse=live_catalog.warehouse, token=None)


@pytest.fixture
def namespace(catalog: Catalog) -> Iterator[str]:
    """A new namespace, emptied and dropped afterwards."""
    name = f"test_{next(_numbers)}"
    catalog.create_namespace(name)
    yield name
    _drop(catalog, (name,))


def _drop(catalog: Catalog, namespace: tuple[str, ...]) -> None:
    for child in catalog.list_namespaces(namespace):
        _drop(catalog, child)
    for view in catalog.list_views(namespace):
        catalog.drop_view(view)
    for table in catalog.list_tables(namespace):
        catalog.drop_table(table)
    catalog.drop_namespace(namespace)


@pytest.fixture
def sql(live_spark: SparkSession, namespace: str) -> Callable[[str], list[Row]]:
    """Run a statement and return its rows; the word `ns` in it is replaced by the test's namespace.

    Names include their namespace throughout: Spark does not resolve a metadata table such as `books.files` in the
    current one.
    """

    def run(statement: str) -> list[Row]:
        return live_spark.sql(re.sub(r"\bns\b", namespace, statement)).collect()

    return run
