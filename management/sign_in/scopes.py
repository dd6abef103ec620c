"""Scopes of an access token: the console shows and changes what both APIs do, and needs the scopes of both."""

from __future__ import annotations

from tenancy.actor import Identity, InsufficientScope, Scope, expand_scopes


class ConsoleScopeMissing(InsufficientScope):
    """`missing` are the scopes that the token lacks."""

    def __init__(self, missing: list[str]) -> None:
        super().__init__(f"This token lacks a scope that the console needs: {' '.join(missing)}")
        self.missing = missing


def require_console_scopes(identity: Identity, *, is_reading: bool) -> None:
    """Raises `ConsoleScopeMissing` (403) unless the scopes of `identity`, if any, cover both APIs."""
    if missing := missing_scopes(identity, is_reading=is_reading):
        raise ConsoleScopeMissing(missing)


def missing_scopes(identity: Identity, *, is_reading: bool) -> list[str]:
    if identity.scopes is None:
        return []
    needed = (Scope.CATALOG_READ, Scope.MANAGEMENT_READ) if is_reading else (Scope.CATALOG, Scope.MANAGEMENT)
    granted = expand_scopes(identity.scopes)
    return [scope.value for scope in needed if scope.value not in granted]
