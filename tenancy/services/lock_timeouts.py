"""Limits how long changes of grants and memberships wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.db import OperationalError, connection

from icekeeper.kernel.db.transactions import sqlstate
from icekeeper.kernel.errors.types import CatalogError, Conflict

MAX_WAIT_SECONDS: Final = 3.0
_LOCK_NOT_AVAILABLE: Final = "55P03"


class GrantLockTimeout(Conflict):
    """Other requests are changing the grants on the same object; a retry may succeed."""

    wire_type, is_final = "GrantLockTimeout", False


class RoleMembershipLockTimeout(Conflict):
    """Other requests are changing memberships in the same project; a retry may succeed."""

    wire_type, is_final = "RoleMembershipLockTimeout", False


@contextmanager
def limited_lock_wait(timeout: CatalogError) -> Iterator[None]:
    """Raise `timeout` if the block waits for a row lock for longer than `MAX_WAIT_SECONDS`.

    On PostgreSQL the limit also applies to the rest of the caller's transaction. SQLite has no row locks.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = {int(MAX_WAIT_SECONDS * 1000)}")
    try:
        yield
    except OperationalError as error:
        if sqlstate(error) == _LOCK_NOT_AVAILABLE:
            raise timeout from error
        raise


def grant_lock_timeout() -> GrantLockTimeout:
    return GrantLockTimeout("Others are changing the same grants; try again")
