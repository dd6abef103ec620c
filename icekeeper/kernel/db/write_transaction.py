"""The database transaction of a write, which reports an unknown outcome as such."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DatabaseError, InterfaceError, transaction

from icekeeper.kernel.errors.database import is_outcome_unknown
from icekeeper.kernel.errors.types import CommitStateUnknown
from icekeeper.kernel.request import deadline, permission_recheck


@contextmanager
def write_transaction() -> Iterator[None]:
    """Run the block in a transaction, after another check of the request's permissions and without its deadline.

    Raises `RequestTimeout` before the transaction begins, `CommitStateUnknown` (500) when the connection is lost during
    the commit, so that a client does not retry what may have happened. After any other error nothing is committed.
    """
    deadline.begin_write()
    is_committing = False
    try:
        with transaction.atomic():
            permission_recheck.recheck()
            yield
            permission_recheck.clear()  # before the callbacks of the commit
            is_committing = True
    except (DatabaseError, InterfaceError) as error:
        if is_committing and is_outcome_unknown(error):
            raise CommitStateUnknown("The database connection was lost during the commit") from error
        raise
    deadline.end_write()
