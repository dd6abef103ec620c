"""Permission checks of the caller or of other principals: allowed actions, one check, and batches of checks.

A check in a batch of oneself returns only whether the action is allowed: unknown objects, hidden objects and denied
actions give the same result. A check of others requires the right to read the grants on the object; in a batch, the
error without it is the same whether the object exists or not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from django.conf import settings

from icekeeper.kernel.errors.types import CatalogError, Forbidden
from tenancy.actor import Actor, Grantee, acting_as
from tenancy.audit.occurrences import record_denial
from tenancy.authz.actions import ACTIONS_ON, SEEN_BY, Can, reads_grants
from tenancy.authz.permissions import (
    check_permissions,
    deny_as_missing,
    is_allowed,
    require_not_hidden,
    require_permission,
    visibility_checks,
)
from tenancy.authz.port import NO_OBJECT, PermissionCheck
from tenancy.models import Project, Role, Securable, User
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import no_such_project, server_ref
from tenancy.selectors.roles import role_id_not_found
from tenancy.selectors.users import find_blocked_users, get_user_for, list_allowed_on_user, user_not_found


def check_subject(grantee: Grantee, *, must_be_known: bool = True) -> Actor:
    """Return a principal as an actor with its grants only: without roles of a token, and not as an instance admin.

    A role has the rights of a user who assumes it, and a blocked user has none. Registered users and instance admins
    are known; without `must_be_known` an unknown user is an actor without grants. Raises `UserNotFound` or
    `RoleIdNotFound` (404).
    """
    return check_subjects([grantee], must_be_known=must_be_known)[grantee]


def check_subjects(grantees: Collection[Grantee], *, must_be_known: bool = True) -> dict[Grantee, Actor]:
    """Apply `check_subject` to each. At most two statements. Raises for the first unknown principal."""
    user_ids = {each.user_id for each in grantees if each.user_id is not None}
    role_ids = {each.role_id for each in grantees if each.role_id is not None}
    rows = User.objects.filter(pk__in=user_ids).values_list("pk", "is_active", "deleted_at") if user_ids else ()
    registered = {pk for pk, _, deleted_at in rows if deleted_at is None}
    blocked = {pk for pk, is_active, _ in rows if not is_active}
    existing = set(Role.objects.filter(pk__in=role_ids).values_list("pk", flat=True)) if role_ids else set()
    if must_be_known:
        for user_id in sorted(user_ids - registered - set(settings.ICEKEEPER.instance_admins)):
            raise user_not_found(user_id)
    for role_id in sorted(role_ids - existing):
        raise role_id_not_found(role_id)
    return {each: _subject_actor(each, blocked) for each in set(grantees)}


def _subject_actor(grantee: Grantee, blocked: Collection[str]) -> Actor:
    return Actor(
        user_id=grantee.user_id,
        assumed_role=grantee.role_id,
        is_check_subject=True,
        is_blocked=grantee.user_id in blocked,
    )


def resolve_checked_actor(
    *, actor: Actor, grantee: Grantee | None, ref: ObjectRef, missing: CatalogError, must_be_known: bool = True
) -> Actor:
    """Return the actor whose permissions on an object `actor` checks: `grantee`, by default `actor` itself.

    To check others, `actor` must be allowed to read the grants on the object. Raises the errors of `require_not_hidden`
    and of `check_subject`, and the type's own error (403); for a check of oneself on a hidden project
    `ProjectActionForbidden` (403).
    """
    if grantee is None or grantee == acting_as(actor):
        require_not_hidden(actor, ref, missing)
        if ref.type is Securable.Type.PROJECT:
            require_permission(actor, Can.GET_METADATA, *ref)
        return actor
    require_permission(actor, reads_grants(ref), *ref, missing=missing)
    return check_subject(grantee, must_be_known=must_be_known)


def list_allowed_actions_for(
    *, actor: Actor, grantee: Grantee | None, ref: ObjectRef, actions: Sequence[Can], missing: CatalogError
) -> list[Can]:
    """Return those of `actions` that `grantee`, by default the caller, may do on an object, in their order.

    Raises the errors of `resolve_checked_actor`.
    """
    wanted = [(action, ref) for action in actions]
    if grantee is None or grantee == acting_as(actor):
        seeing = visibility_checks(ref)
        verdicts = check_permissions(actor, [*seeing, *wanted])  # one request to the backend
        if seeing and not any(verdicts[: len(seeing)]):
            raise deny_as_missing(actor, SEEN_BY[ref.type], ref, missing)
        verdicts = verdicts[len(seeing) :]
    else:
        verdicts = check_permissions(
            resolve_checked_actor(actor=actor, grantee=grantee, ref=ref, missing=missing), wanted
        )
    return [action for action, is_granted in zip(actions, verdicts, strict=True) if is_granted]


def list_user_actions_for(*, actor: Actor, grantee: Grantee | None, user_id: str) -> list[Can]:
    """Return the actions that `grantee`, by default the caller, may do on a user.

    Raises `UserNotFound` (404), `ServerActionForbidden` (403) for a check of others without the right to read the
    grants on the server, and the errors of `check_subject`.
    """
    get_user_for(actor=actor, action=Can.READ, user_id=user_id)
    checked = actor
    if grantee is not None and grantee != acting_as(actor):
        require_permission(actor, Can.READ_GRANTS, *server_ref())
        checked = check_subject(grantee)
    return list_allowed_on_user(checked, ACTIONS_ON[Securable.Type.USER], user_id)


def is_allowed_for(
    *, actor: Actor, grantee: Grantee | None, ref: ObjectRef, action: Can, missing: CatalogError
) -> bool:
    """Check whether `grantee`, by default the caller, may do `action` on an object; unknown users have no grants.

    Raises the errors of `resolve_checked_actor`.
    """
    checked = resolve_checked_actor(actor=actor, grantee=grantee, ref=ref, missing=missing, must_be_known=False)
    return is_allowed(checked, action, *ref)


THE_SERVER: Final[ObjectRef] = ObjectRef(Securable.Type.SERVER, "")
"""This server, which needs no id."""


class CannotInspectPermissions(Forbidden):
    wire_type = "CannotInspectPermissions"


class NamedTarget(Hashable, Protocol):
    """An object as the caller named it, not yet resolved: see `catalog.objects.ObjectKey`."""

    @property
    def securable_type(self) -> Securable.Type: ...

    @property
    def warehouse_id(self) -> Any: ...

    def missing(self) -> CatalogError:
        """Return the error for an object that does not exist."""


ResolveTargets = Callable[[Sequence[Any]], list[ObjectRef | None]]
"""Resolves named targets in their order, None where the object does not exist."""


@dataclass(frozen=True, slots=True)
class ActionCheck:
    """A check whether `identity`, by default the caller, may do `action` on `target`.

    The target is `THE_SERVER`, the ref of a project, or the name of an object in a project.
    """

    action: Can
    target: NamedTarget | ObjectRef
    identity: Grantee | None = None

    @property
    def securable_type(self) -> Securable.Type:
        return self.target.type if isinstance(self.target, ObjectRef) else self.target.securable_type


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a check, which was not evaluated if `error` is set."""

    is_allowed: bool
    error: CatalogError | None = None


