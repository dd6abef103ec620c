"""Parses JSON Web Tokens, and checks issuer, audience, scope and times of verified claims."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from joserfc.util import urlsafe_b64decode

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.json.strict import JsonBound, read_json
from tenancy.actor import AuthenticationFailed
from tenancy.authn.oidc.claims import texts

_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
"""JWS compact serialization with a payload and a signature: no JWE, nothing detached, nothing unsigned."""

_BOUND: Final = JsonBound(containers=1_000, values=5_000)
_MAX_LOGGED_LENGTH: Final = 100


class NotAJwt(ValueError):
    """The text is not a signed JWT; the message is for the log."""


@dataclass(frozen=True, slots=True)
class UnverifiedToken:
    header: dict[str, Any]
    claims: dict[str, Any]

    @property
    def issuers(self) -> tuple[str, ...]:
        return texts(self.claims.get("iss"))

    @property
    def audiences(self) -> tuple[str, ...]:
        return texts(self.claims.get("aud"))

    def __str__(self) -> str:
        """Return issuer and audience for the log."""
        logged = (str(self.claims.get(claim))[:_MAX_LOGGED_LENGTH] for claim in ("iss", "aud"))
        return "iss {!r}, aud {!r}".format(*logged)


def read_jwt(token: str) -> UnverifiedToken:
    """Parse a signed JWT, unverified. Raises `NotAJwt`, also unless header and claims are strict JSON objects."""
    if not _COMPACT.fullmatch(token):
        raise NotAJwt("it is not three parts in base64url")
    header, claims, _ = token.encode().split(b".")
    return UnverifiedToken(_read_part("header", header), _read_part("claims", claims))


def _read_part(name: str, part: bytes) -> dict[str, Any]:
    try:
        value = read_json(urlsafe_b64decode(part), bound=_BOUND)
    except ValueError:
        raise NotAJwt(f"its {name} is not base64url") from None
    except BadRequest as error:
        raise NotAJwt(f"its {name}: {error.message}") from None
    if not isinstance(value, dict):
        raise NotAJwt(f"its {name} is not an object")
    return value


LAST_DATE: Final = 253_402_300_799
"""The end of the year 9999, in seconds since the epoch; later times are rejected."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Requirements for verified claims; empty `audiences` accept any audience, `leeway` is in seconds."""

    audiences: frozenset[str] = frozenset()
    scope: str | None = None
    leeway: float = 60.0

    def check(self, claims: Mapping[str, Any], *, issuers: frozenset[str], now: float) -> float:
        """Return until when the token is accepted, in seconds since the epoch. Raises `AuthenticationFailed`."""
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
    """Return the scopes of `scope` (RFC 9068) and of `scp` (Entra, Okta)."""
    words: set[str] = set()
    for claim in ("scope", "scp"):
        for text in texts(claims.get(claim)):
            words.update(text.split(" "))
    return frozenset(words)


def _date(claims: Mapping[str, Any], name: str) -> float | None:
    """Return a time claim in seconds since the epoch; None without the claim."""
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LAST_DATE:
        raise AuthenticationFailed(f"its {name} is not a date")
    return float(value)
