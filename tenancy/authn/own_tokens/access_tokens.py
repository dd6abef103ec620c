"""The tokens of this server: a person's own (`ikp_`), secrets of service accounts (`iks_`), and the short-lived ones
that are made from both (`ika_`)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from hmac import compare_digest
from typing import Final

from tenancy.authentication_errors import AuthenticationFailed
from tenancy.authn.authenticator import Authenticator, VerifiedToken
from tenancy.authn.own_tokens.scopes import narrow_scopes
from tenancy.authn.own_tokens.session_tokens import PREFIX as SESSION_PREFIX
from tenancy.authn.own_tokens.session_tokens import SessionClaims, read_session_token
from tenancy.authn.own_tokens.stored_tokens import (
    SECONDS_WITHOUT_A_LOOK,
    StoredToken,
    find_live_token,
    find_token,
    require_live,
    revocations,
)
from tenancy.authn.own_tokens.token_format import Kind, read_token, token_digest
from tenancy.authn.own_tokens.token_uses import token_uses
from tenancy.identity import Identity

PREFIXES: Final = (*(f"{kind}_" for kind in Kind), SESSION_PREFIX)


@dataclass(frozen=True, slots=True)
class AcceptedToken:
    """A token that is good: the row that it stands on, what it may do, and its end in seconds since the epoch."""

    stored: StoredToken
    scopes: frozenset[str]
    expires_at: float
    session: SessionClaims | None = None
    """What a short-lived token says."""

    def identity(self) -> Identity:
        return self.stored.identity(self.scopes, is_short_lived=self.session is not None)


class AccessTokenAuthenticator(Authenticator):
    name = "access tokens"

    def may_accept(self, token: str) -> bool:
        return token.startswith(PREFIXES)

    def verify(self, token: str) -> VerifiedToken:
        seen = revocations.read()  # before the row: what ends while it is read is looked at again
        accepted = accept(token)
        until = min(accepted.expires_at, time.time() + SECONDS_WITHOUT_A_LOOK)
        return VerifiedToken(accepted.identity(), until, revocations=seen)


def accept(token: str) -> AcceptedToken:
    """Raises `AuthenticationFailed` for a token that is malformed, forged or has ended."""
    return accept_session_token(token) if token.startswith(SESSION_PREFIX) else accept_access_token(token)


def accept_access_token(token: str) -> AcceptedToken:
    """As `accept`, for a token that has a row of its own."""
    text = read_token(token)
    if text is None:
        raise AuthenticationFailed("a malformed access token")
    digest = token_digest(token)  # before the row is there or not: both take as long
    stored = find_token(text.token_id)
    if not compare_digest(digest, stored.digest):
        raise AuthenticationFailed(f"a forged access token {text.token_id}")
    require_live(stored)
    token_uses.note(stored.token_id)
    return AcceptedToken(stored, stored.scopes, stored.expires_at)


def accept_session_token(token: str, *, may_have_expired: bool = False) -> AcceptedToken:
    """As `accept`, for a short-lived token. It has no more scopes than its parent, which must not have ended."""
    session = read_session_token(token, may_have_expired=may_have_expired)
    parent = find_live_token(session.token_id)
    if parent.user_id != session.user_id:
        raise AuthenticationFailed(f"a session token of another user than access token {session.token_id}")
    token_uses.note(parent.token_id)
    until = min(session.expires_at, parent.expires_at)
    return AcceptedToken(parent, narrow_scopes(session.scopes, parent.scopes), until, session)
