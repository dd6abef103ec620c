"""Services that create, rotate, revoke and purge access tokens.

Only `create_token` and `rotate_token` return the text of a token, which is not stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import BATCH, delete_in_batches
from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Conflict, Forbidden
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import require_name
from tenancy.actor import (
    DEFAULT_SCOPES,
    Actor,
    AuthenticationFailed,
    InsufficientScope,
    expand_scopes,
    join_scopes,
    narrow_scopes,
    validate_scopes,
)
from tenancy.authn.own_tokens.stored_tokens import (
    TokenKind,
    create_token_text,
    token_digest,
    token_prefix,
)
from tenancy.authz.actions import Can
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import AccessToken, ServiceAccount, User
from tenancy.models.user import SERVICE_ACCOUNT_PREFIX
from tenancy.selectors.users import (
    AccessTokenNotFound,
    get_access_token_for,
    require_authenticated,
    require_permission_on_server,
    user_not_found,
)
from tenancy.services.administrators import lock_roles, require_permission_to_act_as
from tenancy.services.registration import register_principal

MAX_LIVE_TOKENS: Final = 100
"""Unexpired and unrevoked tokens of one user."""

DEFAULT_OVERLAP_SECONDS: Final = 3600
MAX_OVERLAP_SECONDS: Final = 7 * 86_400
"""How long both tokens are valid after a rotation."""

RETENTION: Final = timedelta(days=90)


class TooManyAccessTokens(Conflict):
    wire_type = "TooManyAccessTokens"


class AccessTokenEnded(Conflict):
    wire_type = "AccessTokenEnded"


class AccessTokensNotAccepted(CatalogError):
    """This server does not accept own tokens; one created now would become valid when the setting changes."""

    status, wire_type = 412, "AccessTokensNotAccepted"


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """`text` is the token, which cannot be shown again."""

    row: AccessToken
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Limits:
    """Scopes and expiry that a new token may have at most, by the actor's own token; None where there is no limit."""

    scopes: frozenset[str] | None
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class _Lifetime:
    """Lifetime of a new token. Its replacements expire at `latest` at the latest; None: no limit."""

    start: datetime
    end: datetime
    latest: datetime | None


def create_token(
    *,
    actor: Actor,
    name: object,
    user_id: str | None = None,
    scopes: Iterable[str] | None = None,
    expires_in: float | None = None,
    expires_at: datetime | None = None,
) -> IssuedToken:
    """Create a token of the actor, or of the service account `user_id`. `expires_in` is in seconds.

    Only the server's own commands create tokens of other users. A token that is created with a token has at most its
    scopes; for the same user neither it nor its replacements outlive that token, or a stolen token could be renewed for
    ever. For the same reason a short-lived token cannot create one (403). The expiry of a service account's token is
    not limited so: an account is meant to outlive its creator. For an account that is an administrator, the actor must
    be allowed to appoint such administrators. Raises `UserNotFound` (404), `TooManyAccessTokens` (409),
    `InsufficientScope`, `Forbidden`, `GrantActionForbidden`, `InstanceAdminRequired` (403), `AuthenticationRequired`
    (401), `BadRequest` for an invalid name, scope or expiry, `AccessTokensNotAccepted` (412) where they are disabled.
    """
    owner = _owner(actor, user_id)
    checked_name = require_name(name, "token name")
    if expires_in is not None and expires_at is not None:
        raise BadRequest("expires-at: must not be given together with expires-in-seconds", field="expires-at")
    with change(actor) as tx:
        if owner == actor.user_id:
            register_principal(actor=actor)
        _lock_owner(actor, owner)
        limits = _limits(actor, owner, _lock_tokens(actor))
        granted = _grantable_scopes(scopes, limits)
        at = now()
        latest = limits.expires_at
        lifetime = _Lifetime(at, _end(at, expires_in=expires_in, expires_at=expires_at, latest=latest), latest)
        issued = _issue(actor, owner, checked_name, granted, lifetime)
        tx.record(Change.ACCESS_TOKEN_CREATED, subject=issued.row.pk, **_details(issued.row))
    return issued


