"""Roles in roles: the lock under which memberships change, no cycles, and a limited depth."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from django.conf import settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_uuid, fetch_all, lock_row
from icekeeper.kernel.errors.types import Conflict
from tenancy.models import Project
from tenancy.selectors.projects import no_such_project
from tenancy.services.lock_timeouts import RoleMembershipLockTimeout, limited_lock_wait

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


def require_nestable(role_id: UUID, new_roles: Sequence[UUID]) -> None:
    """Require that `new_roles` may become members or owners of the role without a cycle or too deep a chain.

    Call it under the lock of the project's memberships. A role that was created with an assumed role of another project
    is owned by that role, so a chain may cross projects: two concurrent requests, one in each project, may exceed the
    depth or close a cycle, which evaluation tolerates.

    Raises `RoleMembershipCycle`, `RoleMembershipDepthExceeded` (409).
    """
    at = now()
    above = _steps(fetch_all("default", _ABOVE, [at, at, role_id]))
    outer_roles = {role_id}.union(*above.values())
    for each in new_roles:
        if each in outer_roles:
            raise RoleMembershipCycle(f"Role {each} would be a member of itself, as {role_id} is in it")
    below = _steps(fetch_all("default", _BELOW, [at, at, list(new_roles)]))
    steps = _longest_chain([role_id], above) + 1 + _longest_chain(new_roles, below)
    max_depth = settings.ICEKEEPER.role.max_nesting_depth
    if steps > max_depth:
        raise RoleMembershipDepthExceeded(f"Roles may be nested {max_depth} steps deep, not {steps}")


def _steps(rows: Iterable[Sequence[object]]) -> dict[UUID, set[UUID]]:
    found: dict[UUID, set[UUID]] = {}
    for start, end in rows:
        found.setdefault(as_uuid(start), set()).add(as_uuid(end))
    return found


def _longest_chain(begin: Iterable[UUID], steps: Mapping[UUID, Collection[UUID]]) -> int:
    """Return the number of steps of the longest chain from one of `begin`; each role of a cycle counts once."""
    lengths: dict[UUID, int] = {}
    visited: set[UUID] = set()
    stack = [*begin]
    while stack:
        here = stack[-1]
        if here in lengths:
            stack.pop()
        elif here in visited:  # the lengths from the next roles are known, except in cycles
            lengths[here] = max((lengths[each] + 1 for each in steps.get(here, ()) if each in lengths), default=0)
        else:
            visited.add(here)
            stack += [each for each in steps.get(here, ()) if each not in visited]
    return max((lengths[each] for each in begin), default=0)


def lock_memberships(project: Project) -> None:
    """Lock the memberships in roles of a project against other changes, until the end of the caller's transaction.

    Raises `ProjectNotFound` (404) and `RoleMembershipLockTimeout` (409).
    """
    timeout = RoleMembershipLockTimeout("Others are changing the memberships of this project; try again")
    with limited_lock_wait(timeout):
        locked = lock_row(Project, "id = %s", [project.pk])
    if locked is None:
        raise no_such_project(project.pk)
