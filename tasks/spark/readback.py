"""The reading half of the demo: what another process finds in the catalog, compared with the CSV files."""

import zlib
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from tasks.spark.facts import ColumnFacts, FlightFigures, TableFacts, differences
from tasks.spark.flights import DATASETS, FLIGHTS, MISSING, Dataset
from tasks.spark.ingest import TAG, check_gain, facts_through_spark
from tasks.spark.progress import PipelineStep, WrongResultError, check


@dataclass(frozen=True)
class StoredTable:
    """Size of one table according to its current metadata."""

    name: str
    rows: int
    snapshots: int
    files: int
    """Data and delete files of the current snapshot."""
    size: int
    """Their bytes."""


@dataclass(frozen=True)
class Readback:
    """What every step needs, and what they found. The session's current catalog is the one that is read."""

    spark: SparkSession
    catalog: Catalog
    expected: dict[str, TableFacts]
    figures: FlightFigures
    stored: list[StoredTable] = field(default_factory=list)
    flights_read: dict[str, int] = field(default_factory=dict)
    """Reader to rows of flights."""


def connect_pyiceberg(*, uri: str, warehouse: str, token: str | None) -> Catalog:
    """Return PyIceberg's client of the catalog."""
    # without a token it would send the words "Bearer None"
    access: dict[str, Any] = {"token": token} if token is not None else {"auth": {"type": "noop"}}
    return load_catalog("icekeeper", type="rest", uri=uri, warehouse=warehouse, **access)


def facts_through_pyiceberg(dataset: Dataset, table: Table) -> TableFacts:
    """Compute the facts of the data set's columns from a PyIceberg table, read whole into memory."""
    content = table.scan(selected_fields=tuple(dataset.columns)).to_arrow()
    columns = {name: _column(kind, content[name]) for name, kind in dataset.columns.items()}
    words = [pc.fill_null(pc.cast(content[name], pa.large_string()), MISSING) for name in dataset.exact_columns]
    texts = pc.binary_join_element_wise(*words, pa.scalar(",", pa.large_string()))
    fingerprint = sum(zlib.crc32(text.encode()) for chunk in texts.chunks for text in chunk.to_pylist())
    months: dict[int, int] = {}
    if "month" in dataset.columns:
        counted = pc.value_counts(content["month"]).to_pylist()
        months = {entry["values"]: entry["counts"] for entry in sorted(counted, key=lambda entry: entry["values"])}
    return TableFacts(content.num_rows, fingerprint, columns, months)


def _column(kind: str, values: pa.ChunkedArray) -> ColumnFacts:
    present = len(values) - values.null_count
    if kind == "string":
        return ColumnFacts(present, distinct=pc.count_distinct(values, mode="only_valid").as_py())
    if kind == "timestamp":
        values = pc.divide(pc.cast(values, pa.int64()), 1_000_000)
    return ColumnFacts(present, total=pc.sum(values).as_py())


def read_through_spark(run: Readback) -> str:
    """Compare all five tables, read through Spark, with the files."""
    for dataset in DATASETS:
        found = facts_through_spark(dataset, run.spark.table(dataset.table))
        _compare(run, dataset, found)
        if dataset is FLIGHTS:
            run.flights_read["Spark"] = found.rows
    check_gain(run.spark, run.figures)
    return f"{len(DATASETS)} tables equal to their files"


def read_through_pyiceberg(run: Readback) -> str:
    """Compare all five tables, read through PyIceberg, with the files."""
    for dataset in DATASETS:
        table = run.catalog.load_table(tuple(dataset.table.split(".")))
        found = facts_through_pyiceberg(dataset, table)
        _compare(run, dataset, found)
        if dataset is FLIGHTS:
            run.flights_read["PyIceberg"] = found.rows
        files = table.inspect.files().to_pydict()
        run.stored.append(
            StoredTable(
                name=dataset.table,
                rows=found.rows,
                snapshots=len(table.snapshots()),
                files=len(files["file_path"]),
                size=sum(files["file_size_in_bytes"]),
            )
        )
    return f"{len(DATASETS)} tables equal to their files"


def read_history(run: Readback) -> str:
    """Read the tagged version through both."""
    wanted = run.expected["flights"].rows
    through_spark = run.spark.read.option("versionAsOf", TAG).table(FLIGHTS.table).count()
    check(through_spark == wanted, f"Spark reads {through_spark} flights in the tagged version, expected {wanted}")
    table = run.catalog.load_table(("nyc", "flights"))
    tagged = table.snapshot_by_name(TAG)
    if tagged is None:
        raise WrongResultError(f"PyIceberg does not find the tag {TAG}")
    rows = table.scan(snapshot_id=tagged.snapshot_id, selected_fields=("year",)).count()
    check(rows == wanted, f"PyIceberg reads {rows} flights in the tagged version, expected {wanted}")
    return f"{rows:,} rows in {TAG}, {len(table.history())} changes in the log"


def read_namespaces(run: Readback) -> str:
    """List what the namespaces hold through both."""
    wanted = {dataset.table for dataset in DATASETS}
    listed = {".".join(name) for level in (("nyc",), ("nyc", "reference")) for name in run.catalog.list_tables(level)}
    check(wanted <= listed, f"PyIceberg lists {sorted(listed)}, expected {sorted(wanted)}")
    seen = {
        f"{level}.{row.tableName}"
        for level in ("nyc", "nyc.reference")
        for row in run.spark.sql(f"SHOW TABLES IN {level}").collect()
    }
    check(wanted <= seen, f"Spark lists {sorted(seen)}, expected {sorted(wanted)}")
    return f"{len(wanted)} tables listed"


def table_of(stored: list[StoredTable]) -> str:
    """Lay out what is stored as lines of text."""
    lines = [f"{'table':<24}{'rows':>10}{'snapshots':>11}{'files':>7}{'bytes':>13}"]
    lines += [
        f"{table.name:<24}{table.rows:>10,}{table.snapshots:>11}{table.files:>7}{table.size:>13,}" for table in stored
    ]
    return "\n".join(lines)


def _compare(run: Readback, dataset: Dataset, found: TableFacts) -> None:
    wrong = differences(run.expected[dataset.name], found)
    check(not wrong, f"{dataset.table} differs from its file: {'; '.join(wrong)}")


STEPS = (
    PipelineStep("list the tables", read_namespaces),
    PipelineStep("read everything through Spark", read_through_spark),
    PipelineStep("read everything through PyIceberg", read_through_pyiceberg),
    PipelineStep("read the tagged version", read_history),
)
