"""Limits on how long changes of grants and memberships wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.db import OperationalError, connection

from icekeeper.kernel.errors.database import sqlstate
from icekeeper.kernel.errors.types import Conflict

MAX_WAIT_SECONDS: Final = 3.0
_LOCK_TIMEOUT: Final = "55P03"


class GrantLockTimeout(Conflict):
    """Others are changing the grants of the same object; later it may work."""

    wire_type, is_final = "GrantLockTimeout", False


@contextmanager
def waiting_for_grants() -> Iterator[None]:
    """Around what locks the securable, in the caller's transaction, each later wait of which is bounded as well.

    Raises `GrantLockTimeout` (409) on PostgreSQL after three seconds. SQLite's writers wait for each other anyway.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = {int(MAX_WAIT_SECONDS * 1000)}")
    try:
        yield
    except OperationalError as error:
        if sqlstate(error) == _LOCK_TIMEOUT:
            raise GrantLockTimeout("Others are changing the same grants; try again") from error
        raise
