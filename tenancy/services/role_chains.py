"""Roles in roles: never in a circle, and no chain longer than a check of OpenFGA follows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from django.conf import settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_uuid, fetch_all
from icekeeper.kernel.errors.types import Conflict

# Owners of a role are in it. What has ended does not count: it can only be made anew, which asks again.
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
    """That `new_roles` may be put into the role, or own it: none of them holds it, and no chain grows too long.

    To be asked under the lock of the project's memberships. A role that was made in an assumed role of another project
    is owned by that one, so a chain may lead through several projects: two requests in one moment, one in each, may
    make it longer than it may be, or a circle, of which evaluation finds the end, too.

    Raises `RoleMembershipCycle`, `RoleMembershipDepthExceeded` (409).
    """
    at = now()
    above = _steps(fetch_all("default", _ABOVE, [at, at, role_id]))
    holders = {role_id}.union(*above.values())
    for each in new_roles:
        if each in holders:
            raise RoleMembershipCycle(f"Role {each} would be a member of itself, as {role_id} is in it")
    below = _steps(fetch_all("default", _BELOW, [at, at, list(new_roles)]))
    steps = _longest([role_id], above) + 1 + _longest(new_roles, below)
    most = settings.ICEKEEPER.role.max_nesting_depth
    if steps > most:
        raise RoleMembershipDepthExceeded(f"Roles may be nested {most} steps deep, this would make it {steps}")


def _steps(rows: Iterable[Sequence[object]]) -> dict[UUID, set[UUID]]:
    found: dict[UUID, set[UUID]] = {}
    for here, there in rows:
        found.setdefault(as_uuid(here), set()).add(as_uuid(there))
    return found


def _longest(begin: Iterable[UUID], steps: Mapping[UUID, Collection[UUID]]) -> int:
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
