"""Authenticates tokens of this server: personal access tokens (`ikp_`), secrets of service accounts (`iks_`), and
short-lived session tokens issued for both (`ika_`).

A session token is `ika_` and a JSON Web Token, signed with a key that only the servers of this deployment have. It is
not stored: it names its parent, the stored token, and becomes invalid with it. Renewals keep the time at which the
parent was last presented; `ICEKEEPER__OAUTH_SESSION_LIFETIME` limits a session from then on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from hmac import compare_digest
from math import ceil
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OctKey

from icekeeper.kernel.db.sql import as_uuid, fetch_one
from icekeeper.kernel.ids import parse_id
from tenancy.actor import AuthenticationFailed, Identity, join_scopes, narrow_scopes
from tenancy.authn.authenticator import Authenticator, VerifiedToken
from tenancy.authn.own_tokens.stored_tokens import (
    MAX_REVOCATION_LAG_SECONDS,
    StoredToken,
    TokenKind,
    find_live_token,
    find_token,
    read_token,
    require_live,
    revocations,
    token_digest,
    token_uses,
)
from tenancy.signing_keys import derived_keys

SESSION_PREFIX: Final = "ika_"
ALGORITHM: Final = "HS256"
TYPE: Final = "icekeeper-access+jwt"
"""`typ` of the header, which distinguishes session tokens from other tokens signed with the same key."""


@dataclass(frozen=True, slots=True)
class SessionClaims:
    """Verified claims of a session token; times are in seconds since the epoch.

    `shown_at` is when the parent token was last presented.
    """

    token_id: UUID
    user_id: str
    scopes: frozenset[str]
    expires_at: int
    shown_at: int


def create_session_token(
    parent: StoredToken, scopes: frozenset[str], *, shown_at: int | None = None
) -> tuple[str, int]:
    """Return a session token of `parent` and its lifetime in seconds, 0 if the session has ended.

    `shown_at` is when `parent` was last presented; None means now.
    """
    at = ceil(time.time())  # rounded up: the token must be valid for the returned lifetime
    shown_at = at if shown_at is None else shown_at
    latest = min(int(parent.expires_at), shown_at + int(settings.ICEKEEPER.oauth_session_lifetime))
    lifetime = min(int(settings.ICEKEEPER.oauth_token_lifetime), max(0, latest - at))
    claims: dict[str, Any] = {
        "iss": _issuer(),
        "sub": parent.user_id,
        "iat": at,
        "exp": at + lifetime,
        "auth_time": shown_at,
        "scope": join_scopes(scopes),
        "parent": str(parent.token_id),
    }
    return SESSION_PREFIX + jwt.encode(
        {"alg": ALGORITHM, "typ": TYPE}, claims, _keys()[0], algorithms=[ALGORITHM]
    ), lifetime


def read_session_token(text: str, *, may_have_expired: bool = False) -> SessionClaims:
    """Verify a session token. Raises `AuthenticationFailed` if this deployment did not sign it or it has expired."""
    token = _verify(text.removeprefix(SESSION_PREFIX))
    claims = token.claims
    if token.header.get("typ") != TYPE or claims.get("iss") != _issuer():
        raise AuthenticationFailed("a session token of another type or issuer")
    parent, expires_at, shown_at = parse_id(str(claims.get("parent"))), claims.get("exp"), claims.get("auth_time")
    if parent is None or not isinstance(expires_at, int) or not isinstance(shown_at, int):
        raise AuthenticationFailed("a session token without parent, exp or auth_time")
    if expires_at <= time.time() and not may_have_expired:
        raise AuthenticationFailed(f"a session token of access token {parent} has expired")
    scopes = frozenset(str(claims.get("scope", "")).split())
    return SessionClaims(
        token_id=parent, user_id=str(claims.get("sub")), scopes=scopes, expires_at=expires_at, shown_at=shown_at
    )


@cache
def _issuer() -> str:
    row = fetch_one("default", "SELECT server_id FROM tenancy_server", [])
    if row is None:
        raise LookupError("the server has no row: was the database migrated?")
    return f"icekeeper:{as_uuid(row[0])}"


def _verify(text: str) -> jwt.Token:
    """Verify the signature. Raises `AuthenticationFailed` if none of the keys signed the token."""
    problem = ""
    for key in _keys():
        try:
            return jwt.decode(text, key, algorithms=[ALGORITHM])
        except (JoseError, ValueError) as error:
            problem = type(error).__name__
    raise AuthenticationFailed(f"not a session token of this server: {problem}")


@cache
def _keys() -> list[OctKey]:
    """Return the signing keys: the first one signs, all verify."""
    return [OctKey.import_key(key) for key in derived_keys("icekeeper session tokens 1")]


PREFIXES: Final = (*(f"{kind}_" for kind in TokenKind), SESSION_PREFIX)


@dataclass(frozen=True, slots=True)
class AcceptedToken:
    """A valid token: its row, its scopes, and its expiry in seconds since the epoch."""

    stored: StoredToken
    scopes: frozenset[str]
    expires_at: float
    session: SessionClaims | None = None
    """Set for a session token."""

    def identity(self) -> Identity:
        return self.stored.identity(self.scopes, is_short_lived=self.session is not None)


class AccessTokenAuthenticator(Authenticator):
    name = "access tokens"

    def may_accept(self, token: str) -> bool:
        return token.startswith(PREFIXES)

    def verify(self, token: str) -> VerifiedToken:
        epoch = revocations.current()  # before the row: a concurrent revocation invalidates the result
        accepted = accept(token)
        until = min(accepted.expires_at, time.time() + MAX_REVOCATION_LAG_SECONDS)
        return VerifiedToken(accepted.identity(), until, revocations=epoch)


def accept(token: str) -> AcceptedToken:
    """Verify a token of this server. Raises `AuthenticationFailed` if it is malformed, forged, expired or revoked."""
    return accept_session_token(token) if token.startswith(SESSION_PREFIX) else accept_access_token(token)


def accept_access_token(token: str) -> AcceptedToken:
    """As `accept`, for a token with its own row."""
    text = read_token(token)
    if text is None:
        raise AuthenticationFailed("a malformed access token")
    digest = token_digest(token)  # before the look-up, so that unknown tokens take as long as known ones
    stored = find_token(text.token_id)
    if not compare_digest(digest, stored.digest):
        raise AuthenticationFailed(f"a forged access token {text.token_id}")
    require_live(stored)
    token_uses.note(stored.token_id)
    return AcceptedToken(stored, stored.scopes, stored.expires_at)


def accept_session_token(token: str, *, may_have_expired: bool = False) -> AcceptedToken:
    """As `accept`, for a session token: its parent must be valid, and limits its scopes and expiry."""
    session = read_session_token(token, may_have_expired=may_have_expired)
    parent = find_live_token(session.token_id)
    if parent.user_id != session.user_id:
        raise AuthenticationFailed(f"a session token of another user than access token {session.token_id}")
    token_uses.note(parent.token_id)
    until = min(session.expires_at, parent.expires_at)
    return AcceptedToken(parent, narrow_scopes(session.scopes, parent.scopes), until, session)