def check_actions_for(
    *, actor: Actor, checks: Sequence[ActionCheck], must_exist: bool, resolve: ResolveTargets
) -> list[Verdict]:
    """Return a verdict for each check, in their order. A constant number of statements per identity.

    The errors of verdicts are `RoleIdNotFound` (404) and `CannotInspectPermissions` (403). With `must_exist`, raises
    the not-found error of the first object that does not exist or is hidden from the caller.
    """
    found = _find_objects(checks, resolve)
    errors = _unknown_roles(checks) | _inspection_errors(actor, checks, found)
    by_identity: dict[Grantee | None, list[ActionCheck]] = {}
    for check in checks:
        if check not in errors:
            by_identity.setdefault(None if _is_own(actor, check) else check.identity, []).append(check)
    blocked = find_blocked_users(
        {each.user_id for each in by_identity if each is not None and each.user_id is not None}
    )
    allowed: dict[ActionCheck, bool] = {}
    for identity, own in by_identity.items():
        # Others need not be registered: gateways check users before their first call.
        checked = actor if identity is None else _subject_actor(identity, blocked)
        results = check_permissions(checked, [(check.action, _checked_object(check, found)) for check in own])
        allowed |= {check: result and check in found for check, result in zip(own, results, strict=True)}
    if must_exist:
        _require_known(actor, [check for check in checks if check in allowed and not allowed[check]], found)
    return [Verdict(allowed.get(check, False), errors.get(check)) for check in checks]


