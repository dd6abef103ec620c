"""What somebody may do, asked by themselves or by others: whose rights are asked about, and who may ask."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.conf import settings

from icekeeper.kernel.errors.types import CatalogError
from tenancy.actor import Actor
from tenancy.authz.actions import SEEN_BY, Can
from tenancy.authz.errors import deny_as_missing
from tenancy.authz.permissions import check_permissions, is_allowed, require_permission
from tenancy.authz.port import PermissionCheck
from tenancy.authz.privileges import reads_grants
from tenancy.authz.vocabulary import ACTIONS_ON
from tenancy.grantee import Grantee, acting_as
from tenancy.models import Role, Securable, User
from tenancy.refs import ObjectRef
from tenancy.selectors.roles import role_id_not_found
from tenancy.selectors.server import get_server
from tenancy.selectors.users import allowed_for_user, get_user_for, user_not_found


def actor_of(grantee: Grantee, *, must_be_known: bool = True) -> Actor:
    """Somebody as what is granted to them alone makes them: without roles of a token, and never as an instance admin.

    A role has the rights of whoever assumes it, and who is locked out has none. Users are known who are registered, and
    instance admins, who need not be; without `must_be_known` others are people to whom nothing is granted. Raises
    `UserNotFound` or `RoleIdNotFound` (404).
    """
    return actors_of([grantee], must_be_known=must_be_known)[grantee]


def actors_of(grantees: Collection[Grantee], *, must_be_known: bool = True) -> dict[Grantee, Actor]:
    """`actor_of` for each; at most two statements. Raises as soon as one of them is nobody."""
    user_ids = {each.user_id for each in grantees if each.user_id is not None}
    role_ids = {each.role_id for each in grantees if each.role_id is not None}
    rows = User.objects.filter(pk__in=user_ids).values_list("pk", "is_active", "deleted_at") if user_ids else ()
    registered = {pk for pk, _, deleted_at in rows if deleted_at is None}
    blocked = {pk for pk, is_active, _ in rows if not is_active}
    there = set(Role.objects.filter(pk__in=role_ids).values_list("pk", flat=True)) if role_ids else set()
    if must_be_known:
        for user_id in sorted(user_ids - registered - set(settings.ICEKEEPER.instance_admins)):
            raise user_not_found(user_id)
    for role_id in sorted(role_ids - there):
        raise role_id_not_found(role_id)
    return {
        each: Actor(
            user_id=each.user_id,
            assumed_role=each.role_id,
            is_asked_about=True,
            is_blocked=each.user_id in blocked,
        )
        for each in set(grantees)
    }


def asked_about(
    *, actor: Actor, grantee: Grantee | None, ref: ObjectRef, missing: CatalogError, must_be_known: bool = True
) -> Actor:
    """Whose rights on an object a question of `actor` is about: `grantee`, or whoever asks.

    To ask about others takes what it takes to read the grants on the object, and who lacks that learns nothing of them.
    Raises what `require_known` raises, the type's own refusal (403), and what `actor_of` raises; for who asks about
    themselves on a project that they do not see, `ProjectActionForbidden` (403).
    """
    if grantee is None or grantee == acting_as(actor):
        require_known(actor, ref, missing)
        if ref.type is Securable.Type.PROJECT:
            require_permission(actor, Can.GET_METADATA, *ref)
        return actor
    require_permission(actor, reads_grants(ref), *ref, missing=missing)
    return actor_of(grantee, must_be_known=must_be_known)


def list_allowed_actions_for(
    *, actor: Actor, grantee: Grantee | None, ref: ObjectRef, actions: Sequence[Can], missing: CatalogError
) -> list[Can]:
    """Those of `actions` that `grantee`, or who asks, may do on an object, in their order.

    Raises what `asked_about` raises.
    """
    wanted = [(action, ref) for action in actions]
    if grantee is None or grantee == acting_as(actor):
        knowing = ways_to_know(ref)
        answers = check_permissions(actor, [*knowing, *wanted])  # one question to the backend
        if knowing and not any(answers[: len(knowing)]):
            raise deny_as_missing(actor, SEEN_BY[ref.type], ref, missing)
        answers = answers[len(knowing) :]
    else:
        answers = check_permissions(asked_about(actor=actor, grantee=grantee, ref=ref, missing=missing), wanted)
    return [action for action, answer in zip(actions, answers, strict=True) if answer]


def list_user_actions_for(*, actor: Actor, grantee: Grantee | None, user_id: str) -> list[Can]:
    """What `grantee`, or who asks, may do with a user.

    Raises `UserNotFound` (404), `ServerActionForbidden` (403) for who asks about others and may not read the grants on
    the server, and what `actor_of` raises.
    """
    get_user_for(actor=actor, action=Can.READ, user_id=user_id)
    asked = actor
    if grantee is not None and grantee != acting_as(actor):
        require_permission(actor, Can.READ_GRANTS, Securable.Type.SERVER, get_server().server_id)
        asked = actor_of(grantee)
    return allowed_for_user(asked, ACTIONS_ON[Securable.Type.USER], user_id)


def is_allowed_for(
    *, actor: Actor, grantee: Grantee | None, ref: ObjectRef, action: Can, missing: CatalogError
) -> bool:
    """Whether `grantee`, or who asks, may do `action` on an object; users need not be known, as in a batch check.

    Raises what `asked_about` raises.
    """
    asked = asked_about(actor=actor, grantee=grantee, ref=ref, missing=missing, must_be_known=False)
    return is_allowed(asked, action, *ref)


def require_known(actor: Actor, ref: ObjectRef, missing: CatalogError) -> None:
    """Raises `missing` for who may neither see the object nor read what is granted on it."""
    if not is_known(actor, ref):
        raise deny_as_missing(actor, SEEN_BY[ref.type], ref, missing)


def is_known(actor: Actor, ref: ObjectRef) -> bool:
    """Whether `actor` may know that there is the object: sees it, or reads what is granted on it."""
    knowing = ways_to_know(ref)
    return not knowing or any(check_permissions(actor, knowing))


def ways_to_know(ref: ObjectRef) -> list[PermissionCheck]:
    """What each is enough to know that there is such an object; none where it is no secret."""
    seen_by = SEEN_BY.get(ref.type)
    return [] if seen_by is None else [(seen_by, ref), (reads_grants(ref), ref)]
