"""Whether a token was signed with one of the keys of its provider."""

from __future__ import annotations

from typing import Any, Final

from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError

from tenancy.authn.authenticator import AuthenticationFailed
from tenancy.authn.jwks import MAX_KEY_ID_LENGTH, VerifyingKey
from tenancy.authn.unverified import UnverifiedToken

_MAX_PART_LENGTH: Final = 16_384


class _Registry(jws.JWSRegistry):
    """joserfc's, with bounds that real tokens keep, and without its warning for each use of EdDSA."""

    max_header_length = max_payload_length = max_signature_length = _MAX_PART_LENGTH

    def get_alg(self, name: str) -> Any:
        if self.allowed is None or name not in self.allowed:
            raise UnsupportedAlgorithmError(f"Algorithm of '{name}' is not allowed")
        return self.algorithms[name]


def signing_key_id(token: UnverifiedToken, algorithms: frozenset[str]) -> tuple[str, str]:
    """The key id and the algorithm that the header names. Raises `AuthenticationFailed`.

    Nothing else in the header says anything about keys: `jku`, `jwk`, `x5u` and `x5c` are the sender's word.
    """
    header = token.header
    key_id, algorithm = header.get("kid"), header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in algorithms:
        raise AuthenticationFailed(f"its algorithm is not accepted here: {str(algorithm)[:40]!r}")
    if not isinstance(key_id, str) or not 0 < len(key_id) <= MAX_KEY_ID_LENGTH:
        raise AuthenticationFailed("its header names no key (kid)")
    if "crit" in header or "b64" in header:
        raise AuthenticationFailed("its header has extensions that must be understood (crit)")
    return key_id, algorithm


def verify_signature(token: str, keys: tuple[VerifyingKey, ...], algorithm: str) -> None:
    """Raises `AuthenticationFailed` unless one of `keys` signed it."""
    if not keys:
        raise AuthenticationFailed("the provider has no such key as it names (kid)")
    fitting = [each.key for each in keys if algorithm in each.algorithms]
    if not fitting:
        raise AuthenticationFailed(f"the key that it names is not for {algorithm}")
    for key in fitting:
        registry = _Registry(algorithms=[algorithm], strict_check_header=False)
        try:
            jws.deserialize_compact(token, key, registry=registry)
        except (JoseError, ValueError):
            continue
        return
    raise AuthenticationFailed("its signature is not that of the key that it names")