def _is_own(actor: Actor, check: ActionCheck) -> bool:
    return check.identity is None or check.identity == acting_as(actor)


def _find_objects(checks: Sequence[ActionCheck], resolve: ResolveTargets) -> dict[ActionCheck, ObjectRef]:
    """Resolve the targets that exist."""
    named_targets = [check.target for check in checks if not isinstance(check.target, ObjectRef)]
    resolved = dict(zip(named_targets, resolve(named_targets), strict=True)) if named_targets else {}
    refs = {check.target for check in checks if isinstance(check.target, ObjectRef)}
    named = {object_id for securable_type, object_id in refs if securable_type is Securable.Type.PROJECT}
    projects = set(Project.objects.filter(pk__in=named).values_list("pk", flat=True)) if named else set()
    server = server_ref() if THE_SERVER in refs else None
    found: dict[ActionCheck, ObjectRef] = {}
    for check in checks:
        if not isinstance(check.target, ObjectRef):
            ref = resolved[check.target]
        elif check.target == THE_SERVER:
            ref = server
        else:
            ref = check.target if check.target.id in projects else None
        if ref is not None:
            found[check] = ref
    return found


def _checked_object(check: ActionCheck, found: Mapping[ActionCheck, ObjectRef]) -> ObjectRef:
    """Return the object to check; `NO_OBJECT` of its type if it does not exist."""
    if check in found:
        return found[check]
    return check.target if isinstance(check.target, ObjectRef) else ObjectRef(check.securable_type, NO_OBJECT)


def _unknown_roles(checks: Sequence[ActionCheck]) -> dict[ActionCheck, CatalogError]:
    named = {
        check.identity.role_id for check in checks if check.identity is not None and check.identity.role_id is not None
    }
    unknown = named - set(Role.objects.filter(pk__in=named).values_list("pk", flat=True)) if named else named
    return {
        check: role_id_not_found(check.identity.role_id)
        for check in checks
        if check.identity is not None and check.identity.role_id in unknown
    }


def _inspection_errors(
    actor: Actor, checks: Sequence[ActionCheck], found: Mapping[ActionCheck, ObjectRef]
) -> dict[ActionCheck, CatalogError]:
    """Return the checks of others on objects whose grants the caller may not read, with their errors.

    If the object does not exist, the caller needs the right to manage grants on the warehouse, which covers every
    object in it.
    """
    wanted = {check: _reading_grants(check, found) for check in checks if not _is_own(actor, check)}
    needed = list(dict.fromkeys(need for each in wanted.values() for need in each))
    results = dict(zip(needed, check_permissions(actor, needed), strict=True))
    errors = [check for check, enough in wanted.items() if not any(results[need] for need in enough)]
    for securable_type, object_id in dict.fromkeys(_checked_object(check, found) for check in errors):
        record_denial(actor=actor, action=Can.READ_GRANTS, object_type=securable_type.value, object_id=object_id)
    return {
        check: CannotInspectPermissions(
            f"{actor.name} may not check permissions of {check.identity} on this {check.securable_type.value}"
        )
        for check in errors
    }


def _reading_grants(check: ActionCheck, found: Mapping[ActionCheck, ObjectRef]) -> list[PermissionCheck]:
    """Return the permissions of which one is sufficient to check others."""
    here: PermissionCheck = (Can.READ_GRANTS, _checked_object(check, found))
    if isinstance(check.target, ObjectRef):
        return [here]
    return [here, (Can.GRANT_MANAGE_GRANTS, ObjectRef(Securable.Type.WAREHOUSE, check.target.warehouse_id))]


def _require_known(actor: Actor, denied: Sequence[ActionCheck], found: Mapping[ActionCheck, ObjectRef]) -> None:
    """Raise the not-found error of the first of `denied` that does not exist or is hidden from the caller."""
    hiding = [check for check in denied if check in found and check.securable_type in SEEN_BY]
    seen = check_permissions(actor, [(SEEN_BY[check.securable_type], found[check]) for check in hiding])
    unseen = {check for check, is_seen in zip(hiding, seen, strict=True) if not is_seen}
    for check in denied:
        if check not in found:
            raise _missing(check)
        if check in unseen and _is_own(actor, check):
            raise deny_as_missing(actor, SEEN_BY[found[check][0]], found[check], _missing(check))


def _missing(check: ActionCheck) -> CatalogError:
    return no_such_project(check.target.id) if isinstance(check.target, ObjectRef) else check.target.missing()
