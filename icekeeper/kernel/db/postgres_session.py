"""Connections of the PostgreSQL pools, each with one cursor for the statements of the hot paths (`kernel.db.sql`).

A new cursor copies the map of types, which costs about a fifth of a short prepared statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import psycopg
from psycopg.rows import TupleRow

from icekeeper.kernel.request.context import current_context


class ReusableCursor(psycopg.Cursor[TupleRow]):
    """A cursor for many statements. It releases its rows, which may be large, after each."""

    def fetch_all(self, statement: str, params: Sequence[Any]) -> list[TupleRow]:
        try:
            self._run(statement, params)
            return self.fetchall()
        finally:
            self._release_rows()

    def change(self, statement: str, params: Sequence[Any]) -> int:
        """Return the number of rows that the statement changed."""
        try:
            self._run(statement, params)
            return self.rowcount
        finally:
            self._release_rows()

    def _release_rows(self) -> None:
        self._reset()
        if (transformer := getattr(self, "_tx", None)) is not None:  # created by the first statement
            transformer.set_pgresult(None)

    def _run(self, statement: str, params: Sequence[Any]) -> None:
        # Whether the pool's connections prepare statements: `icekeeper.conf.database`.
        prepare = self.connection.prepare_threshold is not None
        started = perf_counter()
        try:
            self.execute(statement, params, prepare=prepare, binary=True)
        finally:
            context = current_context()
            context.statements += 1
            context.statement_seconds += perf_counter() - started


class PooledConnection(psycopg.Connection[TupleRow]):
    """A connection of a pool."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.reusable_cursor = ReusableCursor(self)
