"""What a database error says about the work it interrupted."""

from __future__ import annotations

from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError

_FOREIGN_KEY_VIOLATION = "23503"


def sqlstate(error: BaseException) -> str:
    """PostgreSQL's five-character code; empty for SQLite and for lost connections."""
    return str(getattr(error.__cause__, "sqlstate", None) or "")


def is_outcome_unknown(error: DatabaseError | InterfaceError) -> bool:
    """Whether a transaction may have been committed although we were told of an error.

    So it is when the connection to PostgreSQL broke or the server is going down. Everything that PostgreSQL itself
    refuses (locks, deadlocks, timeouts, constraints) and everything in SQLite was rolled back.
    """
    if type(error.__cause__).__module__.startswith("sqlite3"):
        return False
    code = sqlstate(error)
    return isinstance(error, OperationalError | InterfaceError) and (not code or code.startswith(("08", "57P")))


def is_foreign_key_violation(error: IntegrityError) -> bool:
    return sqlstate(error) == _FOREIGN_KEY_VIOLATION or "FOREIGN KEY" in str(error)