def rotate_token(*, actor: Actor, token_id: UUID, overlap_seconds: int = DEFAULT_OVERLAP_SECONDS) -> IssuedToken:
    """Replace a token, which expires in `overlap_seconds`, by one with the same user, name, scopes and lifetime.

    A token may rotate itself, except for a short-lived one, which rotates none (403). With another token of the same
    user, the new one expires with that one at the latest. A limit from the creation of the old token stays. Raises
    `AccessTokenEnded` (409) for one that expired, was revoked or was rotated already, `AccessTokenNotFound` (404), and
    the errors of `create_token`.
    """
    if not 0 <= overlap_seconds <= MAX_OVERLAP_SECONDS:
        raise BadRequest(f"overlap-seconds: must be a number from 0 to {MAX_OVERLAP_SECONDS}", field="overlap-seconds")
    owner = get_access_token_for(actor=actor, action=Can.PROVISION_USERS, token_id=token_id).user_id
    _owner(actor, owner)
    with change(actor) as tx:
        _lock_owner(actor, owner)
        locked = _lock_tokens(actor, token_id)
        limits = _limits(actor, owner, locked)
        old = locked.get(token_id)
        if old is None:
            raise AccessTokenNotFound(f"Access token does not exist: {token_id}")
        at = now()
        if old.revoked_at is not None or old.expires_at <= at or old.replaced_by_id is not None:
            raise AccessTokenEnded("An access token that expired, was revoked or was rotated already cannot be rotated")
        granted = _grantable_scopes(old.scopes.split(), limits)
        is_own_rotation = actor.identity is not None and actor.identity.access_token_id == token_id
        seconds = min((old.expires_at - old.created_at).total_seconds(), _max_lifetime())
        latest = _earlier(old.not_after, None if is_own_rotation else limits.expires_at)
        end = at + timedelta(seconds=seconds)
        lifetime = _Lifetime(at, end if latest is None else min(end, latest), latest)
        issued = _issue(actor, owner, old.name, granted, lifetime, replaces=old)
        old.replaced_by = issued.row
        old.expires_at = min(old.expires_at, at + timedelta(seconds=overlap_seconds))
        old.save(update_fields=["replaced_by", "expires_at"])
        tx.record(
            Change.ACCESS_TOKEN_ROTATED,
            subject=old.pk,
            replaced_by=issued.row.pk,
            **_details(issued.row),
        )
    return issued


def revoke_token(*, actor: Actor, token_id: UUID) -> None:
    """Revoke a token: immediately in this process, within five seconds in others. Idempotent.

    Raises `AccessTokenNotFound` (404), `AuthenticationRequired` (401), `Forbidden` (403).
    """
    owner = get_access_token_for(actor=actor, action=Can.UPDATE_USERS, token_id=token_id).user_id
    with change(actor) as tx:
        is_new = AccessToken.objects.filter(pk=token_id, revoked_at=None).update(revoked_at=now())
        if is_new:
            tx.record(Change.ACCESS_TOKEN_REVOKED, subject=token_id, user=owner)


def revoke_tokens_of(*, user_id: str) -> int:
    """Revoke all tokens of a user who is deleted in the caller's transaction; return how many were live.

    Releases the name of a service account. The caller's change must revoke tokens, too (`ChangeKind`).
    """
    at = now()
    found = AccessToken.objects.of_user(user_id).live(at)
    locked = list(_in_order(found).values_list("pk", flat=True))
    live = AccessToken.objects.filter(pk__in=locked).update(revoked_at=at)
    ServiceAccount.objects.filter(user_id=user_id).delete()
    return live


def delete_old_tokens(*, actor: Actor, batch: int = BATCH) -> int:
    """Delete the rows of tokens that expired or were revoked before the retention time; return their number."""
    return delete_in_batches(AccessToken.objects.ended_before(now() - RETENTION), batch=batch)


def _details(token: AccessToken) -> dict[str, Any]:
    """Return the audit details of a new token."""
    return {"user": token.user_id, "named": token.name, "scopes": token.scopes, "expires_at": token.expires_at}


def _owner(actor: Actor, user_id: str | None) -> str:
    """Return the user id that owns the new token; require that `actor` may create tokens of that user."""
    require_authenticated(actor)
    if settings.ICEKEEPER.access_tokens is False and not actor.is_internal:
        raise AccessTokensNotAccepted(
            "Access tokens of this server are disabled: ICEKEEPER__ACCESS_TOKENS is false",
            hint="Set ICEKEEPER__ACCESS_TOKENS=true",
        )
    if actor.identity is not None and actor.identity.is_short_lived:
        raise Forbidden("A short-lived token cannot create or rotate tokens: use the token that it was issued for")
    if user_id is None or user_id == actor.user_id:
        if actor.user_id is None:
            raise BadRequest("user-id: must be given", field="user-id")
        return actor.user_id
    if not actor.is_internal and kind_of(user_id) is not TokenKind.SERVICE:
        raise Forbidden("Users create their own tokens; user-id must be a service account")
    require_permission_on_server(actor, Can.PROVISION_USERS)
    return user_id


def kind_of(user_id: str) -> TokenKind:
    return TokenKind.SERVICE if user_id.startswith(SERVICE_ACCOUNT_PREFIX) else TokenKind.PERSONAL


