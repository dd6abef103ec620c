"""The database connections of a thread, which a pool or the thread itself keeps."""

from __future__ import annotations

from django.db import connections

from icekeeper.kernel.db.statement_deadline import restore_statement_limits


def release_connections() -> None:
    """Let other requests have the pooled connections of this thread; those in a transaction stay.

    As Django's `close_old_connections`, for the connections that are there, and with their usual statement limits.
    """
    restore_statement_limits()
    for alias in connections.settings:
        connection = getattr(connections._connections, alias, None)  # type: ignore[attr-defined]  # noqa: SLF001
        if connection is not None and not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
