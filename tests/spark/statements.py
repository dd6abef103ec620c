"""What tests of SQL say shortly: statements, their rows as tuples, the one row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Row

Sql = Callable[[str], list[Row]]
"""The fixture `sql`: runs a statement in which `ns` stands for the test's namespace."""


def rows(sql: Sql, query: str) -> list[tuple[Any, ...]]:
    """The rows of `query`, sorted by their text (nulls may stand anywhere)."""
    return sorted((tuple(row) for row in sql(query)), key=str)


def one(found: list[Row]) -> Row:
    (row,) = found
    return row
