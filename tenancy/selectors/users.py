"""Authorized reads of users. All actions on oneself are allowed; actions on others need permissions on the server."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from django.db.models import F, Q
from django.db.models.functions import Lower

from icekeeper.kernel.errors.types import NotFound, Unauthorized
from icekeeper.kernel.http.paging import Page, build_page
from icekeeper.kernel.names import name_key
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.permissions import (
    action_forbidden,
    check_permissions,
    is_allowed,
    recheck_before_write,
    require_permission,
)
from tenancy.authz.port import PermissionCheck
from tenancy.models import Securable, User
from tenancy.models.securable import ObjectRef
from tenancy.selectors.server import get_server
from tenancy.selectors.similarity import DEFAULT_HITS, needle_of, search

_RIGHTS_ON_SERVER = {
    Can.UPDATE: Can.UPDATE_USERS,
    Can.DELETE: Can.DELETE_USERS,
    Can.READ_ROLE_ASSIGNMENTS: Can.LIST_USERS,
}
"""Permission on the server that an action on another user requires."""


class UserNotFound(NotFound):
    wire_type = "UserNotFound"


class GetMyUserWithoutToken(Unauthorized):
    wire_type = "GetMyUserWithoutToken"


def user_not_found(user_id: str) -> UserNotFound:
    return UserNotFound(f"User does not exist: {user_id[:200]}")


def require_permission_on_user(actor: Actor, action: Can, user_id: str) -> None:
    """Require an action on a user. Raises `Forbidden` (403), whether the user exists or not."""
    epoch, required = permission_epoch.current(), _required_check(actor, action, user_id)
    if required is None:
        return
    if not check_permissions(actor, [required])[0]:
        raise action_forbidden(actor, action, ObjectRef(Securable.Type.USER, user_id))
    recheck_before_write(actor, [required], epoch)


def _required_check(actor: Actor, action: Can, user_id: str) -> PermissionCheck | None:
    """Return the check that an action on a user requires, None if the action is always allowed."""
    if actor.user_id == user_id:  # also with an assumed role
        return None
    on_server = _RIGHTS_ON_SERVER.get(action)
    return None if on_server is None else (on_server, ObjectRef(Securable.Type.SERVER, get_server().server_id))


def find_blocked_users(user_ids: Collection[str]) -> set[str]:
    """Return the blocked ones of these users. No statement for an empty collection."""
    if not user_ids:
        return set()
    return set(User.objects.existing().filter(pk__in=user_ids, is_active=False).values_list("pk", flat=True))


def find_unregistered_users(user_ids: Collection[str]) -> set[str]:
    """Return those of these users who never called. No statement for an empty collection."""
    return (
        set(User.objects.existing().filter(pk__in=user_ids, name="").values_list("pk", flat=True))
        if user_ids
        else set()
    )


def list_allowed_on_user(actor: Actor, actions: Sequence[Can], user_id: str) -> list[Can]:
    """Return those of `actions` that `actor` may do on a user: all on themselves, else by permissions on the server.

    Reading another user needs no permission."""
    if actor.user_id == user_id:
        return [] if actor.is_blocked else list(actions)
    on_server = list(dict.fromkeys(_RIGHTS_ON_SERVER[action] for action in actions if action in _RIGHTS_ON_SERVER))
    server = ObjectRef(Securable.Type.SERVER, get_server().server_id)
    results = dict(zip(on_server, check_permissions(actor, [(each, server) for each in on_server]), strict=True))
    return [action for action in actions if action not in _RIGHTS_ON_SERVER or results[_RIGHTS_ON_SERVER[action]]]


def get_user_for(*, actor: Actor, action: Can, user_id: str) -> User:
    """Raises `UserNotFound` (404)."""
    require_permission_on_user(actor, action, user_id)
    user = User.objects.existing().filter(pk=user_id).first()
    if user is None:
        raise user_not_found(user_id)
    return user


def get_own_user(*, actor: Actor) -> User:
    """Return the calling user. Raises `GetMyUserWithoutToken` (401), `UserNotFound` (404) unless registered."""
    if actor.user_id is None:
        raise GetMyUserWithoutToken("The caller is anonymous: send a token, if this server accepts any")
    user = get_user_for(actor=actor, action=Can.READ, user_id=actor.user_id)
    if not user.has_called:
        raise user_not_found(user.pk)
    return user


def list_users_for(*, actor: Actor, name: str | None, page: Page) -> tuple[list[User], str | None]:
    """Return users whose name contains `name`, ignoring case, in the order of ids, and the next page token."""
    require_permission(actor, Can.LIST_USERS, Securable.Type.SERVER, get_server().server_id)
    rows = User.objects.existing().filter(pk__gt=page.after_key())
    if name:
        rows = rows.filter(name_key__contains=name_key(name))
    found = list(rows.order_by("pk")[: page.sql_limit])
    return build_page([(user.pk, user) for user in found], page)


def search_users(*, actor: Actor, typed: str, user_type: str | None, page: Page) -> tuple[list[User], str | None]:
    """Return users whose name, email or id matches a search text, best first, and the next page token.

    Every caller may search for users to share with. Without the permission to list users, an empty search text finds no
    user, and there is one page of at most `DEFAULT_HITS`. Raises `Forbidden` (403) for further pages.
    """
    server_id = get_server().server_id
    if page.token:
        require_permission(actor, Can.LIST_USERS, Securable.Type.SERVER, server_id)
        return _search(typed, user_type, page)
    if is_allowed(actor, Can.LIST_USERS, Securable.Type.SERVER, server_id):
        return _search(typed, user_type, page)
    if not needle_of(typed):
        return [], None
    found, _ = _search(
        typed, user_type, replace(page, limit=DEFAULT_HITS if page.size is None else min(page.size, DEFAULT_HITS))
    )
    return found, None


def _search(typed: str, user_type: str | None, page: Page) -> tuple[list[User], str | None]:
    rows = User.objects.existing() if user_type is None else User.objects.existing().filter(user_type=user_type)
    return search(rows, typed, texts=[F("name_key"), Lower("email")], page=page, is_named=Q(pk=typed))
