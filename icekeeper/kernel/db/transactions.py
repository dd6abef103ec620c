"""The database transaction of a write, and the classification of its errors: overload, unknown outcome, constraint."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, connection, transaction
from psycopg_pool import PoolTimeout

from icekeeper.kernel import request_context
from icekeeper.kernel.errors.types import CatalogError, CommitStateUnknown


@contextmanager
def write_transaction() -> Iterator[None]:
    """Run the block in a transaction, after another check of the request's permissions and without its deadline.

    Raises `RequestTimeout` before the transaction begins, `CommitStateUnknown` (500) when the connection is lost during
    the commit, so that a client does not retry what may have happened. After any other error nothing is committed.
    """
    request_context.begin_write()
    is_committing = False
    try:
        with transaction.atomic():
            request_context.recheck_permissions()
            yield
            request_context.clear_permissions()  # before the callbacks of the commit
            is_committing = True
    except (DatabaseError, InterfaceError) as error:
        if is_committing and is_outcome_unknown(error):
            raise CommitStateUnknown("The database connection was lost during the commit") from error
        raise
    request_context.end_write()


MAX_LOCK_WAIT_SECONDS = 3.0


@contextmanager
def limited_lock_wait(timeout: CatalogError) -> Iterator[None]:
    """Raise `timeout` if the block waits for a row lock for longer than `MAX_LOCK_WAIT_SECONDS`.

    On PostgreSQL the limit also applies to the rest of the caller's transaction. SQLite has no row locks.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = {int(MAX_LOCK_WAIT_SECONDS * 1000)}")
    try:
        yield
    except OperationalError as error:
        if sqlstate(error) == _LOCK_NOT_AVAILABLE:
            raise timeout from error
        raise


_FOREIGN_KEY_VIOLATION = "23503"
_LOCK_NOT_AVAILABLE = "55P03"

_OVERLOAD = frozenset({"40001", "40P01", "53300", "55P03", "57014"})
"""Serialization failure, deadlock, too many connections, lock timeout, statement timeout."""

_SQLITE_OVERLOAD = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT})
_SQLITE_UNKNOWN = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL})


def sqlstate(error: BaseException) -> str:
    """Return PostgreSQL's five-character code; an empty string for SQLite and lost connections."""
    return str(getattr(error.__cause__, "sqlstate", None) or "")


def is_overload(error: BaseException) -> bool:
    """Return whether load caused the error: locks, deadlocks, timeouts, a pool without a free connection.

    The work was rolled back or never sent; a later attempt may succeed.
    """
    return _is_pool_timeout(error) or sqlstate(error) in _OVERLOAD or _sqlite_code(error) in _SQLITE_OVERLOAD


def is_outcome_unknown(error: DatabaseError | InterfaceError) -> bool:
    """Return whether a commit that raised `error` may have succeeded.

    This is so when the connection to PostgreSQL breaks or the server shuts down, and when SQLite cannot write to its
    disk. After any other error (locks, deadlocks, timeouts, constraints) the work was rolled back or never sent.
    """
    if _is_pool_timeout(error):
        return False
    sqlite_code = _sqlite_code(error)
    if sqlite_code is not None:
        return sqlite_code in _SQLITE_UNKNOWN
    code = sqlstate(error)
    return isinstance(error, OperationalError | InterfaceError) and (not code or code.startswith(("08", "57P")))


def is_foreign_key_violation(error: IntegrityError) -> bool:
    return sqlstate(error) == _FOREIGN_KEY_VIOLATION or "FOREIGN KEY" in str(error)


def _is_pool_timeout(error: BaseException) -> bool:
    return isinstance(error.__cause__, PoolTimeout)


def _sqlite_code(error: BaseException) -> int | None:
    """Return SQLite's primary result code (the extended one has more bits); None for errors of PostgreSQL."""
    cause = error.__cause__
    return getattr(cause, "sqlite_errorcode", 0) & 0xFF if isinstance(cause, sqlite3.Error) else None
