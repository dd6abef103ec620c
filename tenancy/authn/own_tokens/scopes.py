"""Scopes of access tokens: they restrict the rights of the token's user and never add any.

`catalog` covers the paths below `/catalog` and `/lakekeeper`, `management` those below `/management`; with `:read` only
requests that change nothing. Tokens of identity providers have no scopes: only rights limit them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from icekeeper.kernel.errors.types import BadRequest, Forbidden
from tenancy.actor import Identity


class Scope(StrEnum):
    CATALOG = "catalog"
    CATALOG_READ = "catalog:read"
    MANAGEMENT = "management"
    MANAGEMENT_READ = "management:read"


DEFAULT_SCOPES: Final = frozenset({Scope.CATALOG.value, Scope.MANAGEMENT.value})
"""Scopes of a token that is created without any."""

ALL: Final = tuple(scope.value for scope in Scope)
_IMPLIED: Final = {
    Scope.CATALOG.value: Scope.CATALOG_READ.value,
    Scope.MANAGEMENT.value: Scope.MANAGEMENT_READ.value,
}
"""The scope that another one implies."""

_API_OF: Final = {"catalog": Scope.CATALOG, "lakekeeper": Scope.CATALOG, "management": Scope.MANAGEMENT}
"""Scope by the first segment of the path."""


class InsufficientScope(Forbidden):
    """The token lacks a scope (RFC 6750 §3.1)."""

    wire_type = "InsufficientScope"
    challenge = 'Bearer error="insufficient_scope"'


class UnknownScope(BadRequest):
    wire_type = "InvalidScope"


def require_scope(identity: Identity, path: str, *, is_reading: bool) -> None:
    """Raises `InsufficientScope` (403) unless the scopes of `identity` cover the request for the raw `path`."""
    granted = identity.scopes
    if granted is None:
        return
    api = _API_OF.get(path.split("/", 2)[1])
    needed = None if api is None else _IMPLIED[api] if is_reading else api.value
    if needed is None or not (needed in granted or (api in granted and is_reading)):
        has = join_scopes(granted)
        raise InsufficientScope(f"This token lacks the scope {needed or 'for this path'}: it has {has}")


def may_change_catalog(identity: Identity | None) -> bool:
    """Return whether the scopes, if any, allow changes in the catalog."""
    return identity is None or identity.scopes is None or Scope.CATALOG.value in identity.scopes


def expand_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """Return the scopes with those that they imply: `catalog` implies `catalog:read`."""
    given = frozenset(scopes)
    return given | {_IMPLIED[scope] for scope in given if scope in _IMPLIED}


def narrow_scopes(wanted: frozenset[str], granted: frozenset[str]) -> frozenset[str]:
    """Return the part of `wanted` that `granted` covers; `catalog` becomes `catalog:read` if only that is granted."""
    return remove_implied_scopes(expand_scopes(wanted) & expand_scopes(granted))


def remove_implied_scopes(scopes: frozenset[str]) -> frozenset[str]:
    """Return the scopes without those that another one implies."""
    return scopes - {_IMPLIED[scope] for scope in scopes if scope in _IMPLIED}


def validate_scopes(scopes: Iterable[str]) -> frozenset[str]:
    """Return the scopes without implied ones. Raises `UnknownScope` (400) for unknown scopes or none."""
    given = frozenset(scopes)
    if not given or not given <= set(ALL):
        raise UnknownScope(f"scopes: must be one or more of {', '.join(ALL)}", field="scopes")
    return remove_implied_scopes(given)


def join_scopes(scopes: Iterable[str]) -> str:
    """Return the scopes as one text, as in RFC 6749 §3.3 and in the database."""
    return " ".join(sorted(scopes))
