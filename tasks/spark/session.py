"""Spark sessions with Iceberg, set up for a machine of two cores.

There is one Spark in a process. A second call adds its catalog to the Spark that runs; settings of the Java side
(memory, jars) are those of the first call until `spark.stop()`.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tasks.spark.cache import cache_dir
from tasks.spark.environment import launch_environment
from tasks.spark.jars import resolve_jars

ICEBERG_VERSION = "1.11.0"
ICEBERG_RUNTIME = f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{ICEBERG_VERSION}"
ICEBERG_AWS = f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG_VERSION}"
LOCAL_PACKAGES = (ICEBERG_RUNTIME,)
S3_PACKAGES = (ICEBERG_RUNTIME, ICEBERG_AWS)
"""For warehouses on S3: 64 MB more."""


def spark_session(
    *,
    catalog_uri: str,
    warehouse: str,
    name: str = "icekeeper",
    token: str | None = None,
    packages: Sequence[str] = LOCAL_PACKAGES,
    ivy_dir: Path | None = None,
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a Spark session in which SQL knows the warehouse of an Iceberg REST catalog as `name`.

    `catalog_uri` is the catalog's base (the part before `/v1`), `token` a bearer token. `extra` holds further Spark
    settings and wins over the ones set here. For `packages` and `ivy_dir` see `iceberg_session`.
    """
    catalog = rest_catalog(name, uri=catalog_uri, warehouse=warehouse, token=token)
    return iceberg_session(packages=packages, ivy_dir=ivy_dir, extra={**catalog, **(extra or {})})


def iceberg_session(
    *,
    packages: Sequence[str] = LOCAL_PACKAGES,
    ivy_dir: Path | None = None,
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a local Spark session with Iceberg's classes and SQL extensions, and no catalog of its own.

    `packages` are resolved once into `ivy_dir` (by default in the user's cache folder), see `resolve_jars`. Raises
    `JavaNotFoundError` and `JarsNotResolvedError`, whose messages name the cure.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        for key, value in (extra or {}).items():
            running.conf.set(key, value)
        return running
    jars = resolve_jars(packages, ivy_dir=ivy_dir or cache_dir("ivy"), settings=extra)
    settings = {**machine_settings(), "spark.jars": ",".join(str(jar) for jar in jars), **(extra or {})}
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    with launch_environment():
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    # pyspark writes a page of JSON about each error that it also raises, py4j a line for each connection it ends
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    return spark


def rest_catalog(name: str, *, uri: str, warehouse: str, token: str | None = None) -> dict[str, str]:
    """Return the Spark settings of an Iceberg REST catalog that SQL calls `name`."""
    prefix = f"spark.sql.catalog.{name}"
    settings = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "rest",
        f"{prefix}.uri": uri,
        f"{prefix}.warehouse": warehouse,
        # a table changed by another client is seen at the next statement
        f"{prefix}.cache-enabled": "false",
    }
    if token is not None:
        settings[f"{prefix}.token"] = token
    return settings


def machine_settings() -> dict[str, str]:
    """Return the Spark settings that do not depend on any catalog: size, quietness, files out of the way."""
    scratch = cache_dir("scratch")
    log_settings = Path(__file__).with_name("log4j2.properties").as_uri()
    return {
        "spark.app.name": "icekeeper",
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log_settings} -Dderby.system.home={scratch}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
