"""The lock under which the roles of a project are tied together: the project's row."""

from __future__ import annotations

from typing import Final

from django.db import OperationalError, connection

from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.errors.database import sqlstate
from icekeeper.kernel.errors.types import Conflict
from tenancy.models import Project
from tenancy.selectors.projects import ProjectNotFound

MAX_WAIT_SECONDS: Final = 3.0

_LOCK_TIMEOUT = "55P03"


class RoleMembershipLockTimeout(Conflict):
    """Others are changing memberships of the same project; later it may work."""

    wire_type, is_final = "RoleMembershipLockTimeout", False


def lock_memberships(project: Project) -> None:
    """Be the only one who changes which role is in which, to the end of the caller's transaction.

    Raises `ProjectNotFound` (404), and on PostgreSQL `RoleMembershipLockTimeout` (409) after three seconds, which also
    bound each later wait of the transaction. SQLite's writers wait for each other anyway.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = {int(MAX_WAIT_SECONDS * 1000)}")
    try:
        locked = lock_row(Project, "id = %s", [project.pk])
    except OperationalError as error:
        if sqlstate(error) == _LOCK_TIMEOUT:
            raise RoleMembershipLockTimeout("Others are changing the memberships of this project; try again") from error
        raise
    if locked is None:
        raise ProjectNotFound(f"Project does not exist: {project.pk}")
