"""Spark sessions with Iceberg, set up for a machine of two cores, and the jars that they need.

There is one Spark in a process. A second call adds its catalog to the Spark that runs; settings of the Java side
(memory, jars) are those of the first call until `spark.stop()`.
"""

import fcntl
import hashlib
import json
import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyspark
from pyspark.conf import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tasks.spark.java import cache_dir, quiet_java_home

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


_SHORT_RUN = "-XX:TieredStopAtLevel=1"
"""Option of Java for a few minutes of work on small data, in which the better code of its second compiler does not pay.
"""


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
        "spark.driver.extraJavaOptions": " ".join(
            (f"-Dlog4j2.configurationFile={log_settings}", f"-Dderby.system.home={scratch}", _SHORT_RUN)
        ),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }


# Set by other Spark installations on the machine; each would start another Spark than the one imported here.
_FOREIGN = ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_REMOTE")


@contextmanager
def launch_environment() -> Iterator[None]:
    """Set, for the time of a launch, the variables that pyspark hands to Java, and restore them afterwards.

    pyspark offers no other way: it copies `os.environ` for the process it starts. Raises `JavaNotFoundError`.
    """
    wanted: dict[str, str | None] = dict.fromkeys(_FOREIGN)
    wanted["JAVA_HOME"] = str(quiet_java_home())
    wanted["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    before = {name: os.environ.get(name) for name in wanted}
    _apply(wanted)
    try:
        yield
    finally:
        _apply(before)


def _apply(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


# Settings of Spark that say where packages come from; they are handed on to the resolver.
RESOLVER_SETTINGS = ("spark.jars.repositories", "spark.jars.ivySettings", "spark.jars.excludes")

_launch: Callable[..., Any] = launch_gateway  # which has no annotations


class JarsNotResolvedError(Exception):
    """The packages could not be had; the message ends with what the resolver said."""


def resolve_jars(packages: Sequence[str], *, ivy_dir: Path, settings: Mapping[str, str] | None = None) -> list[Path]:
    """Return the jar files of Maven `packages` (`group:artifact:version`) with all they depend on.

    Spark resolves `spark.jars.packages` at every start, which takes 13 seconds even when all is cached. So the first
    call for a list of packages asks the network (16-18 s) and writes down in `ivy_dir` what it got. Later calls check
    size and SHA-256 of each file against that record; a jar that is missing or differs is resolved again. `settings`
    may hold Spark's settings for other repositories. Safe to call from several processes at once. Raises
    `JarsNotResolvedError` and `JavaNotFoundError`.
    """
    chosen = {name: value for name, value in (settings or {}).items() if name in RESOLVER_SETTINGS}
    record = ivy_dir / "resolved" / f"{_digest(json.dumps([list(packages), chosen], sort_keys=True).encode())}.json"
    record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _lock(record.with_suffix(".lock")):
        known = _recorded(record)
        if known is not None:
            return known
        jars = _ask_spark(packages, ivy_dir, chosen)
        _record(record, jars)
        return jars


def _ask_spark(packages: Sequence[str], ivy_dir: Path, settings: Mapping[str, str]) -> list[Path]:
    conf = SparkConf(loadDefaults=False)
    conf.set("spark.jars.packages", ",".join(packages)).set("spark.jars.ivy", str(ivy_dir))
    conf.set("spark.driver.memory", "256m")
    for name, value in settings.items():
        conf.set(name, value)
    with tempfile.TemporaryFile() as said, launch_environment():
        try:
            gateway = _launch(conf, {"stdout": said, "stderr": said})
        except PySparkRuntimeError as error:
            raise JarsNotResolvedError(_explain(packages, said)) from error
        try:
            listed: str = gateway.jvm.java.lang.System.getProperty("spark.jars") or ""
        finally:
            _stop(gateway)
    jars = [Path(re.sub(r"^file:(//)?", "", location)) for location in listed.split(",") if location]
    if not jars:
        raise JarsNotResolvedError(f"Spark resolved {', '.join(packages)} to no file at all")
    return jars


def _stop(gateway: Any) -> None:
    gateway.shutdown()
    gateway.proc.stdin.close()  # Java ends when this pipe does
    gateway.proc.wait(timeout=30)


def _explain(packages: Sequence[str], said: IO[bytes]) -> str:
    said.seek(0)
    lines = said.read().decode(errors="replace").splitlines()
    patterns = ("PKIX", "unresolved dependency", "Exception", "Error", r"\S")
    reason = next((line.strip() for pattern in patterns for line in lines if re.search(pattern, line)), "no message")
    cure = "check the network (Maven Central), or set spark.jars.repositories to a mirror"
    if "PKIX" in reason:
        cure = (
            "Java does not know the authority that signed the connection: "
            "set JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=FILE to a truststore that holds it"
        )
    return f"cannot get {', '.join(packages)}: {reason}; {cure}"


def _recorded(record: Path) -> list[Path] | None:
    try:
        entries = [
            (Path(path), int(size), str(digest)) for path, (size, digest) in json.loads(record.read_bytes()).items()
        ]
    except (OSError, ValueError, TypeError, AttributeError):  # absent, or nothing that was written here
        return None
    for jar, size, digest in entries:
        if not jar.is_file() or jar.stat().st_size != size or _digest_file(jar) != digest:
            jar.unlink(missing_ok=True)  # else Ivy takes the damaged file for a good one
            return None
    return [jar for jar, _, _ in entries] or None


def _record(record: Path, jars: list[Path]) -> None:
    entries = {str(jar): (jar.stat().st_size, _digest_file(jar)) for jar in jars}
    unfinished = record.with_suffix(".new")
    unfinished.write_text(json.dumps(entries, indent=1), encoding="utf-8")
    unfinished.replace(record)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest_file(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
