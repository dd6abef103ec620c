"""The floors of the benchmark: minimal programs on the same gunicorn, whose cost no catalog on this server can
undercut.

`/bytes/KEY` runs one prepared SELECT that returns as many bytes as the measured response has, `/pointer/KEY` one that
reads a short row, as a load does whose bytes are in memory. Bare WSGI functions: no Django, no routing, no checks.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

import psycopg

CREATE = """
CREATE TABLE floor (key text PRIMARY KEY, location text NOT NULL, version bigint NOT NULL, body bytea NOT NULL);
ALTER TABLE floor ALTER COLUMN body SET STORAGE EXTERNAL
"""
SELECT_BYTES = "SELECT body FROM floor WHERE key = %s"
SELECT_POINTER = "SELECT location::bytea FROM floor WHERE key = %s AND version = %s"

_thread = threading.local()


def fill(database_url: str, sizes: dict[str, int]) -> None:
    """Write one row for each measured read, as large as its response."""
    with psycopg.connect(database_url) as connection:
        connection.execute("DROP TABLE IF EXISTS floor")
        for statement in CREATE.split(";"):
            connection.execute(statement.strip())
        for key, size in sizes.items():
            location = f"file:///warehouse/bench/hot/metadata/00010-{key}.metadata.json"
            connection.execute("INSERT INTO floor VALUES (%s, %s, 1, %s)", (key, location, os.urandom(size)))
        connection.commit()
        connection.autocommit = True
        connection.execute("ANALYZE floor")


def _cursor() -> psycopg.Cursor[Any]:
    cursor: psycopg.Cursor[Any] | None = getattr(_thread, "cursor", None)
    if cursor is None:
        connection = psycopg.connect(os.environ["FLOOR_DATABASE_URL"], autocommit=True, prepare_threshold=0)
        cursor = _thread.cursor = psycopg.Cursor(connection)
    return cursor


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The WSGI entry point."""
    _, kind, key = environ["PATH_INFO"].split("/")
    cursor = _cursor()
    if kind == "bytes":
        cursor.execute(SELECT_BYTES, (key,), binary=True)
    else:
        cursor.execute(SELECT_POINTER, (key, 1), binary=True)
    row = cursor.fetchone()
    body: bytes = row[0] if row else b""
    start_response(
        "200 OK" if row else "404 Not Found",
        [("Content-Type", "application/json"), ("Content-Length", str(len(body)))],
    )
    return [body]
