"""Hot statements: on PostgreSQL prepared and with binary results, through psycopg on Django's own connection.

Django alone binds on the client and prepares nothing. A statement here is written once, with `%s` places, in SQL that
both databases read; its text is a constant, so that the server prepares it once a connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg
from django.db import connections

from icekeeper.kernel.statement_deadline import before_statement

Row = tuple[Any, ...]


def fetch_all(alias: str, statement: str, params: Sequence[Any]) -> list[Row]:
    """Run one statement on the database `alias` and return its rows.

    UUID parameters are converted for SQLite; UUID columns come back as `UUID` on PostgreSQL and as hex text on
    SQLite, bytes as `bytes`: see `as_uuid`.
    """
    connection = connections[alias]
    if connection.vendor != "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(statement, [value.hex if isinstance(value, UUID) else value for value in params])
            return list(cursor.fetchall())
    connection.ensure_connection()
    before_statement(connection)
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        # The pool turned preparing on or off for the connection: `icekeeper.database`.
        prepare = connection.connection.prepare_threshold is not None
        cursor.execute(statement, params, prepare=prepare, binary=True)
        return cursor.fetchall()


def fetch_one(alias: str, statement: str, params: Sequence[Any]) -> Row | None:
    """The first row of `fetch_all`, None when there is none."""
    rows = fetch_all(alias, statement, params)
    return rows[0] if rows else None


def as_uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(hex=value)
