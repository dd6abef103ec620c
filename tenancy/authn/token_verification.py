"""From the text of a token to whom it speaks for. What was verified is remembered for up to a minute."""

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
from tenancy.authentication_errors import AuthenticationFailed, GenuineTokenRejected, SignedTokenRejected
from tenancy.authn.authenticator import Authenticator, ProviderUnavailable, VerifiedToken
from tenancy.authn.oidc.jwt import NotAJwt, read_jwt
from tenancy.authn.own_tokens.stored_tokens import revocations
from tenancy.authn.providers import authenticators
from tenancy.identity import Identity
from tenancy.user_ids import require_user_id

logger = logging.getLogger("icekeeper.authn")

CACHE_SECONDS: Final = 60.0
MAX_CACHED: Final = 10_000
MAX_TOKEN_LENGTH: Final = 16_384
_IS_ACTIVE: Final = "SELECT is_active FROM tenancy_user WHERE id = %s"
_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""RFC 6750 §2.1."""


class VerifiedTokens:
    """What was verified lately, by the hash of the token; the token itself is not kept.

    A token of this server is verified anew when any of them was revoked.
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
    """Whom `token` speaks for.

    Every provider that the token claims to be from is asked until one accepts it; those that know the key that it names
    are asked first and those that have not been reached yet last, so that they hold up nobody else's tokens. Once a
    provider has verified the signature and refused the token, others are asked only if they know that key, after a
    second at most in which they are looked at. For a token that is surely none of theirs, providers are looked at
    anew: one may have changed its issuer. Raises
    `AuthenticationFailed` (401) when none does, `ProviderUnavailable` (503) when that may only be for want of a
    provider's keys: none of those that were asked has verified its signature.
    """
    if len(token) > MAX_TOKEN_LENGTH:
        raise _refusal(f"it is longer than {MAX_TOKEN_LENGTH} characters")
    digest = sha256(token.encode(errors="surrogatepass")).digest()
    known = verified_tokens.get(digest)
    if known is not None:
        return known
    if not _BEARER.fullmatch(token):
        raise _refusal("it holds characters that no token has; was the Authorization header sent twice?")
    unavailable: ProviderUnavailable | None = None
    failures: list[AuthenticationFailed] = []
    is_signed = False
    for authenticator in _takers(token):
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
    raise _refusal(reasons or f"no provider of this server takes it ({_described(token)})", genuine)


def _takers(token: str) -> Iterator[Authenticator]:
    """Those to ask, in this order; who comes last is looked for only when nobody before has accepted the token."""
    everybody = authenticators()
    takers = [authenticator for authenticator in everybody if authenticator.may_accept(token)]
    if any(taker.has_key_of(token) for taker in takers):
        for taker in takers:  # keys of one provider may be newer in another of its entries, which must not decide
            if taker.is_ready and not taker.has_key_of(token):
                taker.refresh_briefly()
    yield from sorted(takers, key=lambda taker: (not taker.has_key_of(token), not taker.is_ready))
    if not any(taker.is_exclusive for taker in takers):
        yield from (other for other in everybody if other not in takers and other.may_accept_after_refresh(token))


def _require_active(identity: Identity) -> None:
    """A user who is blocked here is let in by no provider; one without a row yet may come. The tokens of this server
    were looked up together with their users."""
    if identity.access_token_id is None:
        row = fetch_one(settings.READ_DATABASE, _IS_ACTIVE, [identity.user_id])
        if row is not None and not row[0]:
            raise GenuineTokenRejected(f"{identity.user_id} is not active", identity, "UserBlocked")


def _refusal(reason: str, genuine: GenuineTokenRejected | None = None) -> AuthenticationFailed:
    """The caller learns nothing that the log and the audit trail do not keep for themselves."""
    logger.info("a token was refused: %s", reason)
    message = "The token was not accepted"
    if genuine is None or genuine.claimant.identity is None:
        return AuthenticationFailed(message)
    return GenuineTokenRejected(message, genuine.claimant.identity, genuine.reason)


def _described(token: str) -> str:
    try:
        return str(read_jwt(token))
    except NotAJwt as reason:
        return f"as a JWT: {reason}"
