"""The request's deadline, handed on to the database: no statement outlives the request that sent it.

PostgreSQL connections start with `statement_timeout = LAKEKEEPER__MAX_REQUEST_TIME`, so only a request that has already
spent a second or more needs a statement to lower it. SQLite interrupts a statement whose request has run out of time
and waits for a lock no longer than the request may. Whatever was lowered is restored when the request ends.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from icekeeper.kernel.request.context import current_context
from icekeeper.kernel.request.deadline import expired, remaining

SLACK_SECONDS = 1.0
"""A statement may run this much longer than its request: lowering the limit costs a round trip."""

_SQLITE_STEPS = 20_000
"""Virtual machine steps between two looks at the clock, about a millisecond."""

logger = logging.getLogger("icekeeper.conf.database")


@dataclass(slots=True)
class _Limit:
    """Seconds that the session gives a statement: at its start and now."""

    usual: float
    now: float


def install() -> None:
    """Make every database connection of this process keep to the request's deadline. Called once by the server."""
    connection_created.connect(_prepare_connection, dispatch_uid="icekeeper.statement_deadline")


def has_default_limit(connection: BaseDatabaseWrapper) -> bool:
    """Whether the next statement on `connection` may have the time that sessions give as they are.

    False for a connection that this thread has not opened before: only then its usual limit is known. Raises
    `RequestTimeout` (408) when the request has no time left.
    """
    left = remaining()
    limit: _Limit | None = connection.__dict__.get("statement_limit")
    return limit is not None and left is not None and limit.usual - left <= SLACK_SECONDS


def limit_statement(connection: BaseDatabaseWrapper) -> None:
    """Ask before each statement on an open `connection`: it is given no more time than the request has left.

    Raises `RequestTimeout` (408) when there is none. Once the write has started (`deadline.begin_write`) nothing
    limits a statement but the session's own timeout.
    """
    left = remaining()
    limit: _Limit | None = connection.__dict__.get("statement_limit")
    if limit is None:
        return
    wanted = limit.usual if left is None else min(left, limit.usual)
    if limit.now - wanted > SLACK_SECONDS or (left is None and limit.now != wanted):
        context = current_context()
        context.limited_connections = (*context.limited_connections, connection)
        _apply(connection, wanted)
        limit.now = wanted


def restore_statement_limits() -> None:
    """At the end of a request: give its connections their usual limit back before a pool hands them to others."""
    context = current_context()
    if not context.limited_connections:
        return
    limited, context.limited_connections = set(context.limited_connections), ()
    for connection in limited:
        if connection.connection is None:
            continue
        limit: _Limit = connection.__dict__["statement_limit"]
        try:
            # Always, even when a later statement already put it back: a rollback may have undone that.
            _apply(connection, limit.usual)
            limit.now = limit.usual
        except (DatabaseError, InterfaceError) as error:
            logger.warning("connection closed: its statement timeout could not be restored", exc_info=error)
            connection.close()


def _prepare_connection(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    if _ask_first not in connection.execute_wrappers:
        connection.execute_wrappers.append(_ask_first)
    usual: float = settings.ICEKEEPER.max_request_time
    if connection.vendor == "sqlite":
        usual = min(usual, float(connection.settings_dict["OPTIONS"].get("timeout", 5.0)))
        connection.connection.set_progress_handler(expired, _SQLITE_STEPS)
        _apply(connection, usual)
    connection.__dict__["statement_limit"] = _Limit(usual, usual)


def _ask_first(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
    limit_statement(context["connection"])
    return execute(sql, params, many, context)


def _apply(connection: BaseDatabaseWrapper, seconds: float) -> None:
    milliseconds = max(1, int(seconds * 1000))
    with connection.wrap_database_errors:
        if connection.vendor == "postgresql":
            connection.connection.execute(f"SET statement_timeout = {milliseconds}")
        else:
            connection.connection.execute(f"PRAGMA busy_timeout = {milliseconds}")
