from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.core.management.commands import migrate
from django.db import connections

LOCK: Final = 0x1CEB_E126
"""The key of PostgreSQL's advisory lock."""


class Command(migrate.Command):
    help = (
        "Bring the database to this version. May be called at any time and by several nodes at once: on PostgreSQL one "
        "migrates, the others wait and find nothing to do. No statement is cut off for taking long."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        with alone(options["database"]):
            super().handle(*args, **options)


@contextmanager
def alone(alias: str) -> Iterator[None]:
    """On PostgreSQL nobody else is in here, and statements may take longer than those of requests; locks may not."""
    connection = connections[alias]
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("SET lock_timeout = 0")
        cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        cursor.execute("RESET lock_timeout")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
            cursor.execute("RESET statement_timeout")
