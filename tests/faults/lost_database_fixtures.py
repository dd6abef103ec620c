"""What Django raises when the database is lost in the middle of a statement."""

from __future__ import annotations

import sqlite3

import psycopg
from django.db import OperationalError, connection


def lost() -> OperationalError:
    """To be raised: the error of the database at hand, with its driver's own as the cause."""
    cause: Exception
    if connection.vendor == "postgresql":
        cause = psycopg.OperationalError("server closed the connection unexpectedly")
    else:
        cause = sqlite3.OperationalError("disk I/O error")
        cause.sqlite_errorcode = sqlite3.SQLITE_IOERR  # type: ignore[attr-defined]
    error = OperationalError(str(cause))
    error.__cause__ = cause
    return error
