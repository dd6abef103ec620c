"""Statements of the hot paths: constant texts, so that PostgreSQL prepares each once a connection.

They go through psycopg, with binary results: on Django's own connection where the thread has one open (a transaction
sees what it wrote), else a read borrows one of the pool for as long as it lasts. Each is written once, with `%s`
places, in SQL that both databases read but for the few words of PostgreSQL that `_for_sqlite` knows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, TypeVar
from uuid import UUID

import psycopg
from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from psycopg_pool import ConnectionPool, PoolTimeout

from icekeeper.kernel.db.postgres_session import ReusableCursor, Session
from icekeeper.kernel.db.statement_deadline import has_default_limit, limit_statement
from icekeeper.kernel.request import permission_recheck

Row = tuple[Any, ...]
M = TypeVar("M", bound=models.Model)


def fetch_all(alias: str, statement: str, params: Sequence[Any]) -> list[Row]:
    """Run one statement on the database `alias` and return its rows.

    Parameters are as for PostgreSQL: UUIDs, datetimes, lists for `= ANY(%s)`. UUIDs and datetimes come back as such on
    PostgreSQL and as text on SQLite, bytes as `bytes`: see `as_uuid` and `as_datetime`.
    """
    connection = connections[alias]
    if connection.vendor != "postgresql":
        with _on_sqlite(connection, statement, params) as cursor:
            return list(cursor.fetchall())
    with connection.wrap_database_errors:
        if connection.connection is None and not connection.in_atomic_block and has_default_limit(connection):
            pool = connection.pool  # type: ignore[attr-defined]  # None for connections without one
            if pool is not None:
                return _borrowing(pool, statement, params)
        return _cursor_of(_open_session(connection)).fetch_all(statement, params)


def fetch_one(alias: str, statement: str, params: Sequence[Any]) -> Row | None:
    """The first row of `fetch_all`, None when there is none."""
    rows = fetch_all(alias, statement, params)
    return rows[0] if rows else None


def execute(statement: str, params: Sequence[Any]) -> int:
    """Run one statement that changes rows of the default database; how many it changed. Parameters as `fetch_all`."""
    connection = connections["default"]
    if connection.vendor != "postgresql":
        with _on_sqlite(connection, statement, params) as cursor:
            return int(cursor.rowcount)
    with connection.wrap_database_errors:
        return _cursor_of(_open_session(connection)).change(statement, params)


def lock_row(
    model: type[M], where: str, params: Sequence[Any], *, mode: Literal["NO KEY UPDATE", "UPDATE"] = "NO KEY UPDATE"
) -> M | None:
    """The row of `model` that `where` finds, locked to the end of the caller's transaction; None when there is none.

    `UPDATE` is for a row that is to be deleted: nobody can refer to it by a foreign key any more. SQLite has no row
    locks and needs none: its writers wait for each other. As others may have been waited for, what the write rests on
    is looked at again.
    """
    statement, names = _locking(model, where, mode)
    connection = connections["default"]
    locked: M | None
    if connection.vendor == "postgresql":
        row = fetch_one("default", statement, params)
        locked = None if row is None else model.from_db("default", names, row)
    else:
        converted = [_as_sqlite(connection, value) for value in params]
        locked = next(iter(model._default_manager.raw(_for_sqlite(statement), converted)), None)  # noqa: SLF001
    if locked is not None:
        permission_recheck.recheck()
    return locked


def as_uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(hex=value)


def as_datetime(value: Any) -> datetime:
    """SQLite keeps a text, in UTC."""
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return datetime.fromisoformat(value).replace(tzinfo=UTC)


Pool = ConnectionPool[psycopg.Connection[Row]]


def _borrowing(pool: Pool, statement: str, params: Sequence[Any]) -> list[Row]:
    """One statement without what Django does each time it opens and closes a connection of a pool.

    A read whose session turns out to be lost, as all are when the database was started anew, is sent again once the
    pool has replaced those.
    """
    try:
        return _on_one_of(pool, statement, params)
    except psycopg.OperationalError as error:
        if (
            isinstance(error, PoolTimeout)
            or error.sqlstate not in _SESSION_LOST
            or not statement.lstrip().startswith("SELECT")
        ):
            raise
    pool.check()
    return _on_one_of(pool, statement, params)


_SESSION_LOST = frozenset({None, "57P01", "57P02", "57P03"})
"""No answer at all, or the last words of a server that stops or crashed."""


def _on_one_of(pool: Pool, statement: str, params: Sequence[Any]) -> list[Row]:
    session = pool.getconn()
    try:
        if not session.autocommit:  # Django closed it within a transaction, and the pool rolled that back
            session.autocommit = True
        return _cursor_of(session).fetch_all(statement, params)
    finally:
        pool.putconn(session)


def _open_session(connection: BaseDatabaseWrapper) -> psycopg.Connection[Row]:
    connection.ensure_connection()
    limit_statement(connection)
    session: psycopg.Connection[Row] = connection.connection
    return session


def _cursor_of(session: psycopg.Connection[Row]) -> ReusableCursor:
    return session.reusable_cursor if isinstance(session, Session) else ReusableCursor(session)


def _on_sqlite(connection: BaseDatabaseWrapper, statement: str, params: Sequence[Any]) -> CursorWrapper:
    cursor = connection.cursor()
    cursor.execute(_for_sqlite(statement), [_as_sqlite(connection, value) for value in params])
    return cursor


@lru_cache(maxsize=256)
def _locking(model: type[models.Model], where: str, mode: str) -> tuple[str, list[str]]:
    """The statement, and what Django calls its columns."""
    fields = model._meta.concrete_fields  # noqa: SLF001 - Django's own name
    columns = ", ".join(str(field.column) for field in fields)
    table = model._meta.db_table  # noqa: SLF001
    return f"SELECT {columns} FROM {table} WHERE {where} FOR {mode}", [field.attname for field in fields]  # noqa: S608


_SQLITE_WORDS = (
    (re.compile(r"= ANY\(%s\)"), "IN (SELECT value FROM json_each(%s))"),
    (re.compile(r" USING ~<~"), ""),  # in the order of bytes, which is SQLite's own
    (re.compile(r"~(>=|>|<)~"), r"\1"),
    (re.compile(r" FOR ((NO KEY )?UPDATE|SHARE)\b"), ""),
    (re.compile(r"\bjson_agg\("), "json_group_array("),
    (re.compile(r"\bstring_agg\("), "group_concat("),
    (re.compile(r"\bstrpos\("), "instr("),
    (re.compile(r"\bunnest\(%s::uuid\[\]\) AS (\w+)\(value\)"), r"json_each(%s) AS \1"),
    (re.compile(r"::uuid\b"), ""),  # which is a text
    # Texts that need no quoting in JSON.
    (
        re.compile(r"= ANY\(string_to_array\((.+?), '(.)'\)\)"),
        r"""IN (SELECT value FROM json_each('["' || replace(\1, '\2', '","') || '"]'))""",
    ),
)


@lru_cache(maxsize=256)
def _for_sqlite(statement: str) -> str:
    for theirs, ours in _SQLITE_WORDS:
        statement = theirs.sub(ours, statement)
    return statement


def _as_sqlite(connection: BaseDatabaseWrapper, value: Any) -> Any:
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    if isinstance(value, list):
        return json.dumps([_as_sqlite(connection, each) for each in value])
    return value
