"""The database connections of a thread."""

from __future__ import annotations

from django.db import connections

from icekeeper.kernel.db.statement_deadline import restore_statement_limits


def release_connections() -> None:
    """Return the pooled connections of this thread to their pool, except those in a transaction.

    Unlike Django's `close_old_connections` it opens none, and it restores the statement timeouts.
    """
    restore_statement_limits()
    for alias in connections.settings:
        connection = getattr(connections._connections, alias, None)  # type: ignore[attr-defined]  # noqa: SLF001
        if connection is not None and not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
