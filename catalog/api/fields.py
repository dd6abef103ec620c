"""Members of bodies and queries of the types that several resources have."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from icekeeper.kernel.errors.types import BadRequest


def listed(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadRequest(f"{what}: must be a list")
    return value


def optional_list(value: object, what: str) -> list[Any]:
    """An optional list; null and absent are empty."""
    return [] if value is None else listed(value, what)


def flag(value: object, what: str) -> bool:
    """An optional one; null and absent are false."""
    if value is None:
        return False
    if not isinstance(value, bool):
        raise BadRequest(f"{what}: must be true or false")
    return value


def query_flag(request: HttpRequest, name: str, *, default: bool = False) -> bool:
    """`true` in any case: PyIceberg writes `True`."""
    given = request.GET.get(name, "true" if default else "false").lower()
    if given not in {"true", "false"}:
        raise BadRequest(f"{name}: must be true or false")
    return given == "true"
