"""SQL statements of the hot paths, sent through psycopg: constant texts, so that each is prepared once a connection.

They use Django's connection where the thread has one open (a transaction sees its own writes); otherwise a statement
takes a connection of the pool for its duration. Results are binary. Each statement is written once, for PostgreSQL;
`_for_sqlite` translates the few expressions that SQLite does not have.

A connection of a PostgreSQL pool has one cursor for them (`PooledConnection`): a new cursor copies the map of types,
which costs about a fifth of a short prepared statement.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import lru_cache
from time import perf_counter
from typing import Any, Literal, TypeVar
from uuid import UUID

import psycopg
from django.core.exceptions import EmptyResultSet
from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper
from django.db.models import QuerySet
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolTimeout

from icekeeper.kernel import request_context
from icekeeper.kernel.db.connections import has_default_limit, limit_statement
from icekeeper.kernel.request_context import current_context

Row = tuple[Any, ...]
M = TypeVar("M", bound=models.Model)
R = TypeVar("R")


def fetch_all(alias: str, statement: str, params: Sequence[Any]) -> list[Row]:
    """Run one statement on the database `alias` and return its rows.

    Parameters are those of PostgreSQL: UUIDs, datetimes, lists for `= ANY(%s)`. SQLite returns UUIDs and datetimes as
    text (see `as_uuid` and `as_datetime`); bytes are `bytes` on both.
    """
    connection = connections[alias]
    if connection.vendor != "postgresql":
        with _on_sqlite(connection, statement, params) as cursor:
            return list(cursor.fetchall())
    with connection.wrap_database_errors:
        if connection.connection is None and not connection.in_atomic_block and has_default_limit(connection):
            pool = connection.pool  # type: ignore[attr-defined]  # None for connections without one
            if pool is not None:
                return _fetch_from_pool(pool, statement, params)
        return _cursor_of(_open_session(connection)).fetch_all(statement, params)


def fetch_planned(alias: str, statement: str, params: Sequence[Any]) -> list[Row]:
    """Run one statement of the ORM that is planned with its parameters each time, and return its rows.

    For statements whose best plan depends on their parameters: one that is prepared and used often is planned without
    them. Values are those of `fetch_all`.
    """
    connection = connections[alias]
    with _unprepared(connection), connection.cursor() as cursor:
        cursor.execute(statement, params)
        return list(cursor.fetchall())


@contextmanager
def _unprepared(connection: BaseDatabaseWrapper) -> Iterator[None]:
    if connection.vendor != "postgresql":
        yield
        return
    session = _open_session(connection)
    threshold = session.prepare_threshold
    session.prepare_threshold = None
    try:
        yield
    finally:
        session.prepare_threshold = threshold


def fetch_planned_rows(rows: QuerySet[Any, Any]) -> list[Row]:
    """Return the rows of a QuerySet with `values_list` by `fetch_planned`; without a statement if none can match."""
    try:
        statement, params = rows.query.sql_with_params()
    except EmptyResultSet:
        return []
    return fetch_planned(rows.db, statement, params)


def fetch_one(alias: str, statement: str, params: Sequence[Any]) -> Row | None:
    """Return the first row of `fetch_all`; None without rows."""
    rows = fetch_all(alias, statement, params)
    return rows[0] if rows else None


def fetch_one_as(row_type: Callable[..., R], alias: str, statement: str, params: Sequence[Any]) -> R | None:
    """Return the result of `fetch_one` as a `NamedTuple`, whose fields are the columns in their order."""
    rows = fetch_all(alias, statement, params)
    return row_type(*rows[0]) if rows else None


def execute(statement: str, params: Sequence[Any]) -> int:
    """Run one statement that changes rows of the default database, and return their number. See `fetch_all`."""
    connection = connections["default"]
    if connection.vendor != "postgresql":
        with _on_sqlite(connection, statement, params) as cursor:
            return int(cursor.rowcount)
    with connection.wrap_database_errors:
        return _cursor_of(_open_session(connection)).change(statement, params)


def lock_row(
    model: type[M], where: str, params: Sequence[Any], *, mode: Literal["NO KEY UPDATE", "UPDATE"] = "NO KEY UPDATE"
) -> M | None:
    """Return the row of `model` that matches `where`, locked until the end of the transaction; None without one.

    `UPDATE` is for a row that is deleted afterwards: no new row can refer to it by a foreign key. SQLite has no row
    locks and needs none: its writers wait for each other. The wait for a lock may be long, so the recorded permissions
    of the request are checked again.
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
        request_context.recheck_permissions()
    return locked


