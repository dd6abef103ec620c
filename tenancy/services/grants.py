"""Services that grant and revoke privileges on an object, and set managed access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.db.transactions import limited_lock_wait
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Conflict, NotFound
from tenancy.actor import Actor, Grantee
from tenancy.audit.occurrences import record_denial
from tenancy.audit.recording import actor_name
from tenancy.authz.actions import ASSIGNEE, PASS_GRANTS, Can, grant_action, is_privilege
from tenancy.authz.model import OWNERSHIP
from tenancy.authz.openfga.outbox import enqueue_grant, enqueue_managed_access
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.permissions import (
    GrantActionForbidden,
    check_permissions,
    check_permissions_at,
    display_name,
    recheck_before_write,
    require_not_hidden,
    require_permission,
    visibility_checks,
)
from tenancy.authz.role_paths import NEVER, expiry_timestamp
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import ChangeTransaction, change
from tenancy.models import Grant, Role, RoleMember, Securable
from tenancy.models.grant import GrantQuerySet
from tenancy.models.role import RoleMemberQuerySet
from tenancy.models.securable import ObjectRef, project_in, securable_id
from tenancy.selectors.grant_previews import GrantRoleNotInProject as GrantRoleNotInProject  # noqa: PLC0414 - raised here
from tenancy.selectors.grant_previews import digest_of_grants, role_not_in_project
from tenancy.selectors.roles import require_visible_roles
from tenancy.services.administrators import (
    administrated_by,
    keeping_administrators,
    lock_roles,
    require_permission_to_appoint,
)
from tenancy.services.registration import lock_or_add_users, lock_users
from tenancy.services.role_members import lock_memberships, require_nestable

MAX_CHANGES: Final = 100
"""Grants and revocations in one request."""

MAX_PRIVILEGE_LENGTH: Final = 256

_LAST_MOMENT: Final = timedelta(microseconds=1)
"""A grant is last valid this long before its expiry."""

_STRONGEST: Final = {Securable.Type.SERVER: "operator", Securable.Type.PROJECT: "project_admin"}
"""The strongest privilege of a type of objects; of all other types it is ownership."""


class GrantLockTimeout(Conflict):
    """Other requests are changing the grants on the same object; a retry may succeed."""

    wire_type, is_final = "GrantLockTimeout", False


class GrantDiffTooLarge(BadRequest):
    wire_type = "GrantDiffTooLarge"


class DuplicateGrantEntry(BadRequest):
    wire_type = "DuplicateGrantEntry"


class ContradictoryGrantDiff(BadRequest):
    """The same privilege would be granted and revoked."""

    wire_type = "ContradictoryGrantDiff"


class InvalidGrantPrivilegeLength(BadRequest):
    wire_type = "InvalidGrantPrivilegeLength"


class InvalidGrantPrivilege(BadRequest):
    wire_type = "InvalidGrantPrivilege"


class GrantUserNotFound(BadRequest):
    wire_type = "GrantUserNotFound"


class GrantExpired(BadRequest):
    """The expiry of the grant is in the past."""

    wire_type = "GrantExpired"


class SelfAssignment(BadRequest):
    wire_type = "SelfAssignment"


class GrantsChanged(Conflict):
    """The grants of the grantees on the object are not those that the caller has seen."""

    wire_type = "GrantsChanged"


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


@dataclass(slots=True)
class _Applied:
    """The entries of a difference by their effect: `present` grants existed already, `absent` ones did not exist."""

    granted: list[GrantSpec] = field(default_factory=list)
    present: list[GrantSpec] = field(default_factory=list)
    revoked: list[GrantSpec] = field(default_factory=list)
    absent: list[GrantSpec] = field(default_factory=list)


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


def apply_grants(*, actor: Actor, ref: ObjectRef, difference: Difference, missing: CatalogError) -> None:
    """Apply a difference, all or nothing. Existing grants get the new expiry, missing ones count as revoked.

    With `pass_grants` alone, a grant must not expire later than the actor's own privileges.

    Raises `InvalidGrantPrivilege`, `GrantUserNotFound`, `GrantRoleNotInProject`, `GrantExpired`, `SelfAssignment`
    (400), `GrantActionForbidden` (403), `missing` if the object is hidden from the caller, `LastAdministrator` and
    `GrantLockTimeout` (409), and for roles in roles what `add_role_members` raises.
    """
    _apply(actor, ref, difference, missing, is_strict=False)


def apply_assignments(
    *,
    actor: Actor,
    ref: ObjectRef,
    difference: Difference,
    missing: CatalogError,
    expected_digest: str | None = None,
) -> None:
    """Apply as `apply_grants`, but raise `GrantExists` (409) or `GrantNotFound` (404) for entries without effect.

    Raises `GrantsChanged` (409) if `expected_digest` is not the `digest_of_grants` of the grantees under the lock.
    """
    _apply(actor, ref, difference, missing, is_strict=True, expected_digest=expected_digest)


def _apply(
    actor: Actor,
    ref: ObjectRef,
    difference: Difference,
    missing: CatalogError,
    *,
    is_strict: bool,
    expected_digest: str | None = None,
) -> None:
    if not difference.writes and not difference.deletes:
        require_not_hidden(actor, ref, missing)
        return
    is_passed = _require_permission_to_grant(actor, ref, difference, missing)
    # After the permission check: errors of the difference reveal that the object exists.
    _require_valid(ref, difference)
    with change(actor) as tx:
        on, projects = _lock(ref, difference, missing)
        if expected_digest is not None:
            _require_unchanged(ref, difference, expected_digest)
        _require_grantees_in_project(on, difference.writes, projects)
        if is_passed:
            _require_own_expiry(actor, ref, difference.writes, missing)
        role_id = _role_id(on)
        if role_id is not None:
            nested = [each.grantee.role_id for each in difference.writes if each.grantee.role_id is not None]
            require_visible_roles(actor, project_in(on.path) or "", nested, missing=role_not_in_project)
            require_permission_to_appoint(actor, role_id)
        with keeping_administrators([on.pk] if role_id is None else administrated_by(role_ids=[role_id])):
            applied = _write(on, difference, actor_name(actor))
            if is_strict:
                _require_all_effective(applied, display_name(ref, missing))
            renewed = [each for each in applied.present if _renew(on, each)]
        written = [*applied.granted, *renewed]
        for kind, specs in ((Change.GRANT_REVOKED, applied.revoked), (Change.GRANT_CREATED, written)):
            for each in specs:
                _record(tx, kind, on, each)
        changed = [*applied.granted, *applied.revoked, *renewed]
        for each in changed:
            enqueue_grant(on.pk, each.privilege, user_id=each.grantee.user_id, role_id=each.grantee.role_id)


def _require_unique(specs: Sequence[GrantSpec], member: str) -> set[tuple[str, Grantee]]:
    seen: set[tuple[str, Grantee]] = set()
    for each in specs:
        if (each.privilege, each.grantee) in seen:
            raise DuplicateGrantEntry(f"{member}: {each.privilege} for {each.grantee} is listed twice", field=member)
        seen.add((each.privilege, each.grantee))
    return seen


def _require_permission_to_grant(actor: Actor, ref: ObjectRef, difference: Difference, missing: CatalogError) -> bool:
    """Require that `actor` may apply the difference; return whether only `pass_grants` allows it.

    Raises `GrantActionForbidden` (403), or `missing` if neither the object nor its grants are visible to the actor.
    """
    epoch, changed = permission_epoch.current(), (*difference.writes, *difference.deletes)
    names = list(dict.fromkeys(_privilege_to_check(ref.type, each.privilege) for each in changed))
    granting, seeing = [(grant_action(name), ref) for name in names], visibility_checks(ref)
    can_be_passed = bool(difference.writes) and is_privilege(ref.type, PASS_GRANTS)
    managing = [(Can.GRANT_MANAGE_GRANTS, ref)] if can_be_passed else []
    results = check_permissions(actor, [*granting, *seeing, *managing])
    denied = [name for name, is_granted in zip(names, results[: len(names)], strict=True) if not is_granted]
    if not denied:
        is_passed = can_be_passed and not results[-1]
        recheck_before_write(actor, granting if is_passed else [*granting, *managing], epoch, missing)
        return is_passed
    is_hidden = bool(seeing) and not any(results[len(names) : len(names) + len(seeing)])
    reason = "CannotSeeResource" if is_hidden else "ActionForbidden"
    for name in denied:
        _record_denial(actor, ref, name, reason)
    if is_hidden:
        raise missing
    raise GrantActionForbidden(f"{actor.name} may not grant on {display_name(ref, missing)}: {', '.join(denied[:5])}")


def _privilege_to_check(securable_type: Securable.Type, privilege: str) -> str:
    """Return the privilege to check: changing a privilege that does not exist needs the strongest one of the type."""
    return privilege if is_privilege(securable_type, privilege) else _STRONGEST.get(securable_type, OWNERSHIP)


def _require_own_expiry(actor: Actor, ref: ObjectRef, writes: Sequence[GrantSpec], missing: CatalogError) -> None:
    """Require that grants by `pass_grants` alone expire no later than the privileges of `actor`.

    One check per privilege, just before its expiry: grants only expire, so a permission at that time exists until then.
    Call it under the lock of the object. Raises `GrantActionForbidden` (403).
    """
    latest: dict[str, datetime | None] = {}
    for each in writes:
        latest[each.privilege] = max(latest.get(each.privilege, each.expires_at), each.expires_at, key=expiry_timestamp)
    for privilege, end in latest.items():
        at = NEVER if end is None else end - _LAST_MOMENT
        if not check_permissions_at(actor, [(grant_action(privilege), ref)], at)[0]:
            _record_denial(actor, ref, privilege, "ActionForbidden")
            raise GrantActionForbidden(
                f"{actor.name} may not grant on {display_name(ref, missing)}: {privilege} for longer than they have it "
                "themselves with pass_grants; an earlier expires-at is needed",
                field="expires-at",
            )


def _record_denial(actor: Actor, ref: ObjectRef, privilege: str, reason: str) -> None:
    record_denial(
        actor=actor, action=grant_action(privilege), object_type=ref.type.value, object_id=ref.id, reason=reason
    )


def _require_valid(ref: ObjectRef, difference: Difference) -> None:
    at = now()
    for each in difference.writes:
        if not is_privilege(ref.type, each.privilege):
            raise InvalidGrantPrivilege(f"{each.privilege!r} cannot be granted on a {ref.type}", field="privilege")
        if each.expires_at is not None and each.expires_at <= at:
            end = f"{each.expires_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
            raise GrantExpired(
                f"{each.privilege} for {each.grantee} would have ended already: {end}", field="expires-at"
            )
        if ref.type is Securable.Type.ROLE and each.grantee.role_id == ref.id:
            raise SelfAssignment(f"Role {ref.id} cannot be granted to itself", field="principal")


def _lock(ref: ObjectRef, difference: Difference, missing: CatalogError) -> tuple[Securable, dict[UUID, str]]:
    """Lock memberships, users, roles and the securable, in the lock order of the product.

    Returns the securable and the project of each role. The locks exclude a concurrent deletion of grantees, which also
    deletes their grants.
    """
    changes = (*difference.writes, *difference.deletes)
    grantee_roles = [each.grantee.role_id for each in changes if each.grantee.role_id is not None]
    within: list[UUID] = []
    with limited_lock_wait(grant_lock_timeout()):
        if ref.type is Securable.Type.ROLE:
            role = Role.objects.select_related("project").filter(pk=str(ref.id)).first()
            if role is None:
                raise missing
            lock_memberships(role.project)
            within.append(role.pk)
        _lock_users(difference)
        projects = lock_roles(role_ids=grantee_roles, within=within) if grantee_roles or within else {}
        on = lock_row(Securable, "id = %s", [securable_id(*ref)])
    if on is None:
        raise missing
    return on, projects


def _require_unchanged(ref: ObjectRef, difference: Difference, expected_digest: str) -> None:
    grantees = {each.grantee for each in (*difference.writes, *difference.deletes)}
    if digest_of_grants(ref=ref, grantees=grantees) != expected_digest:
        raise GrantsChanged("The grants on the object have changed since they were read")


def _lock_users(difference: Difference) -> None:
    """Lock all users in one step, which avoids deadlocks. Grantees must exist or belong to an identity provider."""
    granted, revoked = (
        {each.grantee.user_id for each in changes if each.grantee.user_id is not None}
        for changes in (difference.writes, difference.deletes)
    )
    present = lock_users(granted | revoked)
    if granted - present:
        lock_or_add_users(granted - present, GrantUserNotFound)


def _require_grantees_in_project(on: Securable, writes: Sequence[GrantSpec], projects: Mapping[UUID, str]) -> None:
    role_ids = {each.grantee.role_id for each in writes if each.grantee.role_id is not None}
    wanted = project_in(on.path)
    foreign = role_ids - {pk for pk, project_id in projects.items() if wanted in {None, project_id}}
    if foreign:
        raise role_not_in_project(min(foreign))


def _role_id(on: Securable) -> UUID | None:
    """Return the id of the role that the securable is, None for other types."""
    return UUID(on.object_id) if on.type == Securable.Type.ROLE else None


def _write(on: Securable, difference: Difference, by: str) -> _Applied:
    applied = _Applied()
    for each in difference.deletes:
        (applied.revoked if _revoke(on, each) else applied.absent).append(each)
    for each in difference.writes:
        (applied.granted if _grant(on, each, by) else applied.present).append(each)
    return applied


def _require_all_effective(applied: _Applied, name: str) -> None:
    for each in applied.present:
        raise GrantExists(f"{each.privilege} on {name} is granted to {each.grantee} already")
    for each in applied.absent:
        raise GrantNotFound(f"{each.privilege} on {name} is not granted to {each.grantee}")


def _grant(on: Securable, change: GrantSpec, by: str) -> bool:
    """Write a grant or membership by the actor `by`; return whether no unexpired one existed before."""
    if _is_granted(on, change):
        return False
    _rows(on, change).delete()
    user_id, member_role_id, role_id = change.grantee.user_id, change.grantee.role_id, _role_id(on)
    if role_id is not None and member_role_id is not None:
        require_nestable(role_id, [member_role_id])
    if role_id is not None and change.privilege == ASSIGNEE:
        RoleMember.objects.create(
            role_id=role_id,
            user_id=user_id,
            member_role_id=member_role_id,
            expires_at=change.expires_at,
            granted_by=by,
        )
        return True
    Grant.objects.create(
        securable=on,
        path=on.path,
        user_id=user_id,
        role_id=member_role_id,
        privilege=change.privilege,
        owned_role_id=role_id,
        expires_at=change.expires_at,
        granted_by=by,
    )
    return True


def _revoke(on: Securable, change: GrantSpec) -> bool:
    """Delete a grant; return whether there was an unexpired one."""
    was_granted = _is_granted(on, change)
    _rows(on, change).delete()
    return was_granted


def _renew(on: Securable, change: GrantSpec) -> bool:
    """Set the expiry of an existing grant; return whether it was another one."""
    return bool(_rows(on, change).exclude(expires_at=change.expires_at).update(expires_at=change.expires_at))


def _is_granted(on: Securable, change: GrantSpec) -> bool:
    return _rows(on, change).unexpired(now()).exists()


def _rows(on: Securable, change: GrantSpec) -> GrantQuerySet | RoleMemberQuerySet:
    user_id, role_id, own_role_id = change.grantee.user_id, change.grantee.role_id, _role_id(on)
    if own_role_id is not None and change.privilege == ASSIGNEE:
        members = RoleMember.objects.in_role(own_role_id)
        return members.filter(user_id=user_id) if role_id is None else members.filter(member_role_id=role_id)
    return Grant.objects.on(on.pk).granted_to(user_id=user_id, role_id=role_id).filter(privilege=change.privilege)


def _record(tx: ChangeTransaction, kind: Change, on: Securable, spec: GrantSpec) -> None:
    grantee, until = spec.grantee, spec.expires_at
    tx.record(
        kind,
        project=project_in(on.path),
        subject=on.object_id,
        object_type=on.type,
        privilege=spec.privilege,
        user=grantee.user_id,
        role=None if grantee.role_id is None else str(grantee.role_id),
        until=None if until is None else until.isoformat(),
    )


def grant_lock_timeout() -> GrantLockTimeout:
    return GrantLockTimeout("Others are changing the same grants; try again")


def set_managed_access(*, actor: Actor, ref: ObjectRef, is_managed: bool, missing: CatalogError) -> None:
    """Enable or disable managed access on a warehouse or namespace. Idempotent.

    Raises `missing` if the object is hidden from the caller, the type's own error (403) if the caller may not set it,
    and `GrantLockTimeout` (409).
    """
    require_not_hidden(actor, ref, missing)
    require_permission(actor, Can.SET_MANAGED_ACCESS, *ref)
    with change(actor) as tx:
        with limited_lock_wait(grant_lock_timeout()):
            on = lock_row(Securable, "id = %s", [securable_id(*ref)])
        if on is None:
            raise missing
        if on.managed_access == is_managed:
            return
        Securable.objects.filter(pk=on.pk).update(managed_access=is_managed)
        tx.record(
            Change.MANAGED_ACCESS_SET,
            project=project_in(on.path),
            subject=on.object_id,
            object_type=on.type,
            managed_access=is_managed,
        )
        enqueue_managed_access(on.pk)
