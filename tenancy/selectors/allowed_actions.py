"""Allowed actions of the caller or of another principal, and who may check those of others."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.conf import settings

from icekeeper.kernel.errors.types import CatalogError
from tenancy.actor import Actor, Grantee, acting_as
from tenancy.authz.action_names import ACTIONS_ON
from tenancy.authz.actions import SEEN_BY, Can
from tenancy.authz.permissions import (
    check_permissions,
    deny_as_missing,
    is_allowed,
    require_not_hidden,
    require_permission,
    visibility_checks,
)
from tenancy.authz.privileges import reads_grants
from tenancy.models import Role, Securable, User
from tenancy.models.securable import ObjectRef
from tenancy.selectors.roles import role_id_not_found
from tenancy.selectors.server import get_server
from tenancy.selectors.users import get_user_for, list_allowed_on_user, user_not_found


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
    return {
        each: Actor(
            user_id=each.user_id,
            assumed_role=each.role_id,
            is_check_subject=True,
            is_blocked=each.user_id in blocked,
        )
        for each in set(grantees)
    }


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
        require_permission(actor, Can.READ_GRANTS, Securable.Type.SERVER, get_server().server_id)
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
