"""Access tokens are made, renewed and ended here. The token itself leaves this file once, in what `create_token` and
`rotate_token` return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.batches import BATCH, delete_in_batches
from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.db.write_transaction import write_transaction
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Conflict, Forbidden
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import require_name
from tenancy.actor import Actor
from tenancy.audit.log import Event, record
from tenancy.authentication_errors import AuthenticationFailed
from tenancy.authn.own_tokens.scopes import (
    DEFAULT_SCOPES,
    InsufficientScope,
    expand_scopes,
    join_scopes,
    narrow_scopes,
    validate_scopes,
)
from tenancy.authn.own_tokens.stored_tokens import revocation_transaction, revocations
from tenancy.authn.own_tokens.token_format import Kind, create_token_text, token_digest, token_prefix
from tenancy.authz.actions import Can
from tenancy.models import AccessToken, ServiceAccount, User
from tenancy.models.service_account import USER_ID_PREFIX
from tenancy.selectors.access_tokens import (
    AccessTokenNotFound,
    get_access_token_for,
    require_on_server,
    require_somebody,
)
from tenancy.selectors.users import user_not_found
from tenancy.services.administrators import lock_roles
from tenancy.services.appointments import require_to_act_as
from tenancy.services.registration import register_principal

MAX_LIVE_TOKENS: Final = 100
"""Tokens of one user that have not ended."""

USUAL_OVERLAP_SECONDS: Final = 3600
MAX_OVERLAP_SECONDS: Final = 7 * 86_400
"""For so long after a rotation both tokens work."""

KEPT_AFTER_THEIR_END: Final = timedelta(days=90)


class TooManyAccessTokens(Conflict):
    wire_type = "TooManyAccessTokens"


class AccessTokenEnded(Conflict):
    wire_type = "AccessTokenEnded"


class AccessTokensNotAccepted(CatalogError):
    """This server would refuse the token, until the day when somebody turns them on and has forgotten it."""

    status, wire_type = 412, "AccessTokensNotAccepted"


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """`text` is the token, which nobody can be told again."""

    row: AccessToken
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What the token that an actor came with hands on at most; nothing is bounded for one that came otherwise."""

    scopes: frozenset[str] | None
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class _Life:
    """Of a new token. What replaces it ends at `latest` at the latest; None: whenever."""

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
    """A new token of the actor, or of the service account `user_id`. `expires_in` is in seconds.

    Nobody makes a token for another person, but the server's own commands do. What is made with a token has no more
    scopes than that one, and if it is for the same user neither it nor what replaces it outlives that one: else a token
    that was stolen would live for ever. For the same reason a short-lived one makes none (403). That of a service
    account is not bound so: an account is meant to outlive who set it up. Of an account that administrates something
    only who may appoint such administrators makes one. Raises `UserNotFound` (404), `TooManyAccessTokens` (409),
    `InsufficientScope`, `Forbidden`, `GrantActionForbidden`, `InstanceAdminRequired` (403), `AuthenticationRequired`
    (401), `BadRequest` for a wrong name, scope or end, `AccessTokensNotAccepted` (412) where the settings refuse them.
    """
    owner = _owner(actor, user_id)
    checked_name = require_name(name, "token name")
    if expires_in is not None and expires_at is not None:
        raise BadRequest("expires-at: must not be given beside expires-in-seconds", field="expires-at")
    with write_transaction():
        if owner == actor.user_id:
            register_principal(actor=actor)
        _lock_owner(actor, owner)
        bounds = _bounds(actor, owner, _lock_tokens(actor))
        granted = _granted(scopes, bounds)
        at = now()
        latest = bounds.expires_at
        life = _Life(at, _end(at, expires_in=expires_in, expires_at=expires_at, latest=latest), latest)
        issued = _issue(actor, owner, checked_name, granted, life)
        record(Event.ACCESS_TOKEN_CREATED, actor=actor, subject=issued.row.pk, **_details(issued.row))
    return issued


