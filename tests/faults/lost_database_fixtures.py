"""Exceptions of Django for a database connection that is lost during a statement."""

from __future__ import annotations

import sqlite3

import psycopg
from django.db import OperationalError, connection


def lost() -> OperationalError:
    """Return the error of the configured database, with the error of its driver as the cause."""
    cause: Exception
    if connection.vendor == "postgresql":
        cause = psycopg.OperationalError("server closed the connection unexpectedly")
    else:
        cause = sqlite3.OperationalError("disk I/O error")
        cause.sqlite_errorcode = sqlite3.SQLITE_IOERR
    error = OperationalError(str(cause))
    error.__cause__ = cause
    return error
