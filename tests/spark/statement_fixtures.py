"""Short forms for tests of SQL: statements, their rows as tuples, a single row, the contents of the table `ns.t`."""

# ruff: noqa: S608 statements are built from names of the tests themselves

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Row, SparkSession

Sql = Callable[[str], list[Row]]
"""The fixture `sql`: runs a statement in which `ns` stands for the test's namespace."""


def rows(sql: Sql, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of `query`, sorted by their text (nulls may be at any position)."""
    return sorted((tuple(row) for row in sql(query)), key=str)


def one(found: list[Row]) -> Row:
    (row,) = found
    return row


def ids(sql: Sql, table: str = "ns.t") -> list[int]:
    """Return the column `id`, in order."""
    return [row[0] for row in sql(f"SELECT id FROM {table} ORDER BY id")]


def snapshots(sql: Sql) -> list[int]:
    """Return the snapshots of `ns.t`, the oldest first."""
    return [row[0] for row in sql("SELECT snapshot_id FROM ns.t.snapshots ORDER BY committed_at, snapshot_id")]


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Set a Spark setting inside the context."""
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)
