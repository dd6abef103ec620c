"""Properties of namespaces and generic tables: maps of strings, bounded. Keys are kept in whatever case they come."""

from __future__ import annotations

from icekeeper.kernel.errors.types import BadRequest

MAX_PROPERTIES_BYTES = 1_048_576


def read_properties(value: object, what: str) -> dict[str, str]:
    """The properties in a request body; null and absent are none. Raises `BadRequest`."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise BadRequest(f"{what}: must be an object of strings")
    require_small(value, what)
    return value


def require_small(properties: dict[str, str], what: str) -> None:
    """Raises `BadRequest` for properties that are too large together, or hold what no database stores."""
    if sum(len(key) + len(value) for key, value in properties.items()) > MAX_PROPERTIES_BYTES:
        raise BadRequest(f"{what}: larger than {MAX_PROPERTIES_BYTES} characters together")
    if any("\x00" in key or "\x00" in value for key, value in properties.items()):
        raise BadRequest(f"{what}: the character U+0000 is not allowed")
