"""The database connections of a request: statement timeouts that follow its deadline, and their return to the pool.

No statement outlives its request, and each is counted and timed for the metrics.

PostgreSQL connections start with `statement_timeout = LAKEKEEPER__MAX_REQUEST_TIME`, so it is lowered only for a
request that has already spent a second or more. SQLite interrupts the statement of an expired request and limits its
wait for a lock. The timeouts are restored when the request ends.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from icekeeper.kernel.request_context import current_context, deadline_expired, remaining_seconds

SLACK_SECONDS = 1.0
"""A statement may run this much longer than its request: lowering the limit costs a round trip."""

_SQLITE_STEPS = 20_000
"""Virtual machine steps between two checks of the deadline, about a millisecond."""

logger = logging.getLogger("icekeeper.conf.database")


@dataclass(slots=True)
class _Limit:
    """The statement timeout of a connection, in seconds: by default and now."""

    default: float
    current: float


def install_statement_limits() -> None:
    """Apply the request's deadline to every database connection of this process. The server calls it at its start."""
    connection_created.connect(_prepare_connection, dispatch_uid="icekeeper.statement_limits")


def has_default_limit(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the default timeout is right for the next statement on `connection`.

    False for a connection that this thread has never opened: its default is not known yet. Raises `RequestTimeout`
    (408) when the request has no time left.
    """
    left = remaining_seconds()
    limit: _Limit | None = connection.__dict__.get("statement_limit")
    return limit is not None and (left is None or limit.default - left <= SLACK_SECONDS)


def limit_statement(connection: BaseDatabaseWrapper) -> None:
    """Limit the next statement on an open `connection` to the time that the request has left.

    Raises `RequestTimeout` (408) when none is left. After the write has started (`begin_write`) the default timeout
    applies.
    """
    left = remaining_seconds()
    limit: _Limit | None = connection.__dict__.get("statement_limit")
    if limit is None:
        return
    wanted = limit.default if left is None else min(left, limit.default)
    if limit.current - wanted > SLACK_SECONDS or (left is None and limit.current != wanted):
        context = current_context()
        context.limited_connections = (*context.limited_connections, connection)
        _apply(connection, wanted)
        limit.current = wanted


def restore_statement_limits() -> None:
    """Restore the default timeouts of this request's connections, before they return to the pool."""
    context = current_context()
    if not context.limited_connections:
        return
    limited, context.limited_connections = set(context.limited_connections), ()
    for connection in limited:
        if connection.connection is None:
            continue
        limit: _Limit = connection.__dict__["statement_limit"]
        try:
            # Always, even if a later statement has restored it: a rollback may have undone that.
            _apply(connection, limit.default)
            limit.current = limit.default
        except (DatabaseError, InterfaceError) as error:
            logger.warning("connection closed: its statement timeout could not be restored", exc_info=error)
            connection.close()


def release_connections() -> None:
    """Return the pooled connections of this thread to their pool, except those in a transaction.

    Unlike Django's `close_old_connections` it opens none, and it restores the statement timeouts.
    """
    restore_statement_limits()
    for alias in connections.settings:
        connection = getattr(connections._connections, alias, None)  # type: ignore[attr-defined]  # noqa: SLF001
        if connection is not None and not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


def _prepare_connection(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    if _execute_limited not in connection.execute_wrappers:
        connection.execute_wrappers.append(_execute_limited)
    default: float = settings.ICEKEEPER.max_request_time
    if connection.vendor == "sqlite":
        default = min(default, float(connection.settings_dict["OPTIONS"].get("timeout", 5.0)))
        connection.connection.set_progress_handler(deadline_expired, _SQLITE_STEPS)
        _apply(connection, default)
    connection.__dict__["statement_limit"] = _Limit(default, default)


def _execute_limited(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
    limit_statement(context["connection"])
    started = perf_counter()
    try:
        return execute(sql, params, many, context)
    finally:
        request = current_context()
        request.statements += 1
        request.statement_seconds += perf_counter() - started


def _apply(connection: BaseDatabaseWrapper, seconds: float) -> None:
    milliseconds = max(1, int(seconds * 1000))
    with connection.wrap_database_errors:
        if connection.vendor == "postgresql":
            connection.connection.execute(f"SET statement_timeout = {milliseconds}")
        else:
            connection.connection.execute(f"PRAGMA busy_timeout = {milliseconds}")
