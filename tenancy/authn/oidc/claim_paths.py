"""How a claim is read that may be elsewhere, or of another kind, than expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def claim_at(claims: Mapping[str, Any], path: str) -> Any:
    """The claim of just that name, else the one at the dotted path (`realm_access.roles`); None when there is none."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def texts(value: Any) -> tuple[str, ...]:
    """The text, or the list of texts, that a claim holds; empty when it holds anything else."""
    values = value if isinstance(value, list) else [value]
    return tuple(values) if all(isinstance(each, str) for each in values) else ()
