"""Reads of access tokens and service accounts, each with the question whether the actor may."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

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


def require_somebody(actor: Actor) -> None:
    """Raises `AuthenticationRequired` (401) for anonymous actors.

    So it is also where authentication is off and everybody may do everything: a token that a stranger made then would
    still be good on the day when it is turned on.
    """
    if actor.is_anonymous:
        raise AuthenticationRequired("Tokens are somebody's: this needs authentication")


def require_on_server(actor: Actor, action: Can) -> None:
    """Whether `actor` may do this to users of the server; raises `AuthenticationRequired` or `Forbidden`."""
    require_somebody(actor)
    require_permission(actor, action, Securable.Type.SERVER, get_server().server_id)


def require_own_or(actor: Actor, user_id: str, action: Can) -> None:
    """Everybody may do what concerns their own tokens; for those of others the server's rights count."""
    require_somebody(actor)
    if user_id != actor.user_id:
        require_on_server(actor, action)


def get_access_token_for(*, actor: Actor, token_id: UUID, action: Can = Can.UPDATE_USERS) -> AccessToken:
    """The token, ended or not; for one of somebody else `action` on the server is asked for.

    Raises `AccessTokenNotFound` (404), `AuthenticationRequired` (401), `Forbidden` (403).
    """
    require_somebody(actor)
    token = AccessToken.objects.filter(pk=token_id).first()
    if token is None:
        raise AccessTokenNotFound(f"Access token does not exist: {token_id}")
    require_own_or(actor, token.user_id, action)
    return token


def list_access_tokens_for(*, actor: Actor, user_id: str | None, page: Page) -> tuple[list[AccessToken], str | None]:
    """The tokens of a user, ended ones included, in order of creation, and the next page's token.

    `user_id` None is the actor. A user who is not there has none.
    """
    require_somebody(actor)
    owner = user_id if user_id is not None else actor.user_id or ""
    require_own_or(actor, owner, Can.UPDATE_USERS)
    found = AccessToken.objects.filter(user_id=owner, pk__gt=page.after_id()).order_by("pk")
    return build_page([(token.pk, token) for token in found[: page.sql_limit]], page)


def list_service_accounts_for(*, actor: Actor, page: Page) -> tuple[list[ServiceAccount], str | None]:
    """In order of creation, and the next page's token."""
    require_on_server(actor, Can.LIST_USERS)
    found = live_service_accounts().filter(pk__gt=page.after_id()).order_by("pk")
    return build_page([(account.pk, account) for account in found[: page.sql_limit]], page)


def live_service_accounts() -> QuerySet[ServiceAccount]:
    return ServiceAccount.objects.existing()
