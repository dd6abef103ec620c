"""Scopes: which of its user's rights a token carries. They only ever take away.

`catalog` is everything below `/catalog` and `/lakekeeper`, `management` everything below `/management`; with `:read`
only what changes nothing. Tokens of other providers have no scopes here: they are bounded by rights alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from icekeeper.kernel.errors.types import BadRequest, Forbidden
from tenancy.identity import Identity


class Scope(StrEnum):
    CATALOG = "catalog"
    CATALOG_READ = "catalog:read"
    MANAGEMENT = "management"
    MANAGEMENT_READ = "management:read"


DEFAULT_SCOPES: Final = frozenset({Scope.CATALOG.value, Scope.MANAGEMENT.value})
"""Of a token for which none were named."""

ALL: Final = tuple(scope.value for scope in Scope)
_ALSO: Final = {
    Scope.CATALOG.value: Scope.CATALOG_READ.value,
    Scope.MANAGEMENT.value: Scope.MANAGEMENT_READ.value,
}
"""What a scope holds beside itself."""

_API_OF: Final = {"catalog": Scope.CATALOG, "lakekeeper": Scope.CATALOG, "management": Scope.MANAGEMENT}
"""By the first segment of a path."""


class InsufficientScope(Forbidden):
    """Told as RFC 6750 §3.1 has it."""

    wire_type = "InsufficientScope"
    challenge = 'Bearer error="insufficient_scope"'


class UnknownScope(BadRequest):
    wire_type = "InvalidScope"


def require_scope(identity: Identity, path: str, *, is_reading: bool) -> None:
    """Raises `InsufficientScope` (403) unless the token of `identity` may do this at the raw `path`."""
    held = identity.scopes
    if held is None:
        return
    api = _API_OF.get(path.split("/", 2)[1])
    needed = None if api is None else _ALSO[api] if is_reading else api.value
    if needed is None or not (needed in held or (api in held and is_reading)):
        has = join_scopes(held)
        raise InsufficientScope(f"This token lacks the scope {needed or 'for this address'}: it has {has}")


def may_change_catalog(identity: Identity | None) -> bool:
    """Whether the scopes of a token, if it has any, open what changes something in the catalog."""
    return identity is None or identity.scopes is None or Scope.CATALOG.value in identity.scopes


def expand_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """The scopes with all that they hold: `catalog` holds `catalog:read`."""
    given = frozenset(scopes)
    return given | {_ALSO[scope] for scope in given if scope in _ALSO}


def narrow_scopes(wanted: frozenset[str], held: frozenset[str]) -> frozenset[str]:
    """What of `wanted` somebody can have who has `held`; `catalog` of one who may read is `catalog:read`."""
    return remove_implied_scopes(expand_scopes(wanted) & expand_scopes(held))


def remove_implied_scopes(scopes: frozenset[str]) -> frozenset[str]:
    """Without those that another one holds."""
    return scopes - {_ALSO[scope] for scope in scopes if scope in _ALSO}


def validate_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """Raises `UnknownScope` (400) for what is no scope, and for none at all."""
    given = frozenset(scopes)
    if not given or not given <= set(ALL):
        raise UnknownScope(f"scopes: must be one or more of {', '.join(ALL)}", field="scopes")
    return remove_implied_scopes(given)


def join_scopes(scopes: Iterable[str]) -> str:
    """As RFC 6749 §3.3 writes them, and as they are stored."""
    return " ".join(sorted(scopes))
