"""From the text of a token to whom it speaks for. What was verified is remembered for up to a minute."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from hashlib import sha256
from threading import Lock
from typing import Final

from cachetools import LRUCache

from tenancy.authn.authenticator import AuthenticationFailed, ProviderUnavailable, Verified
from tenancy.authn.providers import authenticators
from tenancy.authn.revocations import revocations
from tenancy.identity import Identity

logger = logging.getLogger("icekeeper.authn")

REMEMBERED_SECONDS: Final = 60.0
MOST_REMEMBERED: Final = 10_000
LONGEST_TOKEN: Final = 16_384


class VerifiedTokens:
    """What was verified lately, by the hash of the token; the token itself is not kept.

    A token of this server is verified anew when any of them was revoked.
    """

    def __init__(self) -> None:
        self._verified: LRUCache[bytes, Verified] = LRUCache(MOST_REMEMBERED)
        self._lock = Lock()

    def get(self, digest: bytes) -> Identity | None:
        with self._lock:
            known = self._verified.get(digest)
        if known is None or time.time() >= known.expires_at:
            return None
        if known.revocations is not None and known.revocations != revocations.read():
            return None
        return known.identity

    def put(self, digest: bytes, verified: Verified) -> None:
        until = min(verified.expires_at, time.time() + REMEMBERED_SECONDS)
        with self._lock:
            self._verified[digest] = replace(verified, expires_at=until)

    def clear(self) -> None:
        with self._lock:
            self._verified.clear()


verified_tokens = VerifiedTokens()


def identify(token: str) -> Identity:
    """Whom `token` speaks for.

    Every provider that the token claims to be from is asked until one accepts it. Raises `AuthenticationFailed` (401)
    when none does, `ProviderUnavailable` (503) when that may only be for want of a provider's keys.
    """
    if len(token) > LONGEST_TOKEN:
        raise AuthenticationFailed(f"The token is longer than {LONGEST_TOKEN} characters")
    digest = sha256(token.encode(errors="surrogatepass")).digest()
    known = verified_tokens.get(digest)
    if known is not None:
        return known
    unavailable: ProviderUnavailable | None = None
    reasons = []
    for authenticator in authenticators():
        if not authenticator.is_for(token):
            continue
        try:
            verified = authenticator.verify(token)
        except AuthenticationFailed as failure:
            reasons.append(failure.message)
        except ProviderUnavailable as failure:
            unavailable = failure
        else:
            verified_tokens.put(digest, verified)
            return verified.identity
    if unavailable is not None:
        raise unavailable
    logger.info("a token was refused: %s", "; ".join(reasons) or "it names no provider of this server")
    raise AuthenticationFailed("The token was not accepted")
