"""Services that grant and revoke privileges on an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import QuerySet

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.db.write_transaction import write_transaction
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Conflict, NotFound
from tenancy.actor import Actor, Grantee
from tenancy.audit.log import Event, record
from tenancy.audit.occurrences import record_denial
from tenancy.authz.actions import Can
from tenancy.authz.builtin.role_paths import NEVER, expiry_timestamp
from tenancy.authz.errors import GrantActionForbidden, display_name
from tenancy.authz.model import OWNERSHIP
from tenancy.authz.openfga.outbox import enqueue_grant
from tenancy.authz.permission_epoch import bump_permission_epoch, permission_epoch
from tenancy.authz.permissions import check_permissions, check_permissions_at, recheck_before_write
from tenancy.authz.privileges import ASSIGNEE, PASS_GRANTS, grant_action, is_privilege, reads_grants
from tenancy.authz.subject import is_unexpired
from tenancy.models import Grant, Role, RoleMember, Securable
from tenancy.refs import ObjectRef, securable_id
from tenancy.selectors.allowed_actions import checks_to_know, require_known
from tenancy.selectors.roles import require_visible_roles
from tenancy.services.administrators import administrated_by, keeping_administrators, lock_roles, require_to_appoint
from tenancy.services.lock_timeouts import GrantLockTimeout, waiting_for_grants
from tenancy.services.registration import lock_or_add_users, lock_users
from tenancy.services.role_nesting import lock_memberships, require_chain

MAX_CHANGES: Final = 100
"""Grants and revocations in one call."""


class InvalidGrantPrivilege(BadRequest):
    wire_type = "InvalidGrantPrivilege"


class GrantUserNotFound(BadRequest):
    wire_type = "GrantUserNotFound"


class GrantRoleNotInProject(BadRequest):
    wire_type = "GrantRoleNotInProject"


class GrantExpired(BadRequest):
    """The expiry of the grant is in the past."""

    wire_type = "GrantExpired"


class SelfAssignment(BadRequest):
    wire_type = "SelfAssignment"


class GrantExists(Conflict):
    wire_type = "TupleAlreadyExistsError"


class GrantNotFound(NotFound):
    wire_type = "TupleNotFoundError"


@dataclass(frozen=True, slots=True)
class GrantSpec:
    """A privilege of a grantee; revocations ignore `expires_at`."""

    privilege: str
    grantee: Grantee
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """Grants to write and to delete on an object, each (privilege, grantee) at most once."""

    writes: Sequence[GrantSpec] = ()
    deletes: Sequence[GrantSpec] = ()


@dataclass(frozen=True, slots=True)
class UnchangedGrants:
    """Entries of a difference without effect: grants that already existed, and revoked ones that did not exist."""

    present: Sequence[GrantSpec]
    absent: Sequence[GrantSpec]


def apply_grants(*, actor: Actor, ref: ObjectRef, difference: Difference, missing: CatalogError) -> None:
    """Apply a difference, all or nothing. Existing grants get the new expiry, missing ones count as revoked.

    With `pass_grants` alone, a grant must not expire later than the actor's own privileges.

    Raises `InvalidGrantPrivilege`, `GrantUserNotFound`, `GrantRoleNotInProject`, `GrantExpired`, `SelfAssignment`
    (400), `GrantActionForbidden` (403), `missing` if the object is hidden from the caller, `LastAdministrator` and
    `GrantLockTimeout` (409), and for roles in roles what `add_role_members` raises.
    """
    _change(actor, ref, difference, missing, on_unchanged=lambda _: None)


def assign(*, actor: Actor, ref: ObjectRef, difference: Difference, missing: CatalogError) -> None:
    """Apply as `apply_grants`, but raise `GrantExists` (409) or `GrantNotFound` (404) for entries without effect."""

    def on_unchanged(unchanged: UnchangedGrants) -> None:
        for each in unchanged.present:
            raise GrantExists(f"{each.privilege} on {display_name(ref, missing)} is granted to {each.grantee} already")
        for each in unchanged.absent:
            raise GrantNotFound(f"{each.privilege} on {display_name(ref, missing)} is not granted to {each.grantee}")

    _change(actor, ref, difference, missing, on_unchanged=on_unchanged)


def _require_to_grant(actor: Actor, ref: ObjectRef, difference: Difference, missing: CatalogError) -> bool:
    """Require that `actor` may apply the difference; return whether only `pass_grants` allows it.

    Raises `GrantActionForbidden` (403), or `missing` if neither the object nor its grants are visible to the actor.
    """
    changed, epoch = (*difference.writes, *difference.deletes), permission_epoch.current()
    names = list(dict.fromkeys(_effective_privilege(ref.type, each.privilege) for each in changed))
    checks, knowing = [(grant_action(name), ref) for name in names], checks_to_know(ref)
    can_be_passed = bool(difference.writes) and is_privilege(ref.type, PASS_GRANTS)
    managing = [(Can.GRANT_MANAGE_GRANTS, ref)] if can_be_passed else []
    results = check_permissions(actor, [*checks, *knowing, *managing])
    denied = [name for name, is_granted in zip(names, results[: len(names)], strict=True) if not is_granted]
    if not denied:
        is_passed = can_be_passed and not results[-1]
        recheck_before_write(actor, checks if is_passed else [*checks, *managing], epoch, missing)
        return is_passed
    is_hidden = bool(knowing) and not any(results[len(names) : len(names) + len(knowing)])
    reason = "CannotSeeResource" if is_hidden else "ActionForbidden"
    for name in denied:
        record_denial(
            actor=actor, action=grant_action(name), object_type=ref.type.value, object_id=ref.id, reason=reason
        )
    if is_hidden:
        raise missing
    raise GrantActionForbidden(f"{actor.name} may not grant on {display_name(ref, missing)}: {', '.join(denied[:5])}")


def _change(
    actor: Actor,
    ref: ObjectRef,
    difference: Difference,
    missing: CatalogError,
    *,
    on_unchanged: Callable[[UnchangedGrants], None],
) -> None:
    if not difference.writes and not difference.deletes:
        require_known(actor, ref, missing)
        return
    is_passed = _require_to_grant(actor, ref, difference, missing)
    _require_valid(
        ref, difference
    )  # after the check of permissions: errors of the change reveal that the object exists
    with write_transaction():
        on, projects = _lock(ref, difference, missing)
        _require_grantees(on, difference.writes, projects)
        if is_passed:
            require_to_outlast(actor, ref, [(each.privilege, each.expires_at) for each in difference.writes], missing)
        own_role = UUID(on.object_id) if on.type == Securable.Type.ROLE else None
        if own_role is not None:
            nested = [each.grantee.role_id for each in difference.writes if each.grantee.role_id is not None]
            require_visible_roles(actor, _project_id(on), nested, missing=_not_in_project)
            require_to_appoint(actor, own_role)
        with keeping_administrators([on.pk] if own_role is None else administrated_by(role_ids=[own_role])):
            revoked = [each for each in difference.deletes if _revoke(on, each)]
            granted = [each for each in difference.writes if _grant(on, each)]
            present = [each for each in difference.writes if each not in granted]
            on_unchanged(UnchangedGrants(present, [each for each in difference.deletes if each not in revoked]))
            updated = [
                each
                for each in present
                if _rows(on, each).exclude(expires_at=each.expires_at).update(expires_at=each.expires_at)
            ]
        for event, changes in ((Event.GRANT_REVOKED, revoked), (Event.GRANT_CREATED, [*granted, *updated])):
            for each in changes:
                _record(event, actor, on, each)
        for each in (*granted, *revoked, *updated):
            enqueue_grant(on.pk, each.privilege, user_id=each.grantee.user_id, role_id=each.grantee.role_id)
        if granted or revoked or updated:
            bump_permission_epoch()


def _record(event: Event, actor: Actor, on: Securable, change: GrantSpec) -> None:
    grantee, until = change.grantee, change.expires_at
    record(
        event,
        actor=actor,
        subject=on.object_id,
        object_type=on.type,
        privilege=change.privilege,
        user=grantee.user_id,
        role=None if grantee.role_id is None else str(grantee.role_id),
        until=None if until is None else until.isoformat(),
    )


def _require_valid(ref: ObjectRef, difference: Difference) -> None:
    at = now()
    for each in difference.writes:
        if not is_privilege(ref.type, each.privilege):
            raise InvalidGrantPrivilege(f"{each.privilege!r} cannot be granted on a {ref.type}")
        if each.expires_at is not None and each.expires_at <= at:
            raise GrantExpired(f"{each.privilege} for {each.grantee} would have ended already: {each.expires_at}")
        if ref.type is Securable.Type.ROLE and each.grantee.role_id == ref.id:
            raise SelfAssignment(f"Role {ref.id} cannot be granted to itself")


def _effective_privilege(securable_type: Securable.Type, privilege: str) -> str:
    """Return the privilege to check: a grant of a removed privilege needs the strongest one of the type."""
    return privilege if is_privilege(securable_type, privilege) else _STRONGEST[securable_type]


_STRONGEST: Final = {
    Securable.Type.SERVER: "operator",
    Securable.Type.PROJECT: "project_admin",
    Securable.Type.ROLE: OWNERSHIP,
    Securable.Type.TAG: OWNERSHIP,
    Securable.Type.WAREHOUSE: OWNERSHIP,
    Securable.Type.NAMESPACE: OWNERSHIP,
    Securable.Type.TABLE: OWNERSHIP,
    Securable.Type.VIEW: OWNERSHIP,
    Securable.Type.GENERIC_TABLE: OWNERSHIP,
}


def _lock(ref: ObjectRef, difference: Difference, missing: CatalogError) -> tuple[Securable, dict[UUID, str]]:
    """Lock memberships, users, roles and the securable, in the lock order of the product.

    Returns the securable and the project of each role. The locks exclude a concurrent deletion of grantees, which also
    deletes their grants.
    """
    changes = (*difference.writes, *difference.deletes)
    named_roles = [each.grantee.role_id for each in changes if each.grantee.role_id is not None]
    within: list[UUID] = []
    with waiting_for_grants():
        if ref.type is Securable.Type.ROLE:
            role = Role.objects.select_related("project").filter(pk=str(ref.id)).first()
            if role is None:
                raise missing
            lock_memberships(role.project)
            within.append(role.pk)
        _lock_users(difference)
        projects = lock_roles(role_ids=named_roles, within=within) if named_roles or within else {}
        on = lock_row(Securable, "id = %s", [securable_id(*ref)])
    if on is None:
        raise missing
    return on, projects


def _require_grantees(on: Securable, writes: Sequence[GrantSpec], projects: Mapping[UUID, str]) -> None:
    role_ids = {each.grantee.role_id for each in writes if each.grantee.role_id is not None}
    wanted = None if on.type == Securable.Type.SERVER else _project_id(on)
    foreign = role_ids - {pk for pk, project_id in projects.items() if wanted in {None, project_id}}
    if foreign:
        raise _not_in_project(min(foreign))


def _not_in_project(role_id: UUID) -> GrantRoleNotInProject:
    return GrantRoleNotInProject(f"Role does not exist in the project of the object: {role_id}")


def _lock_users(difference: Difference) -> None:
    """Lock all users in one step, which avoids deadlocks. Grantees must exist or belong to an identity provider."""
    granted, revoked = (
        {each.grantee.user_id for each in changes if each.grantee.user_id is not None}
        for changes in (difference.writes, difference.deletes)
    )
    present = lock_users(granted | revoked)
    if granted - present:
        lock_or_add_users(granted - present, GrantUserNotFound)


def _project_id(on: Securable) -> str:
    return next(part.partition(":")[2] for part in on.path.split("/") if part.startswith("project:"))


def _grant(on: Securable, change: GrantSpec) -> bool:
    """Write a grant; return whether there was no unexpired one before."""
    if _is_granted(on, change):
        return False
    _rows(on, change).delete()
    user_id, role_id = change.grantee.user_id, change.grantee.role_id
    role_on = UUID(on.object_id) if on.type == Securable.Type.ROLE else None
    if role_on is not None and role_id is not None:
        require_chain(role_on, [role_id])
    if role_on is not None and change.privilege == ASSIGNEE:
        RoleMember.objects.create(
            role_id=role_on, user_id=user_id, member_role_id=role_id, expires_at=change.expires_at
        )
        return True
    Grant.objects.create(
        securable=on,
        path=on.path,
        user_id=user_id,
        role_id=role_id,
        privilege=change.privilege,
        owned_role_id=role_on,
        expires_at=change.expires_at,
    )
    return True


def _revoke(on: Securable, change: GrantSpec) -> bool:
    """Delete a grant; return whether there was an unexpired one."""
    was_granted = _is_granted(on, change)
    _rows(on, change).delete()
    return was_granted


def _is_granted(on: Securable, change: GrantSpec) -> bool:
    return _rows(on, change).filter(is_unexpired(now())).exists()


def _rows(on: Securable, change: GrantSpec) -> QuerySet[Grant] | QuerySet[RoleMember]:
    grantee = change.grantee
    if on.type == Securable.Type.ROLE and change.privilege == ASSIGNEE:
        members = RoleMember.objects.filter(role_id=UUID(on.object_id))
        if grantee.role_id is None:
            return members.filter(user_id=grantee.user_id)
        return members.filter(member_role_id=grantee.role_id)
    grants = Grant.objects.filter(securable=on, privilege=change.privilege)
    if grantee.role_id is None:
        return grants.filter(user_id=grantee.user_id)
    return grants.filter(role_id=grantee.role_id)


__all__ = [
    "MAX_CHANGES",
    "Difference",
    "GrantActionForbidden",
    "GrantExists",
    "GrantExpired",
    "GrantLockTimeout",
    "GrantNotFound",
    "GrantRoleNotInProject",
    "GrantSpec",
    "GrantUserNotFound",
    "Grantee",
    "InvalidGrantPrivilege",
    "SelfAssignment",
    "UnchangedGrants",
    "apply_grants",
    "assign",
    "reads_grants",
    "require_known",
]


MAX_PRIVILEGE_LENGTH: Final = 256


class GrantDiffTooLarge(BadRequest):
    wire_type = "GrantDiffTooLarge"


class DuplicateGrantEntry(BadRequest):
    wire_type = "DuplicateGrantEntry"


class ContradictoryGrantDiff(BadRequest):
    """The same privilege would be granted and revoked."""

    wire_type = "ContradictoryGrantDiff"


class InvalidGrantPrivilegeLength(BadRequest):
    wire_type = "InvalidGrantPrivilegeLength"


def build_difference(*, writes: Sequence[GrantSpec], deletes: Sequence[GrantSpec]) -> Difference:
    """Validate a change of grants, independent of permissions.

    Raises `GrantDiffTooLarge`, `InvalidGrantPrivilegeLength`, `DuplicateGrantEntry` or `ContradictoryGrantDiff` (400).
    """
    number = len(writes) + len(deletes)
    if number > MAX_CHANGES:
        raise GrantDiffTooLarge(f"{number} changes of grants in one request, at most {MAX_CHANGES} are allowed")
    for each in (*writes, *deletes):
        if not 1 <= len(each.privilege) <= MAX_PRIVILEGE_LENGTH:
            raise InvalidGrantPrivilegeLength(f"A privilege has 1 to {MAX_PRIVILEGE_LENGTH} characters")
    written, deleted = _require_unique(writes, "writes"), _require_unique(deletes, "deletes")
    for privilege, grantee in written & deleted:
        raise ContradictoryGrantDiff(f"{privilege} for {grantee} is both granted and revoked")
    return Difference(writes, deletes)


def _require_unique(specs: Sequence[GrantSpec], where: str) -> set[tuple[str, Grantee]]:
    seen: set[tuple[str, Grantee]] = set()
    for each in specs:
        if (each.privilege, each.grantee) in seen:
            raise DuplicateGrantEntry(f"{where}: {each.privilege} for {each.grantee} is listed twice")
        seen.add((each.privilege, each.grantee))
    return seen


_LAST_MOMENT: Final = timedelta(microseconds=1)
"""A grant is last valid this long before its expiry."""


def require_to_outlast(
    actor: Actor, ref: ObjectRef, given: Sequence[tuple[str, datetime | None]], missing: CatalogError
) -> None:
    """Require that `actor` may still grant each privilege just before its expiry, also through memberships.

    Grants only expire, so a permission at that time also exists until then. Call it under the lock of the object. One
    check per privilege. `missing` has the name of the object in the request. Raises `GrantActionForbidden` (403).
    """
    latest: dict[str, datetime | None] = {}
    for privilege, end in given:
        latest[privilege] = max(latest.get(privilege, end), end, key=expiry_timestamp)
    for privilege, end in latest.items():
        action = grant_action(privilege)
        if not check_permissions_at(actor, [(action, ref)], NEVER if end is None else end - _LAST_MOMENT)[0]:
            record_denial(
                actor=actor, action=action, object_type=ref.type.value, object_id=ref.id, reason="ActionForbidden"
            )
            raise GrantActionForbidden(
                f"{actor.name} may not grant on {display_name(ref, missing)}: {privilege} for longer than they have it "
                "themselves with pass_grants; an earlier expires-at is needed"
            )
