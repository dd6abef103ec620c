"""The last SQL queries of each user: only the user reads and deletes them, and one of them runs at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import BATCH, delete_in_batches
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.errors.types import Conflict, NotFound
from management.models import SqlQuery
from tenancy.actor import Actor
from tenancy.selectors.users import require_authenticated

MAX_QUERIES: Final = 50
"""Queries of one user; a further one deletes the oldest."""
RETENTION: Final = timedelta(days=90)
"""Older queries are deleted, also while SQL is off."""
_GRACE: Final = timedelta(seconds=60)
"""After the time limit of a query, a row without an end is that of a server process that ended early."""


@dataclass(slots=True)
class RunningQuery:
    """Set `row_count` when the query succeeded."""

    id: UUID
    row_count: int | None = None


@contextmanager
def recorded_query(*, actor: Actor, warehouse_id: UUID, sql: str) -> Iterator[RunningQuery]:
    """Record a query around the block that runs it; it replaces an earlier one with the same text.

    Raises `Conflict` (409) while another query of the user runs, on whichever server.
    """
    running = RunningQuery(_begin(actor, warehouse_id, sql))
    try:
        yield running
    finally:
        succeeded = running.row_count is not None
        status = SqlQuery.Status.SUCCEEDED if succeeded else SqlQuery.Status.FAILED
        with write_transaction():
            SqlQuery.objects.filter(pk=running.id).update(finished_at=now(), status=status, row_count=running.row_count)


def _begin(actor: Actor, warehouse_id: UUID, sql: str) -> UUID:
    at = now()
    oldest = at - timedelta(seconds=settings.ICEKEEPER.console.sql.timeout) - _GRACE
    with write_transaction():
        own = _own(actor)
        own.filter(finished_at=None, started_at__lt=oldest).update(finished_at=at, status=SqlQuery.Status.FAILED)
        row = SqlQuery(user_id=_owner(actor), warehouse_id=warehouse_id, sql=sql, started_at=at)
        SqlQuery.objects.bulk_create([row], ignore_conflicts=True)
        if not own.filter(pk=row.pk).exists():
            raise Conflict("Another query of yours is running: wait until it ends")
        own.exclude(pk=row.pk).filter(warehouse_id=warehouse_id, sql=sql).delete()
        kept = own.order_by("-started_at").values_list("pk", flat=True)[:MAX_QUERIES]
        own.exclude(pk__in=list(kept)).delete()
    return row.pk


def list_queries_for(*, actor: Actor) -> Sequence[SqlQuery]:
    """Return the queries of the actor, the newest first. One statement."""
    return list(_own(actor).order_by("-started_at")[:MAX_QUERIES])


def get_query_for(*, actor: Actor, query_id: UUID) -> SqlQuery:
    """Return a query of the actor. Raises `NotFound`, also for a query of another user."""
    found = _own(actor).filter(pk=query_id).first()
    if found is None:
        raise NotFound("No such query")
    return found


def delete_query(*, actor: Actor, query_id: UUID) -> None:
    """Delete a query of the actor. Raises `NotFound`, also for one that runs or is of another user."""
    with write_transaction():
        if not _own(actor).filter(pk=query_id, finished_at__isnull=False).delete()[0]:
            raise NotFound("No such query")


def delete_queries(*, actor: Actor) -> None:
    """Delete all queries of the actor but the one that runs."""
    with write_transaction():
        _own(actor).filter(finished_at__isnull=False).delete()


def delete_old_queries(*, actor: Actor, batch: int = BATCH) -> int:
    """Delete the queries of all users that are older than the retention period; return their number."""
    return delete_in_batches(SqlQuery.objects.filter(started_at__lt=now() - RETENTION), batch=batch)


def delete_queries_if_deleted(user_id: str) -> None:
    """Delete the queries of a deleted user, in the caller's transaction; those of a blocked one are kept.

    Of `settings.BLOCKED_USER_HOOKS`.
    """
    SqlQuery.objects.filter(user_id=user_id, user__deleted_at__isnull=False).delete()


def _own(actor: Actor) -> QuerySet[SqlQuery]:
    return SqlQuery.objects.filter(user_id=_owner(actor))


def _owner(actor: Actor) -> str:
    """Return the id of the user. Raises `AuthenticationRequired` (401) for anonymous actors."""
    require_authenticated(actor)
    return str(actor.user_id)
