"""Authorized reads of access tokens and service accounts."""

from __future__ import annotations

from uuid import UUID

from icekeeper.kernel.errors.types import NotFound, Unauthorized
from icekeeper.kernel.http.paging import Page, build_page
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import AccessToken, Securable, ServiceAccount
from tenancy.selectors.server import get_server


class AuthenticationRequired(Unauthorized):
    wire_type = "AuthenticationRequired"


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
    require_permission(actor, action, Securable.Type.SERVER, get_server().server_id)


def require_own_or_permission_on_server(actor: Actor, user_id: str, action: Can) -> None:
    """Require the permission on the server unless the tokens are the actor's own."""
    require_authenticated(actor)
    if user_id != actor.user_id:
        require_permission_on_server(actor, action)


def get_access_token_for(*, actor: Actor, token_id: UUID, action: Can = Can.UPDATE_USERS) -> AccessToken:
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
