"""Authenticates tokens of this server: personal access tokens (`ikp_`), secrets of service accounts (`iks_`), and
short-lived session tokens issued for both (`ika_`)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from hmac import compare_digest
from typing import Final

from tenancy.actor import AuthenticationFailed, Identity
from tenancy.authn.authenticator import Authenticator, VerifiedToken
from tenancy.authn.own_tokens.scopes import narrow_scopes
from tenancy.authn.own_tokens.session_tokens import PREFIX as SESSION_PREFIX
from tenancy.authn.own_tokens.session_tokens import SessionClaims, read_session_token
from tenancy.authn.own_tokens.stored_tokens import (
    MAX_REVOCATION_LAG_SECONDS,
    StoredToken,
    find_live_token,
    find_token,
    require_live,
    revocations,
    token_uses,
)
from tenancy.authn.own_tokens.token_format import TokenKind, read_token, token_digest

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
        epoch = revocations.read()  # before the row: a concurrent revocation invalidates the result
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
