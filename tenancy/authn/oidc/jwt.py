"""JSON Web Tokens: parsing, public keys of a provider (JWK sets, RFC 7517), signatures, and the checks of issuer,
audience, scope and times.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import ECKey, OKPKey, RSAKey
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


logger = logging.getLogger("icekeeper.authn")

MAX_KEYS: Final = 100
MAX_KEY_ID_LENGTH: Final = 1024
MAX_MEMBER_LENGTH: Final = 4096
"""Characters of a number in a key."""
RSA_BITS: Final = range(2048, 8193)
EXPONENTS: Final = range(3, 2**32, 2)
CURVES: Final = {"EC": {"P-256", "P-384", "P-521"}, "OKP": {"Ed25519", "Ed448"}}
ALGORITHMS_OF: Final = {
    "RSA": {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"},
    "P-256": {"ES256"},
    "P-384": {"ES384"},
    "P-521": {"ES512"},
    "Ed25519": {"EdDSA", "Ed25519"},
    "Ed448": {"EdDSA", "Ed448"},
}

PublicKey = RSAKey | ECKey | OKPKey


class UnusableKey(ValueError):
    """A key or key set cannot be used; the message is for the log."""


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A public key and the algorithms of the tokens that it may verify."""

    key: PublicKey
    algorithms: frozenset[str]


Keys = Mapping[str, tuple[VerifyingKey, ...]]
"""Keys by key id; a few providers use one id for several keys of different types."""


def read_key_set(document: Mapping[str, Any], algorithms: frozenset[str], owner: str) -> Keys:
    """Return the usable keys of a JWK set and log the others. Raises `UnusableKey` for an invalid set."""
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise UnusableKey("it has no list of keys")
    if len(listed) > MAX_KEYS:
        raise UnusableKey(f"it has more than {MAX_KEYS} keys")
    found: dict[str, tuple[VerifyingKey, ...]] = {}
    for position, jwk in enumerate(listed):
        try:
            key_id, key = _read_key(jwk, algorithms)
        except UnusableKey as reason:
            logger.info("%s: its key %d is ignored: %s", owner, position, reason)
            continue
        found[key_id] = (*found.get(key_id, ()), key)
    return found


def _read_key(jwk: Any, algorithms: frozenset[str]) -> tuple[str, VerifyingKey]:
    if not isinstance(jwk, dict):
        raise UnusableKey("it is not an object")
    key_id, kind = jwk.get("kid"), jwk.get("kty")
    if not isinstance(key_id, str) or not 0 < len(key_id) <= MAX_KEY_ID_LENGTH:
        raise UnusableKey("it has no usable kid")
    if not isinstance(kind, str) or kind not in _READERS:
        raise UnusableKey("its kty is not RSA, EC or OKP")
    if "d" in jwk:
        raise UnusableKey("it is a private key, which must not be published")
    if jwk.get("use", "sig") != "sig":
        raise UnusableKey("it is not for signatures")
    operations = jwk.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        raise UnusableKey("it is not for verifying")
    try:
        key, fitting = _READERS[kind](jwk)
    except UnusableKey:
        raise
    except Exception as error:  # noqa: BLE001 - the library raises various errors for hostile numbers
        raise UnusableKey(f"it cannot be read ({type(error).__name__})") from None
    allowed = algorithms & fitting
    if "alg" in jwk:
        allowed &= {jwk["alg"]} if isinstance(jwk["alg"], str) else set()
    if not allowed:
        raise UnusableKey("its algorithm is not accepted here")
    return key_id, VerifyingKey(key, frozenset(allowed))


def _read_rsa(jwk: dict[str, Any]) -> tuple[PublicKey, set[str]]:
    modulus, exponent = _number(jwk, "n"), _number(jwk, "e")
    if modulus.bit_length() not in RSA_BITS:
        raise UnusableKey(f"its modulus has {modulus.bit_length()} bits")
    if exponent not in EXPONENTS:
        raise UnusableKey("its exponent is out of bounds")
    return RSAKey.import_key({name: jwk[name] for name in ("n", "e")} | {"kty": "RSA"}), ALGORITHMS_OF["RSA"]


def _read_curve(jwk: dict[str, Any]) -> tuple[PublicKey, set[str]]:
    kind, curve = jwk["kty"], jwk.get("crv")
    if not isinstance(curve, str) or curve not in CURVES[kind]:
        raise UnusableKey("its curve is not accepted here")
    members = ("x", "y") if kind == "EC" else ("x",)
    plain = {name: _text(jwk, name) for name in members} | {"kty": kind, "crv": curve}
    return (ECKey if kind == "EC" else OKPKey).import_key(plain), ALGORITHMS_OF[curve]


_READERS: Final[dict[str, Callable[[dict[str, Any]], tuple[PublicKey, set[str]]]]] = {
    "RSA": _read_rsa,
    "EC": _read_curve,
    "OKP": _read_curve,
}


def _number(jwk: dict[str, Any], name: str) -> int:
    return int.from_bytes(urlsafe_b64decode(_text(jwk, name).encode()), "big")


def _text(jwk: dict[str, Any], name: str) -> str:
    value = jwk.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_MEMBER_LENGTH:
        raise UnusableKey(f"its {name} is not a number in base64url")
    return value


_MAX_PART_LENGTH: Final = 16_384


class _Registry(jws.JWSRegistry):
    """The registry of joserfc with higher length limits and without its warning for each use of EdDSA."""

    max_header_length = max_payload_length = max_signature_length = _MAX_PART_LENGTH

    def get_alg(self, name: str) -> Any:
        if self.allowed is None or name not in self.allowed:
            raise UnsupportedAlgorithmError(f"Algorithm of '{name}' is not allowed")
        return self.algorithms[name]


def signing_key_id(token: UnverifiedToken, algorithms: frozenset[str]) -> tuple[str, str]:
    """Return key id and algorithm of the header. Raises `AuthenticationFailed`.

    Other members about keys (`jku`, `jwk`, `x5u`, `x5c`) are ignored: the sender controls them.
    """
    header = token.header
    key_id, algorithm = header.get("kid"), header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise AuthenticationFailed(f"its algorithm is not accepted here: {str(algorithm)[:40]!r}")
    if not isinstance(key_id, str) or not 0 < len(key_id) <= MAX_KEY_ID_LENGTH:
        raise AuthenticationFailed("its header has no valid kid")
    if "crit" in header or "b64" in header:
        raise AuthenticationFailed("its header has extensions that must be understood (crit)")
    return key_id, algorithm


def verify_signature(token: str, keys: tuple[VerifyingKey, ...], algorithm: str) -> None:
    """Raises `AuthenticationFailed` unless one of `keys` signed it."""
    if not keys:
        raise AuthenticationFailed("the provider has no key with its kid")
    fitting = [each.key for each in keys if algorithm in each.algorithms]
    if not fitting:
        raise AuthenticationFailed(f"the key with its kid does not support {algorithm}")
    for key in fitting:
        registry = _Registry(algorithms=[algorithm], strict_check_header=False)
        try:
            jws.deserialize_compact(token, key, registry=registry)
        except (JoseError, ValueError):
            continue
        return
    raise AuthenticationFailed("its signature does not match the key with its kid")
