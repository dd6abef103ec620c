"""Preview of a change of the grants on an object: who would gain or lose which permissions on it. Writes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from uuid import UUID

from icekeeper.kernel.errors.types import BadRequest
from tenancy.actor import Actor, Grantee, is_instance_admin
from tenancy.audit.occurrences import record_access_review
from tenancy.authz.access_review import (
    GrantChanges,
    GrantedRow,
    Rights,
    reached_below,
    read_users,
    standing_actions,
)
from tenancy.authz.actions import Can, is_privilege, reads_grants
from tenancy.authz.permissions import check_permissions, require_permission
from tenancy.authz.port import Subject
from tenancy.authz.role_paths import RoleGraph
from tenancy.models import Project, Role, Securable
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.grants import ListedGrant, list_grants_to
from tenancy.selectors.object_reviews import ObjectReview
from tenancy.selectors.objects import PermissionTarget
from tenancy.selectors.principal_names import PrincipalName, name_principals
from tenancy.selectors.roles import require_visible_roles

MAX_PRINCIPALS: Final = 1_000
"""Principals whose permissions are compared."""

Pair = tuple[str, Grantee]
"""A privilege and the principal that it is granted to."""


class UnknownPrivilege(BadRequest):
    wire_type = "InvalidGrantPrivilege"


class GrantRoleNotInProject(BadRequest):
    wire_type = "GrantRoleNotInProject"


def role_not_in_project(role_id: UUID) -> GrantRoleNotInProject:
    return GrantRoleNotInProject(f"Role does not exist in the project of the object: {role_id}", field="principal")


@dataclass(frozen=True, slots=True)
class Effect:
    """What a principal would gain and lose on the object: privileges, and actions as the API names them."""

    principal: Grantee
    gained: Sequence[str]
    lost: Sequence[str]
    gained_privileges: Sequence[str]
    lost_privileges: Sequence[str]


@dataclass(frozen=True, slots=True)
class GrantPreview:
    """`grants` and `revocations` are the changes that have an effect on the rows; the others are `unchanged`.

    `effects` is None where it cannot be evaluated: members of roles. Without `is_complete` more principals are affected
    than were compared; `withheld` are the affected roles whose members the actor may not list, and which therefore are
    left out. `lost_by_actor` are the permissions that the actor would lose. `digest` covers the current grants of the
    principals whose grants the change touches. `names` are those of all principals of the preview.
    """

    grants: Sequence[Pair]
    revocations: Sequence[Pair]
    unchanged: Sequence[Pair]
    effects: Sequence[Effect] | None
    is_complete: bool
    withheld: Collection[UUID]
    lost_by_actor: Sequence[str]
    below: Sequence[tuple[str, Sequence[tuple[str, Sequence[str]]]]]
    digest: str
    names: Mapping[Grantee, PrincipalName]


def preview_grants_for(
    *,
    actor: Actor,
    target: PermissionTarget,
    project: Project | None,
    grants: Collection[Pair],
    revocations: Collection[Pair],
) -> GrantPreview:
    """Return the effect of granting and revoking on an object of `project`, by the grants in the database.

    The permission to read the grants is required; the service requires that to change them. Members of roles are
    compared as far as the actor may list them. The preview is recorded in the audit trail, as a review.
    Raises the target's `missing` (404), the type's own error (403), `UnknownPrivilege` and `GrantRoleNotInProject`
    (400).
    """
    ref = target.ref
    require_permission(actor, reads_grants(ref), *ref, missing=target.missing)
    for privilege, _grantee in grants:
        if not is_privilege(ref.type, privilege):
            raise UnknownPrivilege(f"{privilege[:100]!r} cannot be granted on a {ref.type}", field="privilege")
    _require_visible_grantees(actor, ref, project, {grantee for _, grantee in grants})
    grantees = {grantee for _, grantee in (*grants, *revocations)}
    record_access_review(
        actor=actor,
        ref=(ref.type.value, ref.id),
        project=None if project is None else project.pk,
        details={"export": False, "previewed": sorted(map(str, grantees))},
    )
    rows = list_grants_to(ref=ref, grantees=grantees)
    present = {(row.privilege, row.grantee) for row in rows}
    to_grant = [each for each in dict.fromkeys(grants) if each not in present]
    to_revoke = [each for each in dict.fromkeys(revocations) if each in present]
    unchanged = [each for each in grants if each in present] + [each for each in revocations if each not in present]
    changed = {grantee for _, grantee in (*to_grant, *to_revoke)}
    if ref.type is Securable.Type.ROLE:
        names = name_principals(grantees)
        effects, affected, lost = None, _Affected(set()), list[str]()
    else:
        review = ObjectReview(ref, roles={each.role_id for each in changed if each.role_id is not None})
        affected = _find_affected(actor, changed, review.graph)
        names = name_principals(grantees.union(affected.principals))
        existing = [each for each in affected.principals if names[each].exists]
        effects, lost = _compare(actor, review, to_grant, to_revoke, existing)
    digest = digest_of(ref, [row for row in rows if row.grantee in changed])
    granted_names = dict.fromkeys(privilege for privilege, _ in to_grant)
    below = [(name, tuple(reached_below(ref.type.value, name).items())) for name in granted_names]
    return GrantPreview(
        to_grant, to_revoke, unchanged, effects, affected.is_complete, affected.withheld, lost,
        [(name, reached) for name, reached in below if reached], digest, names,
    )  # fmt: skip


def _require_visible_grantees(
    actor: Actor, ref: ObjectRef, project: Project | None, grantees: Collection[Grantee]
) -> None:
    """Require of roles what the service requires to grant to them."""
    role_ids = sorted({each.role_id for each in grantees if each.role_id is not None}, key=str)
    if not role_ids:
        return
    present = Role.objects.filter(pk__in=role_ids)
    if project is not None:
        present = present.in_project(project)
    foreign = set(role_ids) - set(present.values_list("pk", flat=True))
    if foreign:
        raise role_not_in_project(min(foreign))
    if ref.type is Securable.Type.ROLE and project is not None:
        require_visible_roles(actor, project.pk, role_ids, missing=role_not_in_project)


def digest_of_grants(*, ref: ObjectRef, grantees: Collection[Grantee]) -> str:
    """Return what identifies the current grants on an object to these principals. Checks no permission."""
    return digest_of(ref, list_grants_to(ref=ref, grantees=grantees))


def digest_of(ref: ObjectRef, rows: Sequence[ListedGrant]) -> str:
    """Return the digest of grants on an object, in any order."""
    lines = sorted(f"{row.privilege} {row.grantee} {row.expires_at} {row.created_at}" for row in rows)
    return sha256("\n".join([securable_id(*ref), *lines]).encode()).hexdigest()


def _compare(
    actor: Actor,
    before: ObjectReview,
    grants: Sequence[Pair],
    revocations: Sequence[Pair],
    affected: Collection[Grantee],
) -> tuple[list[Effect], list[str]]:
    """Return the effects on the principals, and what the actor would lose. At most two statements."""
    own_id = securable_id(*before.ref)
    changes = GrantChanges(
        tuple(GrantedRow(_id(grantee), own_id, privilege, None) for privilege, grantee in grants),
        frozenset((_id(grantee), privilege) for privilege, grantee in revocations),
    )
    users = {each.user_id for each in affected if each.user_id is not None}
    if revocations and actor.user_id is not None:
        users.add(actor.user_id)
    before.read_users(sorted(users))
    after = before.with_changes(changes)
    were = dict(before.rights_of(affected))
    compared = [_effect(grantee, were[grantee], rights) for grantee, rights in after.rights_of(affected)]
    effects = [each for each in compared if each is not None]
    return effects, _lost_by(actor, before, after) if revocations else []


def _id(grantee: Grantee) -> str | UUID:
    return grantee.role_id if grantee.role_id is not None else grantee.user_id or ""


@dataclass(frozen=True, slots=True)
class _Affected:
    """The principals to compare. `withheld` are the roles among them whose members are left out."""

    principals: Collection[Grantee]
    is_complete: bool = True
    withheld: Collection[UUID] = ()


def _find_affected(actor: Actor, changed: Collection[Grantee], graph: RoleGraph) -> _Affected:
    """Return the principals, and the members of the roles among them at any depth as far as the actor may list them.

    `graph` has the memberships that lead into these roles. At most one permission check and one statement.
    """
    roles = {each.role_id for each in changed if each.role_id is not None}
    if not roles:
        return _Affected(set(changed))
    nested = graph.list_members()
    asked = sorted(_reached(roles, nested), key=str)
    verdicts = check_permissions(
        actor, [(Can.READ_ROLE_ASSIGNMENTS, ObjectRef(Securable.Type.ROLE, role_id)) for role_id in asked]
    )
    listed = {role_id for role_id, is_listed in zip(asked, verdicts, strict=True) if is_listed}
    reached = _reached(roles, {role_id: inner for role_id, inner in nested.items() if role_id in listed})
    users = read_users((), sorted(reached & listed, key=str), (), after="", limit=MAX_PRINCIPALS + 1)
    members = {
        *(Grantee(role_id=each) for each in reached),
        *(Grantee(user_id=each.id) for each in users[:MAX_PRINCIPALS]),
    }
    return _Affected({*changed, *members}, len(users) <= MAX_PRINCIPALS, reached - listed)


def _reached(roles: Collection[UUID], nested: Mapping[UUID, Collection[UUID]]) -> set[UUID]:
    """Return the roles, and those that `nested` has in them at any depth."""
    reached, waiting = set[UUID](), list(roles)
    while waiting:
        role_id = waiting.pop()
        if role_id not in reached:
            reached.add(role_id)
            waiting += nested.get(role_id, ())
    return reached


def _effect(principal: Grantee, before: Rights, after: Rights) -> Effect | None:
    old_actions, old_privileges = before.effective.actions, before.effective.privileges
    effect = Effect(
        principal,
        [each.value for each in after.effective.actions if each not in old_actions],
        [each.value for each in old_actions if each not in after.effective.actions],
        [each for each in after.effective.privileges if each not in old_privileges],
        [each for each in old_privileges if each not in after.effective.privileges],
    )
    return effect if effect.gained or effect.lost or effect.gained_privileges or effect.lost_privileges else None


def _lost_by(actor: Actor, before: ObjectReview, after: ObjectReview) -> list[str]:
    """Return the privileges and actions that the actor has by grants and would not have any more."""
    subject = Subject.of(actor)
    had, has = before.of_subject(subject).effective, after.of_subject(subject).effective
    kept = set(standing_actions(before.ref.type)) if is_instance_admin(actor) else set()
    privileges = [each for each in had.privileges if each not in has.privileges]
    return [*privileges, *(each.value for each in had.actions if each not in has.actions and each not in kept)]
