"""Verifies bearer tokens with the configured authenticators, and caches results for up to a minute."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from threading import Lock
from typing import Final

from cachetools import LRUCache
from django.conf import settings

from icekeeper.kernel.db.sql import fetch_one
from tenancy.actor import Identity
from tenancy.authentication_errors import AuthenticationFailed, GenuineTokenRejected, SignedTokenRejected
from tenancy.authn.authenticator import Authenticator, ProviderUnavailable, VerifiedToken
from tenancy.authn.oidc.jwt import NotAJwt, read_jwt
from tenancy.authn.own_tokens.stored_tokens import revocations
from tenancy.authn.providers import authenticators
from tenancy.user_ids import require_user_id

logger = logging.getLogger("icekeeper.authn")

CACHE_SECONDS: Final = 60.0
MAX_CACHED: Final = 10_000
MAX_TOKEN_LENGTH: Final = 16_384
_IS_ACTIVE: Final = "SELECT is_active FROM tenancy_user WHERE id = %s"
_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""RFC 6750 §2.1."""


class VerifiedTokens:
    """Cache of verified tokens by the hash of the token; the token itself is not stored.

    Tokens of this server are verified again after any of them was revoked.
    """

    def __init__(self) -> None:
        self._verified: LRUCache[bytes, VerifiedToken] = LRUCache(MAX_CACHED)
        self._lock = Lock()

    def get(self, digest: bytes) -> Identity | None:
        with self._lock:
            known = self._verified.get(digest)
        if known is None or time.time() >= known.expires_at:
            return None
        if known.revocations is not None and known.revocations != revocations.read():
            return None
        return known.identity

    def put(self, digest: bytes, verified: VerifiedToken) -> None:
        until = min(verified.expires_at, time.time() + CACHE_SECONDS)
        with self._lock:
            self._verified[digest] = replace(verified, expires_at=until)

    def clear(self) -> None:
        with self._lock:
            self._verified.clear()


verified_tokens = VerifiedTokens()


def identify(token: str) -> Identity:
    """Return the identity that `token` stands for.

    Every provider that the token claims to be from is tried until one accepts it: first those that know the key that it
    names, last those that have not been reached yet, so that they do not delay tokens of others. After a provider has
    verified the signature and rejected the token, others are tried only if they know that key, after a refresh of at
    most a second. For a token that none of them claims, metadata is refreshed, as a provider may have changed its
    issuer. Raises `AuthenticationFailed` (401) if no provider accepts the token, and `ProviderUnavailable` (503) if its
    signature could not be verified because the keys of a provider are missing.
    """
    if len(token) > MAX_TOKEN_LENGTH:
        raise _rejection(f"it is longer than {MAX_TOKEN_LENGTH} characters")
    digest = sha256(token.encode(errors="surrogatepass")).digest()
    known = verified_tokens.get(digest)
    if known is not None:
        return known
    if not _BEARER.fullmatch(token):
        raise _rejection("it contains characters that no token has; was the Authorization header sent twice?")
    unavailable: ProviderUnavailable | None = None
    failures: list[AuthenticationFailed] = []
    is_signed = False
    for authenticator in _candidates(token):
        if is_signed and not authenticator.has_key_of(token):
            authenticator.refresh_briefly()
            if not authenticator.has_key_of(token):
                continue
        try:
            verified = authenticator.verify(token)
            require_user_id(verified.identity.user_id)
            _require_active(verified.identity)
        except AuthenticationFailed as failure:
            failures.append(failure)
            is_signed = is_signed or isinstance(failure, SignedTokenRejected)
        except ProviderUnavailable as failure:
            logger.info("a token could not be verified: %s", failure.reason)
            unavailable = failure
        else:
            verified_tokens.put(digest, verified)
            return verified.identity
    if unavailable is not None and not is_signed:
        raise unavailable
    reasons = "; ".join(each.message for each in failures)
    genuine = next((each for each in failures if isinstance(each, GenuineTokenRejected)), None)
    raise _rejection(reasons or f"no provider of this server accepts it ({_describe(token)})", genuine)


def _candidates(token: str) -> Iterator[Authenticator]:
    """Yield the authenticators to try in order; those that need a refresh only if no other accepts the token."""
    configured = authenticators()
    candidates = [authenticator for authenticator in configured if authenticator.may_accept(token)]
    if any(candidate.has_key_of(token) for candidate in candidates):
        for candidate in candidates:  # several authenticators of one provider may have keys of different age
            if candidate.is_ready and not candidate.has_key_of(token):
                candidate.refresh_briefly()
    yield from sorted(candidates, key=lambda candidate: (not candidate.has_key_of(token), not candidate.is_ready))
    if not any(candidate.is_exclusive for candidate in candidates):
        yield from (other for other in configured if other not in candidates and other.may_accept_after_refresh(token))


def _require_active(identity: Identity) -> None:
    """Reject blocked users of identity providers; users without a row are accepted.

    The tokens of this server are looked up together with their users.
    """
    if identity.access_token_id is None:
        row = fetch_one(settings.READ_DATABASE, _IS_ACTIVE, [identity.user_id])
        if row is not None and not row[0]:
            raise GenuineTokenRejected(f"{identity.user_id} is not active", identity, "UserBlocked")


def _rejection(reason: str, genuine: GenuineTokenRejected | None = None) -> AuthenticationFailed:
    """Log the reason and return an error without it; the caller learns only that the token is not accepted."""
    logger.info("a token was rejected: %s", reason)
    message = "The token was not accepted"
    if genuine is None or genuine.claimant.identity is None:
        return AuthenticationFailed(message)
    return GenuineTokenRejected(message, genuine.claimant.identity, genuine.reason)


def _describe(token: str) -> str:
    try:
        return str(read_jwt(token))
    except NotAJwt as reason:
        return f"as a JWT: {reason}"