def rotate_token(*, actor: Actor, token_id: UUID, overlap_seconds: int = USUAL_OVERLAP_SECONDS) -> IssuedToken:
    """A new token in place of another, which ends in `overlap_seconds`: it has the same user, name and scopes, and
    lives for as long as the other was made for.

    A token may so renew itself, but for a short-lived one, which rotates nothing (403); with another token of the same
    user a new one ends with that one at the latest. One that was bound to another when it was made stays so. Raises
    `AccessTokenEnded` (409) for one that has ended or was rotated already, else as `create_token` and
    `AccessTokenNotFound` (404).
    """
    if not 0 <= overlap_seconds <= MAX_OVERLAP_SECONDS:
        raise BadRequest(f"overlap-seconds: must be a number from 0 to {MAX_OVERLAP_SECONDS}", field="overlap-seconds")
    owner = get_access_token_for(actor=actor, token_id=token_id, action=Can.PROVISION_USERS).user_id
    _owner(actor, owner)
    with revocation_transaction():
        _lock_owner(actor, owner)
        locked = _lock_tokens(actor, token_id)
        bounds = _bounds(actor, owner, locked)
        old = locked.get(token_id)
        if old is None:
            raise AccessTokenNotFound(f"Access token does not exist: {token_id}")
        at = now()
        if old.revoked_at is not None or old.expires_at <= at or old.replaced_by_id is not None:
            raise AccessTokenEnded("An access token that has ended or was rotated already is not rotated")
        granted = _granted(old.scopes.split(), bounds)
        is_renewing_itself = actor.identity is not None and actor.identity.access_token_id == token_id
        lifetime = min((old.expires_at - old.created_at).total_seconds(), _longest())
        latest = _earlier(old.not_after, None if is_renewing_itself else bounds.expires_at)
        end = at + timedelta(seconds=lifetime)
        life = _Life(at, end if latest is None else min(end, latest), latest)
        issued = _issue(actor, owner, old.name, granted, life, instead_of=old)
        old.replaced_by = issued.row
        old.expires_at = min(old.expires_at, at + timedelta(seconds=overlap_seconds))
        old.save(update_fields=["replaced_by", "expires_at"])
        record(
            Event.ACCESS_TOKEN_ROTATED,
            actor=actor,
            subject=old.pk,
            replaced_by=issued.row.pk,
            **_details(issued.row),
        )
    return issued


def revoke_token(*, actor: Actor, token_id: UUID) -> None:
    """The token is dead: at once for this server, in five seconds for others. Doing it twice is fine.

    Raises `AccessTokenNotFound` (404), `AuthenticationRequired` (401), `Forbidden` (403).
    """
    owner = get_access_token_for(actor=actor, token_id=token_id).user_id
    with revocation_transaction():
        is_new = AccessToken.objects.filter(pk=token_id, revoked_at=None).update(revoked_at=now())
        if is_new:
            record(Event.ACCESS_TOKEN_REVOKED, actor=actor, subject=token_id, user=owner)


def revoke_tokens_of(*, user_id: str) -> int:
    """End all tokens of a user in the caller's transaction, which deletes them; how many were live.

    The name of a service account is free again.
    """
    at = now()
    found = AccessToken.objects.of_user(user_id).live(at)
    locked = list(_in_order(found).values_list("pk", flat=True))
    live = AccessToken.objects.filter(pk__in=locked).update(revoked_at=at)
    ServiceAccount.objects.filter(user_id=user_id).delete()
    transaction.on_commit(revocations.bump)
    return live


def delete_old_tokens(*, actor: Actor, batch: int = BATCH) -> int:
    """Delete the rows of tokens that ended long ago; how many there were."""
    latest = now() - KEPT_AFTER_THEIR_END
    return delete_in_batches(
        AccessToken.objects.filter(Q(expires_at__lt=latest) | Q(revoked_at__lt=latest)), batch=batch
    )


def _details(token: AccessToken) -> dict[str, Any]:
    """What the log tells of a new token."""
    return {"user": token.user_id, "named": token.name, "scopes": token.scopes, "expires_at": token.expires_at}


def _owner(actor: Actor, user_id: str | None) -> str:
    """Whose token it will be, if `actor` may make one for them."""
    require_somebody(actor)
    if settings.ICEKEEPER.access_tokens is False and not actor.is_internal:
        raise AccessTokensNotAccepted("This server takes no tokens of its own: ICEKEEPER__ACCESS_TOKENS is false")
    if actor.identity is not None and actor.identity.is_short_lived:
        raise Forbidden("A short-lived token makes and rotates no tokens: come with the token that it was made from")
    if user_id is None or user_id == actor.user_id:
        if actor.user_id is None:
            raise BadRequest("user-id: must be given", field="user-id")
        return actor.user_id
    if not actor.is_internal and kind_of(user_id) is not Kind.SERVICE:
        raise Forbidden("A token of another person is theirs to make; user-id takes a service account")
    require_on_server(actor, Can.PROVISION_USERS)
    return user_id


def kind_of(user_id: str) -> Kind:
    return Kind.SERVICE if user_id.startswith(USER_ID_PREFIX) else Kind.PERSONAL


