"""Sessions of the console: sign-in, the actor of a request, lists, and their end.

A session has the identity of its sign-in, with the roles that the token of an identity provider gave. It is valid only
as long as its way to sign in is: when a provider is removed from the settings, or local accounts are switched off, the
sessions of that provider or of local users are no longer accepted. Nor is one whose access token lacks a scope to read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest
from django.middleware.csrf import rotate_token

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import BATCH, delete_in_batches
from icekeeper.kernel.db.transactions import write_transaction
from icekeeper.kernel.errors.types import CatalogError, Forbidden, NotFound
from icekeeper.kernel.request_context import current_context
from management.models import ConsoleSession, PasswordAttempt, SignInAddress
from management.sign_in.scopes import missing_scopes
from management.sign_in.session_store import SessionStore
from tenancy import maintenance
from tenancy.actor import ANONYMOUS, Actor, AuthenticationFailed, GenuineTokenRejected, Identity
from tenancy.audit.occurrences import record_sign_in, record_sign_out
from tenancy.audit.recording import truncate_text
from tenancy.authn.own_tokens.access_tokens import AccessTokenAuthenticator
from tenancy.authn.own_tokens.stored_tokens import token_uses
from tenancy.authn.providers import authenticators
from tenancy.authn.requests import UnderMaintenance
from tenancy.authz.actions import Can
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import User
from tenancy.selectors.users import require_authenticated, require_permission_on_user
from tenancy.services.registration import lock_user, register_caller

logger = logging.getLogger("icekeeper.authn")

Method = ConsoleSession.Method

_IDENTITY: Final = "identity"
"""Name of the identity in the data of a session."""

_MAX_USER_AGENT_LENGTH: Final = 256

MAX_SESSIONS: Final = 50
"""Sessions of one user; a sign-in beyond it deletes the oldest."""


def begin_session(
    request: HttpRequest, identity: Identity, method: Method, *, recheck: Callable[[User], None] | None = None
) -> Actor:
    """Sign the user of `identity` in: register them as their first API call would, and create a session with a new key.

    The row of the user is locked meanwhile, as it is when they are blocked or get a new password: either that change
    deletes the session, or the sign-in sees it. `recheck` raises `AuthenticationFailed` if what was verified before no
    longer applies to the locked row. An earlier session of the browser is deleted, and so are all but the newest
    `MAX_SESSIONS` of the user.

    Raises `AuthenticationFailed` (401) also for a blocked or deleted user, and
    `UnderMaintenance` (503) for a user who is not registered, because maintenance mode registers none.
    """
    actor = Actor(user_id=identity.user_id, identity=identity)
    register_caller(actor=actor)
    store = session_of(request)
    with write_transaction():
        user = _lock_active_user(identity.user_id)
        if recheck is not None:
            recheck(user)
        origin = current_context().origin
        store.start(
            {_IDENTITY: _to_json(identity)},
            user=user,
            access_token_id=identity.access_token_id,
            method=method,
            address=_shown_address(origin.address, origin.forwarded_for),
            user_agent=_decode_header(origin.user_agent or "")[:_MAX_USER_AGENT_LENGTH],
        )
        _delete_oldest_sessions(store.row)
    rotate_token(request)
    set_actor(request, actor)
    record_sign_in(actor=actor, is_accepted=True, details=_details(store.row))
    return actor


def _lock_active_user(user_id: str) -> User:
    user = lock_user(user_id)
    is_known = user is not None and user.deleted_at is None
    if not is_known and maintenance.is_read_only():
        raise UnderMaintenance("The server is in maintenance mode: users who never signed in cannot do so now")
    if user is None or not is_known or not user.is_active:
        raise AuthenticationFailed(f"{user_id} is deleted or not active")
    return user


def record_failed_sign_in(method: Method, failure: str | CatalogError, *, claimant: Actor = ANONYMOUS) -> None:
    """Log and audit a failed sign-in by its error or its reason, with the user if a genuine token names one."""
    reason, message = (failure, failure) if isinstance(failure, str) else (failure.wire_type, failure.message)
    if isinstance(failure, GenuineTokenRejected):
        claimant, reason = failure.claimant, failure.reason
    logger.info("a sign-in to the console failed: %s", message)
    record_sign_in(actor=claimant, is_accepted=False, reason=reason, details={"method": method.value})


POLL: Final = "poll"
"""`X-Requested-With` of requests that a script of a page sends by itself."""


def session_of(request: HttpRequest) -> SessionStore:
    store = request.session
    assert isinstance(store, SessionStore)  # noqa: S101 - SESSION_ENGINE
    return store


def find_actor(request: HttpRequest) -> Actor | None:
    """Return the actor of the session of `request`; None without a valid one. At most two statements."""
    store = session_of(request)
    row = store.find_row()
    if row is None:
        return None
    known = store.get(_IDENTITY)
    identity = None if known is None else _from_json(known)
    if identity is None or identity.user_id != row.user_id or not _is_way_open(row.method, identity):
        return None
    if missing_scopes(identity, is_reading=True):
        return None
    if not maintenance.is_read_only():
        if request.headers.get("X-Requested-With") != POLL:  # a page that is only left open does not keep a session
            store.touch(now())
        if identity.access_token_id is not None:
            token_uses.note(identity.access_token_id)
    return Actor(user_id=identity.user_id, identity=identity)


def set_actor(request: HttpRequest, actor: Actor) -> None:
    """Set the actor of the request, also for the access log and the audit trail."""
    request.actor = actor  # type: ignore[attr-defined]
    request.META["icekeeper.actor"] = actor
    request.META["icekeeper.user"] = actor.user_id
    if actor.identity is not None and actor.identity.access_token_id is not None:
        request.META["icekeeper.access_token"] = actor.identity.access_token_id


def accepts_access_tokens() -> bool:
    """Return whether the APIs accept access tokens of this server."""
    return any(isinstance(each, AccessTokenAuthenticator) for each in authenticators())


def _is_way_open(method: str, identity: Identity) -> bool:
    """Return whether users can still sign in as the user of the session did."""
    own = settings.ICEKEEPER
    if method == Method.PROVIDER:
        return identity.provider_id in own.identity_providers
    if method == Method.TOKEN:
        return accepts_access_tokens()
    return method != Method.PASSWORD or bool(own.console.local_accounts)


def sign_out(request: HttpRequest) -> None:
    """Delete the session of `request`, if it has one."""
    store = session_of(request)
    row, actor = store.find_row(), find_actor(request)
    store.flush()
    if row is not None and actor is not None:
        record_sign_out(actor=actor, details=_details(row))


class SessionSummary(NamedTuple):
    """A session in a list. `address` and `user_agent` are those of the sign-in, as the browser or a proxy sent them."""

    id: UUID
    user_id: str
    method: Method
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime
    address: str
    user_agent: str
    is_current: bool


class SessionNotFound(NotFound):
    wire_type = "SessionNotFound"


def list_sessions_for(
    *, actor: Actor, user_id: str | None = None, current: ConsoleSession | None = None
) -> list[SessionSummary]:
    """Return the valid sessions of `user_id`, by default of the actor, the newest first.

    `current` is the session of the request (`request.console_session`). Raises `Forbidden` (403) for another user
    without the permission to block users.
    """
    owner = _owner(actor, user_id)
    rows = ConsoleSession.objects.live(now()).filter(user_id=owner).select_related(None).order_by("-created_at", "pk")
    return [
        SessionSummary(
            row.pk, owner, Method(row.method), row.created_at, row.last_seen_at, row.expire_date, row.address,
            row.user_agent, current is not None and row.pk == current.pk,
        )
        for row in rows
    ]  # fmt: skip


def end_session(*, actor: Actor, session_id: UUID) -> None:
    """Delete a session: its browser is signed out with its next request.

    Raises `SessionNotFound` (404), also for a session of another user without the permission to block users.
    """
    row = ConsoleSession.objects.filter(pk=session_id).first()
    not_found = SessionNotFound(f"Session does not exist: {session_id}")
    if row is None:
        raise not_found
    try:
        _owner(actor, row.user_id)
    except Forbidden:
        raise not_found from None
    with change(actor) as tx:
        if not ConsoleSession.objects.filter(pk=session_id).delete()[0]:
            raise not_found
        tx.record(Change.SESSION_REVOKED, subject=session_id, user=row.user_id)


def end_all_sessions(*, actor: Actor, user_id: str | None = None, keep: ConsoleSession | None = None) -> int:
    """Delete all sessions of `user_id`, by default of the actor, except `keep`, and the unused one-time addresses.

    Return the number of sessions. Raises `Forbidden` (403) for another user without the permission to block users.
    """
    owner = _owner(actor, user_id)
    with change(actor) as tx:
        lock_user(owner)  # a sign-in that runs now ends before, or begins afterwards
        rows = ConsoleSession.objects.filter(user_id=owner)
        if keep is not None:
            rows = rows.exclude(pk=keep.pk)
        ids = list(rows.values_list("pk", flat=True))
        ConsoleSession.objects.filter(pk__in=ids).delete()
        SignInAddress.objects.unused().filter(user_id=owner).delete()
        for session_id in ids:
            tx.record(Change.SESSION_REVOKED, subject=session_id, user=owner)
    return len(ids)


def delete_sessions_of(user_id: str) -> int:
    """Delete the sessions and unused one-time addresses of a user; return the number of sessions.

    Called for a new password, and for a user who is blocked or deleted (`settings.BLOCKED_USER_HOOKS`), in the
    transaction that changes and so locks the row of the user: see `begin_session`.
    """
    SignInAddress.objects.unused().filter(user_id=user_id).delete()
    return ConsoleSession.objects.filter(user_id=user_id).delete()[0]


def delete_ended_sessions(*, actor: Actor, batch: int = BATCH) -> int:
    """Delete sessions and one-time addresses that are no longer valid, and old password attempts.

    Return the number of sessions.
    """
    at = now()
    delete_in_batches(SignInAddress.objects.filter(expires_at__lt=at), batch=batch)
    delete_in_batches(PasswordAttempt.objects.filter(started_at__lt=at - timedelta(days=1)), batch=batch)
    return delete_in_batches(ConsoleSession.objects.ended_before(at), batch=batch)


def _delete_oldest_sessions(newest: ConsoleSession | None) -> None:
    """Delete the sessions of the user of `newest`, whose row is locked, beyond `MAX_SESSIONS`."""
    if newest is None:
        return
    others = ConsoleSession.objects.filter(user_id=newest.user_id).exclude(pk=newest.pk)
    oldest = list(others.order_by("-created_at", "-pk").values_list("pk", flat=True)[MAX_SESSIONS - 1 :])
    if oldest:
        ConsoleSession.objects.filter(pk__in=oldest).delete()


def _owner(actor: Actor, user_id: str | None) -> str:
    require_authenticated(actor)
    owner = user_id or actor.user_id
    if owner is None:
        raise SessionNotFound("The server's own commands have no sessions")
    require_permission_on_user(actor, Can.DELETE, owner)
    return owner


def _details(row: ConsoleSession | None) -> dict[str, Any]:
    return {} if row is None else {"method": row.method, "session": row.pk}


def _shown_address(address: str | None, forwarded_for: str | None) -> str:
    """Return the client's address, behind a proxy the one that the nearest proxy reports."""
    if forwarded_for and settings.ICEKEEPER.use_x_forwarded_headers:
        address = forwarded_for.rpartition(",")[2].strip()
    return truncate_text(_decode_header(address or ""), 64)


def _decode_header(value: str) -> str:
    """Decode a header, whose bytes WSGI passes as latin-1, as UTF-8, without what databases reject."""
    return truncate_text(value[:1024].encode("latin-1", "replace").decode("utf-8", "replace"), 1024)


def _to_json(identity: Identity) -> dict[str, Any]:
    return {
        "user_id": identity.user_id,
        "provider_id": identity.provider_id,
        "user_type": identity.user_type,
        "name": identity.name,
        "email": identity.email,
        "roles": list(identity.roles),
        "scopes": None if identity.scopes is None else sorted(identity.scopes),
        "access_token_id": None if identity.access_token_id is None else str(identity.access_token_id),
        "audiences": list(identity.audiences),
    }


def _from_json(known: dict[str, Any]) -> Identity:
    token_id, scopes = known["access_token_id"], known["scopes"]
    return Identity(
        user_id=known["user_id"],
        provider_id=known["provider_id"],
        user_type=known["user_type"],
        name=known["name"],
        email=known["email"],
        roles=tuple(known["roles"]),
        scopes=None if scopes is None else frozenset(scopes),
        access_token_id=None if token_id is None else UUID(token_id),
        audiences=tuple(known["audiences"]),
    )
