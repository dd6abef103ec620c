"""The transaction of a write, which never calls an outcome certain that is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DatabaseError, InterfaceError, transaction

from icekeeper.kernel.errors.database import is_outcome_unknown
from icekeeper.kernel.errors.types import CommitStateUnknown
from icekeeper.kernel.request import deadline, permission_recheck


@contextmanager
def write_transaction() -> Iterator[None]:
    """From here on the request has no deadline. What fails inside was certainly not committed.

    What the write rests on is looked at again first. Raises `RequestTimeout` before anything begins,
    `CommitStateUnknown` (500) when the database was lost while it was asked to commit: then the caller must look, and
    must not be told to try again.
    """
    deadline.begin_write()
    is_committing = False
    try:
        with transaction.atomic():
            permission_recheck.recheck()
            yield
            permission_recheck.clear()  # before what is done once it is committed
            is_committing = True
    except (DatabaseError, InterfaceError) as error:
        if is_committing and is_outcome_unknown(error):
            raise CommitStateUnknown("The database was lost while it was asked to commit") from error
        raise
    deadline.end_write()
