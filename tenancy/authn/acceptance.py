"""Whether verified claims are ones that this server accepts: issuer, audience, scope, times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenancy.authn.authenticator import AuthenticationFailed
from tenancy.authn.claim_paths import texts

LAST_DATE: Final = 253_402_300_799
"""The end of the year 9999, in seconds since the epoch: what lies after it is no date."""


@dataclass(frozen=True, slots=True)
class Expected:
    """`audiences` empty: a token may be for anybody. `leeway` in seconds."""

    audiences: frozenset[str] = frozenset()
    scope: str | None = None
    leeway: float = 60.0

    def check(self, claims: Mapping[str, Any], *, issuers: frozenset[str], now: float) -> float:
        """When the token ends to be accepted, in seconds since the epoch. Raises `AuthenticationFailed`."""
        named = texts(claims.get("iss"))
        if not named or not issuers.issuperset(named):
            raise AuthenticationFailed("its issuer is not one of the provider")
        if self.audiences and self.audiences.isdisjoint(texts(claims.get("aud"))):
            raise AuthenticationFailed("it is for another audience")
        if self.scope is not None and self.scope not in scopes(claims):
            raise AuthenticationFailed("it lacks the scope")
        return self._check_times(claims, now)

    def _check_times(self, claims: Mapping[str, Any], now: float) -> float:
        expires_at = _date(claims, "exp")
        if expires_at is None:
            raise AuthenticationFailed("it never expires (no exp)")
        if now >= expires_at + self.leeway:
            raise AuthenticationFailed("it has expired")
        not_before, issued_at = _date(claims, "nbf"), _date(claims, "iat")
        if not_before is not None and now < not_before - self.leeway:
            raise AuthenticationFailed("it is not valid yet (nbf)")
        if issued_at is not None and now < issued_at - self.leeway:
            raise AuthenticationFailed("it was issued in the future (iat)")
        return expires_at + self.leeway


def scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """The words of `scope` (RFC 9068), and of `scp`, as Entra and Okta call it."""
    words: set[str] = set()
    for claim in ("scope", "scp"):
        for text in texts(claims.get(claim)):
            words.update(text.split(" "))
    return frozenset(words)


def _date(claims: Mapping[str, Any], name: str) -> float | None:
    """Seconds since the epoch; None when there is no such claim."""
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LAST_DATE:
        raise AuthenticationFailed(f"its {name} is not a date")
    return float(value)
