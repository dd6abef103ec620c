"""Roles in roles: the lock under which memberships change, no cycles, and a limited depth."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import OperationalError, connection

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_uuid, fetch_all, lock_row
from icekeeper.kernel.errors.database import sqlstate
from icekeeper.kernel.errors.types import Conflict
from tenancy.models import Project
from tenancy.selectors.projects import ProjectNotFound

# Owners of a role are members. Expired rows do not count: their renewal is checked again.
_INSIDE = """inside(outer_id, inner_id) AS (
    SELECT role_id, member_role_id FROM tenancy_rolemember
     WHERE member_role_id IS NOT NULL AND (expires_at IS NULL OR expires_at > %s)
    UNION ALL
    SELECT owned_role_id, role_id FROM tenancy_grant
     WHERE owned_role_id IS NOT NULL AND role_id IS NOT NULL AND (expires_at IS NULL OR expires_at > %s)
)"""

_ABOVE = f"""
WITH RECURSIVE {_INSIDE}, above(id) AS (
    SELECT id FROM tenancy_role WHERE id = %s
    UNION
    SELECT inside.outer_id FROM above JOIN inside ON inside.inner_id = above.id
)
SELECT inside.inner_id, inside.outer_id FROM above JOIN inside ON inside.inner_id = above.id
"""  # noqa: S608 - constant texts, as below

_BELOW = f"""
WITH RECURSIVE {_INSIDE}, below(id) AS (
    SELECT id FROM tenancy_role WHERE id = ANY(%s)
    UNION
    SELECT inside.inner_id FROM below JOIN inside ON inside.outer_id = below.id
)
SELECT inside.outer_id, inside.inner_id FROM below JOIN inside ON inside.outer_id = below.id
"""  # noqa: S608


class RoleMembershipCycle(Conflict):
    wire_type = "RoleMembershipCycle"


class RoleMembershipDepthExceeded(Conflict):
    wire_type = "RoleMembershipDepthExceeded"


def require_chain(role_id: UUID, new_roles: Sequence[UUID]) -> None:
    """Require that `new_roles` may become members or owners of the role without a cycle or too deep a chain.

    Call it under the lock of the project's memberships. A role that was created with an assumed role of another project
    is owned by that role, so a chain may cross projects: two concurrent requests, one in each project, may exceed the
    depth or close a cycle, which evaluation tolerates.

    Raises `RoleMembershipCycle`, `RoleMembershipDepthExceeded` (409).
    """
    at = now()
    above = _steps(fetch_all("default", _ABOVE, [at, at, role_id]))
    holders = {role_id}.union(*above.values())
    for each in new_roles:
        if each in holders:
            raise RoleMembershipCycle(f"Role {each} would be a member of itself, as {role_id} is in it")
    below = _steps(fetch_all("default", _BELOW, [at, at, list(new_roles)]))
    steps = _longest_chain([role_id], above) + 1 + _longest_chain(new_roles, below)
    max_depth = settings.ICEKEEPER.role.max_nesting_depth
    if steps > max_depth:
        raise RoleMembershipDepthExceeded(f"Roles may be nested {max_depth} steps deep, not {steps}")


def _steps(rows: Iterable[Sequence[object]]) -> dict[UUID, set[UUID]]:
    found: dict[UUID, set[UUID]] = {}
    for here, there in rows:
        found.setdefault(as_uuid(here), set()).add(as_uuid(there))
    return found


def _longest_chain(begin: Iterable[UUID], steps: Mapping[UUID, Collection[UUID]]) -> int:
    """Of the longest chain from one of `begin`. Each role of a circle, which an earlier version took, counts once."""
    lengths: dict[UUID, int] = {}
    under_way: set[UUID] = set()
    waiting = [*begin]
    while waiting:
        here = waiting[-1]
        if here in lengths:
            waiting.pop()
        elif here in under_way:  # what comes behind it is known, but for the circles that it is in
            behind = (lengths[each] + 1 for each in steps.get(here, ()) if each in lengths)
            lengths[here] = max(behind, default=0)
        else:
            under_way.add(here)
            waiting += [each for each in steps.get(here, ()) if each not in under_way]
    return max((lengths[each] for each in begin), default=0)


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
