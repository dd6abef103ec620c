"""Services that add and remove members of roles: users, and roles of the same project, without cycles.

Memberships of a project change under one lock; the depth of roles in roles is limited.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Q

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.db.transactions import limited_lock_wait
from icekeeper.kernel.errors.types import BadRequest, Conflict, NotFound
from tenancy.actor import Actor
from tenancy.audit.recording import actor_name
from tenancy.authz.actions import Can
from tenancy.authz.openfga.outbox import enqueue_members
from tenancy.authz.role_paths import read_edges_into, read_edges_out_of
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import ChangeTransaction, change
from tenancy.models import Project, Role, RoleMember
from tenancy.selectors.projects import no_such_project
from tenancy.selectors.roles import get_role_for, require_visible_roles, role_not_found
from tenancy.services.administrators import (
    administrated_by,
    keeping_administrators,
    lock_roles,
    require_permission_to_appoint,
)
from tenancy.services.registration import lock_or_add_users


class RoleMembershipLockTimeout(Conflict):
    """Other requests are changing memberships in the same project; a retry may succeed."""

    wire_type, is_final = "RoleMembershipLockTimeout", False


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
    # Expired memberships do not count: their renewal is checked again.
    above = _steps((each.inner, each.membership.role_id) for each in read_edges_out_of([role_id]))
    outer_roles = {role_id}.union(*above.values())
    for each in new_roles:
        if each in outer_roles:
            raise RoleMembershipCycle(f"Role {each} would be a member of itself, as {role_id} is in it")
    below = _steps((each.membership.role_id, each.inner) for each in read_edges_into(new_roles))
    steps = _longest_chain([role_id], above) + 1 + _longest_chain(new_roles, below)
    max_depth = settings.ICEKEEPER.role.max_nesting_depth
    if steps > max_depth:
        raise RoleMembershipDepthExceeded(f"Roles may be nested {max_depth} steps deep, not {steps}")


def _steps(edges: Iterable[tuple[UUID, UUID]]) -> dict[UUID, set[UUID]]:
    found: dict[UUID, set[UUID]] = {}
    for start, end in edges:
        found.setdefault(start, set()).add(end)
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


MAX_MEMBERS = 1000
"""Per request: other requests wait while these are checked."""


class RoleAssignmentUserNotFound(NotFound):
    wire_type = "RoleAssignmentUserNotFound"


@dataclass(frozen=True, slots=True)
class Members:
    """Users and roles by their ids, each once."""

    user_ids: Sequence[str] = ()
    role_ids: Sequence[UUID] = ()


def add_role_members(
    *, actor: Actor, project: Project, role_id: UUID, members: Members, expires_at: datetime | None = None
) -> Members:
    """Add users and roles to a role, all or none, until `expires_at` if given; return those who were added.

    Existing members stay, also with another expiry. Raises `BadRequest` (400) for more than a thousand and for a past
    `expires_at`, `RoleNotFoundInProject` for a role of another project or one that is hidden from the caller,
    `RoleAssignmentUserNotFound` (404), `GrantActionForbidden` (403) for a role of administrators whom the caller may
    not appoint, `RoleMembershipCycle`, `RoleMembershipDepthExceeded` and `RoleMembershipLockTimeout` (409).
    """
    if len(members.user_ids) + len(members.role_ids) > MAX_MEMBERS:
        raise BadRequest(f"members: more than {MAX_MEMBERS} in one request", field="members")
    if expires_at is not None and expires_at <= now():
        raise BadRequest("expires-at: must be in the future", field="expires-at")
    get_role_for(actor=actor, action=Can.MANAGE_ROLE_ASSIGNMENTS, project=project, role_id=role_id)
    missing = partial(role_not_found, project=project)
    require_visible_roles(actor, project.pk, members.role_ids, missing=missing)
    with change(actor) as tx:
        lock_memberships(project)
        # This lock also covers creation and deletion of roles; users have a lock on their own row.
        _require_roles(project, [role_id, *members.role_ids])
        lock_or_add_users(members.user_ids, RoleAssignmentUserNotFound)
        require_permission_to_appoint(actor, role_id)
        present = _delete_expired_members(role_id, members)
        new_users = [each for each in members.user_ids if each not in present.user_ids]
        new_roles = [each for each in members.role_ids if each not in present.role_ids]
        if new_roles:
            require_nestable(role_id, new_roles)
        membership = {"role_id": role_id, "expires_at": expires_at, "granted_by": actor_name(actor)}
        RoleMember.objects.bulk_create(
            [
                *(RoleMember(user_id=each, **membership) for each in new_users),
                *(RoleMember(member_role_id=each, **membership) for each in new_roles),
            ]
        )
        if new_users or new_roles:
            enqueue_members(role_id, user_ids=new_users, role_ids=new_roles)
        added = Members(new_users, new_roles)
        until = {} if expires_at is None else {"until": expires_at.isoformat()}
        _record(tx, Change.ROLE_MEMBERS_ADDED, project, role_id, added, **until)
    return added


def _delete_expired_members(role_id: UUID, members: Members) -> Members:
    """Return those who are members of the role; delete expired memberships of the others."""
    rows = RoleMember.objects.filter(Q(user__in=members.user_ids) | Q(member_role__in=members.role_ids), role=role_id)
    expired = [row.pk for row in rows if row.expires_at is not None and row.expires_at <= now()]
    if expired:
        RoleMember.objects.filter(pk__in=expired).delete()
    lasting = [row for row in rows if row.pk not in expired]
    return Members(
        [row.user_id for row in lasting if row.user_id is not None],
        [row.member_role_id for row in lasting if row.member_role_id is not None],
    )


def remove_role_members(*, actor: Actor, project: Project, role_id: UUID, members: Members) -> list[RoleMember]:
    """Remove users and roles from a role; ignores those that are not members. Return what was deleted.

    Raises `RoleNotFoundInProject` (404) for the role itself, `GrantActionForbidden` (403) for a role of administrators
    whom the caller may not appoint, `LastAdministrator` and `RoleMembershipLockTimeout` (409).
    """
    get_role_for(actor=actor, action=Can.MANAGE_ROLE_ASSIGNMENTS, project=project, role_id=role_id)
    with change(actor) as tx:
        lock_memberships(project)
        if role_id not in lock_roles(within=[role_id]):
            raise role_not_found(role_id, project)
        require_permission_to_appoint(actor, role_id)
        present = RoleMember.objects.filter(role_id=role_id)
        wanted = present.filter(Q(user__in=members.user_ids) | Q(member_role__in=members.role_ids))
        with keeping_administrators(administrated_by(role_ids=[role_id])):
            removed_rows = list(wanted.order_by("pk").select_for_update())
            RoleMember.objects.filter(pk__in=[each.pk for each in removed_rows]).delete()
        removed = Members(
            [each.user_id for each in removed_rows if each.user_id is not None],
            [each.member_role_id for each in removed_rows if each.member_role_id is not None],
        )
        _record(tx, Change.ROLE_MEMBERS_REMOVED, project, role_id, removed)
        if removed_rows:
            enqueue_members(role_id, user_ids=removed.user_ids, role_ids=removed.role_ids)
    return removed_rows


def _record(
    tx: ChangeTransaction, kind: Change, project: Project, role_id: UUID, members: Members, **details: Any
) -> None:
    users, roles = members.user_ids, members.role_ids
    if users or roles:
        tx.record(kind, subject=role_id, project=project.pk, users=users, roles=roles, **details)


def _require_roles(project: Project, role_ids: Sequence[UUID]) -> None:
    found = set(Role.objects.in_project(project).filter(pk__in=role_ids).values_list("pk", flat=True))
    for role_id in role_ids:
        if role_id not in found:
            raise role_not_found(role_id, project)