def _lock_tokens(actor: Actor, *others: UUID) -> dict[UUID, AccessToken]:
    """The token that the actor came with, and `others`, as far as they are there, locked in one statement.

    What is made with a token is there when somebody else revokes that one.
    """
    own = actor.identity.access_token_id if actor.identity is not None else None
    wanted = others if own is None else (own, *others)
    return {token.pk: token for token in _in_order(AccessToken.objects.filter(pk__in=wanted))}


def _in_order(tokens: QuerySet[AccessToken]) -> QuerySet[AccessToken]:
    """Locked in the order of their ids, as `record_uses` does: nobody waits for each other in a circle."""
    return tokens.select_for_update(no_key=True).order_by("pk")


def _bounds(actor: Actor, owner: str, locked: Mapping[UUID, AccessToken]) -> _Bounds:
    identity = actor.identity
    if identity is None or identity.access_token_id is None:
        return _Bounds(None, None)
    own = locked.get(identity.access_token_id)
    if own is None or own.revoked_at is not None or own.expires_at <= now():
        raise AuthenticationFailed("The token has ended")
    return _Bounds(identity.scopes, own.expires_at if owner == actor.user_id else None)


def _granted(wanted: Iterable[str] | None, bounds: _Bounds) -> frozenset[str]:
    """The scopes of the new token; without a wish the usual ones, as far as the actor has them."""
    if wanted is None:
        return DEFAULT_SCOPES if bounds.scopes is None else narrow_scopes(DEFAULT_SCOPES, bounds.scopes)
    scopes = validate_scopes(wanted)
    if bounds.scopes is not None and not expand_scopes(scopes) <= expand_scopes(bounds.scopes):
        raise InsufficientScope(f"This token has the scopes {join_scopes(bounds.scopes)}, and cannot hand on others")
    return scopes


def _longest() -> float:
    return settings.ICEKEEPER.access_token_max_lifetime


def _end(at: datetime, *, expires_in: float | None, expires_at: datetime | None, latest: datetime | None) -> datetime:
    """When the new token ends. Without a wish at the usual time, or with the token `latest` that bounds it."""
    longest = _longest()
    if expires_at is None and expires_in is None:
        usual = at + timedelta(seconds=min(settings.ICEKEEPER.access_token_default_lifetime, longest))
        return usual if latest is None else min(usual, latest)
    lifetime = expires_in if expires_at is None else (expires_at - at).total_seconds()
    if lifetime is None or not 1 <= lifetime <= longest:
        raise BadRequest(
            f"A token lives for 1 second at least and {int(longest)} at most (ICEKEEPER__ACCESS_TOKEN_MAX_LIFETIME)"
        )
    end = at + timedelta(seconds=lifetime)
    if latest is not None and end > latest:
        raise BadRequest(f"A token does not outlive the one that it is made with, which ends at {latest.isoformat()}")
    return end


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _lock_owner(actor: Actor, owner: str) -> None:
    """As `_lock_user`; of another's account also the roles that it is in, and whether `actor` may act as it."""
    _lock_user(owner)
    if owner != actor.user_id:
        lock_roles(user_id=owner)
        require_to_act_as(actor, owner)


def _lock_user(user_id: str) -> None:
    """Tokens of one user are made one after the other, and not while the user is being deleted.

    A user whose id is a service account's without being one has none.
    """
    user = lock_row(User, "id = %s", [user_id])
    is_somebody = kind_of(user_id) is Kind.PERSONAL or ServiceAccount.objects.filter(user_id=user_id).exists()
    if user is None or user.deleted_at is not None or not is_somebody:
        raise user_not_found(user_id)
    if not user.is_active:
        raise Forbidden(f"User is not active: {user_id}")


def _issue(
    actor: Actor,
    owner: str,
    name: str,
    scopes: frozenset[str],
    life: _Life,
    *,
    instead_of: AccessToken | None = None,
) -> IssuedToken:
    others = AccessToken.objects.of_user(owner).live(life.start)
    if instead_of is not None:
        others = others.exclude(pk=instead_of.pk)
    if others.count() >= MAX_LIVE_TOKENS:
        raise TooManyAccessTokens(f"{owner} has {MAX_LIVE_TOKENS} tokens that have not ended: revoke one")
    token_id, kind = new_id(), kind_of(owner)
    text = create_token_text(kind, token_id)
    row = AccessToken.objects.create(
        id=token_id,
        user_id=owner,
        name=name,
        prefix=token_prefix(kind, token_id),
        digest=token_digest(text),
        scopes=join_scopes(scopes),
        created_at=life.start,
        created_by=actor.user_id or actor.name,
        created_with=actor.identity.access_token_id if actor.identity is not None else None,
        expires_at=life.end,
        not_after=life.latest,
    )
    return IssuedToken(row, text)
