"""A PostgreSQL session of the pools; it keeps one cursor for the statements of the hot paths (`kernel.db.sql`).

Making a cursor costs about a fifth of what a short prepared statement costs, as each copies the map of types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.rows import TupleRow


class ReusableCursor(psycopg.Cursor[TupleRow]):
    """A cursor that is used again and again. It does not hold on to rows, which may be large."""

    def fetch_all(self, statement: str, params: Sequence[Any]) -> list[TupleRow]:
        try:
            self._run(statement, params)
            return self.fetchall()
        finally:
            self._forget()

    def change(self, statement: str, params: Sequence[Any]) -> int:
        """The number of rows that the statement changed."""
        try:
            self._run(statement, params)
            return self.rowcount
        finally:
            self._forget()

    def _forget(self) -> None:
        self._reset()
        if (transformer := getattr(self, "_tx", None)) is not None:  # made by the first statement that is sent
            transformer.set_pgresult(None)

    def _run(self, statement: str, params: Sequence[Any]) -> None:
        # The pool turned preparing on or off for the session: `icekeeper.conf.database`.
        prepare = self.connection.prepare_threshold is not None
        self.execute(statement, params, prepare=prepare, binary=True)


class Session(psycopg.Connection[TupleRow]):
    """What the pools hold."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.reusable_cursor = ReusableCursor(self)
