"""Compare-and-set of properties: a commit of the console applies only to the values that its form showed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.errors import PropertiesChanged


def require_properties(metadata: Mapping[str, Any], expected: Mapping[str, str | None]) -> None:
    """Raise `PropertiesChanged` (409) unless properties of a table or view have these values; None: not set."""
    properties = (metadata.get("properties") or {}) if expected else {}
    changed = sorted(name for name, value in expected.items() if properties.get(name) != value)
    if changed:
        raise PropertiesChanged(f"Properties were changed meanwhile: {', '.join(changed)[:500]}")
