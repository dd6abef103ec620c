"""Authorized reads of users, service accounts and access tokens.

All actions on oneself are allowed; actions on others need permissions on the server.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from uuid import UUID

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
from tenancy.models import AccessToken, Securable, ServiceAccount, User
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import server_ref
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
    return None if on_server is None else (on_server, server_ref())


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
    server = server_ref()
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
    require_permission(actor, Can.LIST_USERS, *server_ref())
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
    server = server_ref()
    if page.token:
        require_permission(actor, Can.LIST_USERS, *server)
        return _search(typed, user_type, page)
    if is_allowed(actor, Can.LIST_USERS, *server):
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


class AuthenticationRequired(Unauthorized):
    wire_type = "AuthenticationRequired"


class ServiceAccountNotFound(NotFound):
    wire_type = "ServiceAccountNotFound"


def service_account_not_found(account_id: UUID) -> ServiceAccountNotFound:
    return ServiceAccountNotFound(f"Service account does not exist: {account_id}")


class AccessTokenNotFound(NotFound):
    wire_type = "AccessTokenNotFound"


def require_authenticated(actor: Actor) -> None:
    """Raise `AuthenticationRequired` (401) for anonymous actors.

    This applies also while authentication is off and everything is allowed: a token that an unknown client created
    would stay valid after authentication is enabled.
    """
    if actor.is_anonymous:
        raise AuthenticationRequired("Access tokens belong to a user: this needs authentication")


def require_permission_on_server(actor: Actor, action: Can) -> None:
    """Require a permission of `actor` on the server. Raises `AuthenticationRequired` (401), `Forbidden` (403)."""
    require_authenticated(actor)
    require_permission(actor, action, *server_ref())


def require_own_or_permission_on_server(actor: Actor, user_id: str, action: Can) -> None:
    """Require the permission on the server unless the tokens are the actor's own."""
    require_authenticated(actor)
    if user_id != actor.user_id:
        require_permission_on_server(actor, action)


def get_access_token_for(*, actor: Actor, action: Can, token_id: UUID) -> AccessToken:
    """Return a token, live or not; for one of another user `action` on the server is required.

    Raises `AccessTokenNotFound` (404), `AuthenticationRequired` (401), `Forbidden` (403).
    """
    require_authenticated(actor)
    token = AccessToken.objects.filter(pk=token_id).first()
    if token is None:
        raise AccessTokenNotFound(f"Access token does not exist: {token_id}")
    require_own_or_permission_on_server(actor, token.user_id, action)
    return token


def list_access_tokens_for(*, actor: Actor, user_id: str | None, page: Page) -> tuple[list[AccessToken], str | None]:
    """Return the tokens of a user, live or not, in order of creation, and the next page token.

    `user_id` None is the actor. An unknown user has no tokens.
    """
    require_authenticated(actor)
    owner = user_id if user_id is not None else actor.user_id or ""
    require_own_or_permission_on_server(actor, owner, Can.UPDATE_USERS)
    found = AccessToken.objects.filter(user_id=owner, pk__gt=page.after_id()).order_by("pk")
    return build_page([(token.pk, token) for token in found[: page.sql_limit]], page)


def list_service_accounts_for(*, actor: Actor, page: Page) -> tuple[list[ServiceAccount], str | None]:
    """Return service accounts in order of creation, and the next page token."""
    require_permission_on_server(actor, Can.LIST_USERS)
    found = ServiceAccount.objects.existing().filter(pk__gt=page.after_id()).order_by("pk")
    return build_page([(account.pk, account) for account in found[: page.sql_limit]], page)


def get_service_account_for(*, actor: Actor, account_id: UUID) -> ServiceAccount:
    """Raises `ServiceAccountNotFound` (404), and `Forbidden` (403) without the permission to list users."""
    require_permission_on_server(actor, Can.LIST_USERS)
    account = ServiceAccount.objects.existing().filter(pk=account_id).first()
    if account is None:
        raise service_account_not_found(account_id)
    return account
