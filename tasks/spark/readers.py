"""The facts of a stored table as Spark and as PyIceberg see them."""

import zlib

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the customary name

from tasks.spark.facts import ColumnFacts, TableFacts
from tasks.spark.flights import MISSING, Dataset


def facts_through_spark(dataset: Dataset, frame: DataFrame) -> TableFacts:
    """Compute the facts of the data set's columns from a Spark frame, in one pass (two with months)."""
    text = F.concat_ws(",", *[F.coalesce(F.col(c).cast("string"), F.lit(MISSING)) for c in _exact(dataset)])
    wanted: list[Column] = [F.count(F.lit(1)).alias("rows"), F.sum(F.crc32(text)).alias("fingerprint")]
    for name, kind in dataset.columns.items():
        column = F.col(name)
        wanted.append(F.count(column).alias(f"present {name}"))
        if kind == "string":
            # not count(distinct): several of those in one query multiply the rows
            wanted.append(F.size(F.collect_set(column)).alias(f"distinct {name}"))
        else:
            number = F.unix_seconds(column) if kind == "timestamp" else column
            wanted.append(F.sum(number).alias(f"total {name}"))
    (row,) = frame.agg(*wanted).collect()
    found = row.asDict()
    columns = {
        name: ColumnFacts(found[f"present {name}"], found.get(f"distinct {name}"), found.get(f"total {name}"))
        for name in dataset.columns
    }
    months = frame.groupBy("month").count().orderBy("month").collect() if "month" in dataset.columns else []
    return TableFacts(found["rows"], found["fingerprint"] or 0, columns, {row["month"]: row["count"] for row in months})


def facts_through_pyiceberg(dataset: Dataset, table: Table) -> TableFacts:
    """Compute the facts of the data set's columns from a PyIceberg table, read whole into memory."""
    content = table.scan(selected_fields=tuple(dataset.columns)).to_arrow()
    columns = {name: _column(kind, content[name]) for name, kind in dataset.columns.items()}
    words = [pc.fill_null(pc.cast(content[name], pa.large_string()), MISSING) for name in _exact(dataset)]
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


def _exact(dataset: Dataset) -> list[str]:
    return dataset.of_type("int", "string")