def batches(items: Sequence[R], size: int) -> Iterator[Sequence[R]]:
    """Yield the items in slices of at most `size`, as a statement takes a limited number of parameters."""
    for first in range(0, len(items), size):
        yield items[first : first + size]


DATABASE_NOW = {
    "postgresql": "statement_timestamp()",
    # Milliseconds are rounded up: a row of the same millisecond is not in the future.
    "sqlite": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '+0.001 seconds')",
}
"""The time by the clock of the database, as an expression of a statement with parameters, by vendor."""


def database_time() -> datetime:
    """Return the time by the clock of the database, on which all servers and workers agree."""
    ((at,),) = fetch_all("default", f"SELECT {DATABASE_NOW[connections['default'].vendor]}", [])
    return as_datetime(at)


def database_time_in(seconds: str, vendor: str) -> str:
    """Return an expression for the time `seconds` from now, an expression itself, by the clock of the database."""
    if vendor == "postgresql":
        return f"statement_timestamp() + make_interval(secs => {seconds})"
    return f"strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '+' || {seconds} || ' seconds')"


def as_uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(hex=value)


def as_datetime(value: Any) -> datetime:
    """Return a datetime with time zone; SQLite returns text, in UTC."""
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return datetime.fromisoformat(value).replace(tzinfo=UTC)


Pool = ConnectionPool[psycopg.Connection[Row]]


def _fetch_from_pool(pool: Pool, statement: str, params: Sequence[Any]) -> list[Row]:
    """Run one statement without the work that Django does to open and close a pooled connection.

    A read on a broken connection (all are when the database has restarted) is sent again after the pool has replaced
    the broken ones.
    """
    try:
        return _fetch_once(pool, statement, params)
    except psycopg.OperationalError as error:
        if (
            isinstance(error, PoolTimeout)
            or error.sqlstate not in _CONNECTION_LOST
            or not statement.lstrip().startswith("SELECT")
        ):
            raise
    pool.check()
    return _fetch_once(pool, statement, params)


_CONNECTION_LOST = frozenset({None, "57P01", "57P02", "57P03"})
"""No response, or the message of a server that is stopping, has crashed or is starting."""


def _fetch_once(pool: Pool, statement: str, params: Sequence[Any]) -> list[Row]:
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
    return session.reusable_cursor if isinstance(session, PooledConnection) else ReusableCursor(session)


def _on_sqlite(connection: BaseDatabaseWrapper, statement: str, params: Sequence[Any]) -> CursorWrapper:
    cursor = connection.cursor()
    cursor.execute(_for_sqlite(statement), [_as_sqlite(connection, value) for value in params])
    return cursor


@lru_cache(maxsize=256)
def _locking(model: type[models.Model], where: str, mode: str) -> tuple[str, list[str]]:
    """Return the statement, and the attribute names of its columns."""
    fields = model._meta.concrete_fields  # noqa: SLF001 - Django's own name
    columns = ", ".join(str(field.column) for field in fields)
    table = model._meta.db_table  # noqa: SLF001
    return f"SELECT {columns} FROM {table} WHERE {where} FOR {mode}", [field.attname for field in fields]  # noqa: S608


_SQLITE_TRANSLATIONS = (
    (re.compile(r"= ANY\(%s\)"), "IN (SELECT value FROM json_each(%s))"),
    (re.compile(r" USING ~<~"), ""),  # the byte order, SQLite's default
    (re.compile(r"~(>=|>|<)~"), r"\1"),
    (re.compile(r" FOR ((NO KEY )?UPDATE|SHARE)\b"), ""),
    (re.compile(r"\bjson_agg\("), "json_group_array("),
    (re.compile(r"\bstring_agg\("), "group_concat("),
    (re.compile(r"\bstrpos\("), "instr("),
    (re.compile(r"\bunnest\(%s::(?:uuid|timestamptz)\[\]\) AS (\w+)\(value\)"), r"json_each(%s) AS \1"),
    (re.compile(r"::uuid\b"), ""),  # SQLite stores text
    # The parts need no quoting in JSON.
    (
        re.compile(r"= ANY\(string_to_array\((.+?), '(.)'\)\)"),
        r"""IN (SELECT value FROM json_each('["' || replace(\1, '\2', '","') || '"]'))""",
    ),
)


@lru_cache(maxsize=256)
def _for_sqlite(statement: str) -> str:
    for postgres, sqlite in _SQLITE_TRANSLATIONS:
        statement = postgres.sub(sqlite, statement)
    return statement


def _as_sqlite(connection: BaseDatabaseWrapper, value: Any) -> Any:
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list):
        return json.dumps([_as_sqlite(connection, each) for each in value])
    return value


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
