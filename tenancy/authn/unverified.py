"""What a token says of itself, before anybody has verified it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from joserfc.util import urlsafe_b64decode

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.json.strict import JsonBound, read_json
from tenancy.authn.claim_paths import texts

_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
"""JWS compact serialization with a payload and a signature: no JWE, nothing detached, nothing unsigned."""

_BOUND: Final = JsonBound(containers=1_000, values=5_000)
_SHOWN: Final = 100


class NoToken(ValueError):
    """The text is no JWT; why is for the log."""


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
        """Issuer and audience as the log shows them."""
        said = (str(self.claims.get(claim))[:_SHOWN] for claim in ("iss", "aud"))
        return "iss {!r}, aud {!r}".format(*said)


def read_token(token: str) -> UnverifiedToken:
    """Raises `NoToken` for what is not exactly a signed JWT whose header and claims are objects in strict JSON."""
    if not _COMPACT.fullmatch(token):
        raise NoToken("it is not made of three parts in base64url")
    header, claims, _ = token.encode().split(b".")
    return UnverifiedToken(_read_part("header", header), _read_part("claims", claims))


def _read_part(name: str, part: bytes) -> dict[str, Any]:
    try:
        value = read_json(urlsafe_b64decode(part), bound=_BOUND)
    except ValueError:
        raise NoToken(f"its {name} is not base64url") from None
    except BadRequest as refusal:
        raise NoToken(f"its {name}: {refusal.message}") from None
    if not isinstance(value, dict):
        raise NoToken(f"its {name} is not an object")
    return value