def _lock_tokens(actor: Actor, *others: UUID) -> dict[UUID, AccessToken]:
    """Lock the actor's own token and `others`, as far as they exist, in one statement.

    This serializes the creation of a token with the revocation of the token that it is created with.
    """
    own = actor.identity.access_token_id if actor.identity is not None else None
    wanted = others if own is None else (own, *others)
    return {token.pk: token for token in _in_order(AccessToken.objects.filter(pk__in=wanted))}


def _in_order(tokens: QuerySet[AccessToken]) -> QuerySet[AccessToken]:
    """Lock in the order of ids, as `record_uses` does, which avoids deadlocks."""
    return tokens.select_for_update(no_key=True).order_by("pk")


def _limits(actor: Actor, owner: str, locked: Mapping[UUID, AccessToken]) -> _Limits:
    identity = actor.identity
    if identity is None or identity.access_token_id is None:
        return _Limits(None, None)
    own = locked.get(identity.access_token_id)
    if own is None or own.revoked_at is not None or own.expires_at <= now():
        raise AuthenticationFailed("The token has ended")
    return _Limits(identity.scopes, own.expires_at if owner == actor.user_id else None)


def _grantable_scopes(wanted: Iterable[str] | None, limits: _Limits) -> frozenset[str]:
    """Return the scopes of the new token, by default the default scopes that the actor has."""
    if wanted is None:
        return DEFAULT_SCOPES if limits.scopes is None else narrow_scopes(DEFAULT_SCOPES, limits.scopes)
    scopes = validate_scopes(wanted)
    if limits.scopes is not None and not expand_scopes(scopes) <= expand_scopes(limits.scopes):
        raise InsufficientScope(f"This token has the scopes {join_scopes(limits.scopes)} and cannot grant others")
    return scopes


def _max_lifetime() -> float:
    return settings.ICEKEEPER.access_token_max_lifetime


def _end(at: datetime, *, expires_in: float | None, expires_at: datetime | None, latest: datetime | None) -> datetime:
    """Return the expiry of the new token: by default after the default lifetime, but not after `latest`."""
    max_seconds = _max_lifetime()
    if expires_at is None and expires_in is None:
        default = at + timedelta(seconds=min(settings.ICEKEEPER.access_token_default_lifetime, max_seconds))
        return default if latest is None else min(default, latest)
    lifetime = expires_in if expires_at is None else (expires_at - at).total_seconds()
    if lifetime is None or not 1 <= lifetime <= max_seconds:
        raise BadRequest(
            f"The lifetime of a token is 1 to {int(max_seconds)} seconds (ICEKEEPER__ACCESS_TOKEN_MAX_LIFETIME)"
        )
    end = at + timedelta(seconds=lifetime)
    if latest is not None and end > latest:
        raise BadRequest(f"A token must not outlive the token that creates it, which expires at {latest.isoformat()}")
    return end


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _lock_owner(actor: Actor, owner: str) -> None:
    """Lock the owner; for another account also lock its roles and require that `actor` may act as it."""
    _lock_user(owner)
    if owner != actor.user_id:
        lock_roles(user_id=owner)
        require_permission_to_act_as(actor, owner)


def _lock_user(user_id: str) -> None:
    """Lock a user, which serializes the creation of their tokens and the deletion of the user.

    Raises `UserNotFound` (404) also for an id of a service account that does not exist.
    """
    user = lock_row(User, "id = %s", [user_id])
    exists = kind_of(user_id) is TokenKind.PERSONAL or ServiceAccount.objects.filter(user_id=user_id).exists()
    if user is None or user.deleted_at is not None or not exists:
        raise user_not_found(user_id)
    if not user.is_active:
        raise Forbidden(f"User is not active: {user_id}")


def _issue(
    actor: Actor,
    owner: str,
    name: str,
    scopes: frozenset[str],
    lifetime: _Lifetime,
    *,
    replaces: AccessToken | None = None,
) -> IssuedToken:
    others = AccessToken.objects.of_user(owner).live(lifetime.start)
    if replaces is not None:
        others = others.exclude(pk=replaces.pk)
    if others.count() >= MAX_LIVE_TOKENS:
        raise TooManyAccessTokens(f"{owner} has {MAX_LIVE_TOKENS} live tokens: revoke one", hint="Revoke unused tokens")
    token_id, kind = new_id(), kind_of(owner)
    text = create_token_text(kind, token_id)
    row = AccessToken.objects.create(
        id=token_id,
        user_id=owner,
        name=name,
        prefix=token_prefix(kind, token_id),
        digest=token_digest(text),
        scopes=join_scopes(scopes),
        created_at=lifetime.start,
        created_by=actor.user_id or actor.name,
        created_with=actor.identity.access_token_id if actor.identity is not None else None,
        expires_at=lifetime.end,
        not_after=lifetime.latest,
    )
    return IssuedToken(row, text)
