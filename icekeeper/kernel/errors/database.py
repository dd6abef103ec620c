"""What a database error says about the work it interrupted."""

from __future__ import annotations

import sqlite3

from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError
from psycopg_pool import PoolTimeout

_FOREIGN_KEY_VIOLATION = "23503"

_LOAD = frozenset({"40001", "40P01", "53300", "55P03", "57014"})
"""Serialization failure, deadlock, too many connections, lock timeout, statement timeout."""

_SQLITE_LOAD = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT})
_SQLITE_IN_DOUBT = frozenset({sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL})


def sqlstate(error: BaseException) -> str:
    """PostgreSQL's five-character code; empty for SQLite and for lost connections."""
    return str(getattr(error.__cause__, "sqlstate", None) or "")


def is_overload(error: BaseException) -> bool:
    """Whether others were in the way: locks, deadlocks, timeouts, a pool without a free connection.

    All of it was rolled back, or never sent; later it may work.
    """
    return _is_pool_timeout(error) or sqlstate(error) in _LOAD or _sqlite_code(error) in _SQLITE_LOAD


def is_outcome_unknown(error: DatabaseError | InterfaceError) -> bool:
    """Whether work that was being committed may have been, although we were told of an error.

    So it is when the connection to PostgreSQL broke or the server is going down, and when SQLite could not write to
    its disk. Everything else (locks, deadlocks, timeouts, constraints) was rolled back, or never sent.
    """
    if _is_pool_timeout(error):
        return False
    sqlite_code = _sqlite_code(error)
    if sqlite_code is not None:
        return sqlite_code in _SQLITE_IN_DOUBT
    code = sqlstate(error)
    return isinstance(error, OperationalError | InterfaceError) and (not code or code.startswith(("08", "57P")))


def is_foreign_key_violation(error: IntegrityError) -> bool:
    return sqlstate(error) == _FOREIGN_KEY_VIOLATION or "FOREIGN KEY" in str(error)


def _is_pool_timeout(error: BaseException) -> bool:
    return isinstance(error.__cause__, PoolTimeout)


def _sqlite_code(error: BaseException) -> int | None:
    """SQLite's primary result code (the extended one has more bits); None when it is not SQLite's."""
    cause = error.__cause__
    return getattr(cause, "sqlite_errorcode", 0) & 0xFF if isinstance(cause, sqlite3.Error) else None
