"""What tests of SQL say shortly: statements, their rows as tuples, the one row, what is in the table `ns.t`."""

# ruff: noqa: S608  statements are put together from names of the tests themselves

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Row, SparkSession

Sql = Callable[[str], list[Row]]
"""The fixture `sql`: runs a statement in which `ns` stands for the test's namespace."""


def rows(sql: Sql, query: str) -> list[tuple[Any, ...]]:
    """The rows of `query`, sorted by their text (nulls may stand anywhere)."""
    return sorted((tuple(row) for row in sql(query)), key=str)


def one(found: list[Row]) -> Row:
    (row,) = found
    return row


def ids(sql: Sql, table: str = "ns.t") -> list[int]:
    """The column `id`, in order."""
    return [row[0] for row in sql(f"SELECT id FROM {table} ORDER BY id")]


def snapshots(sql: Sql) -> list[int]:
    """Of `ns.t`, the oldest first."""
    return [row[0] for row in sql("SELECT snapshot_id FROM ns.t.snapshots ORDER BY committed_at, snapshot_id")]


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Within it Spark has this setting."""
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)
