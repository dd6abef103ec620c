"""What may stand in the row of a warehouse: names, what a drop does, format versions."""

from __future__ import annotations

from typing import Any

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.names import require_trimmed_name

SUPPORTED_FORMAT_VERSIONS = (1, 2, 3, 4)
ALLOWED_UNLESS_CHOSEN = (1, 2, 3)
"""Version 4 is not finished, so a warehouse must ask for it."""

MAX_NAME_BYTES = 128
MAX_EXPIRATION_SECONDS = 3_155_760_000
"""A hundred years."""


class EmptyWarehouseName(BadRequest):
    wire_type = "EmptyWarehouseName"


class WarehouseNameTooLong(BadRequest):
    wire_type = "WarehouseNameTooLong"


class EmptyAllowedFormatVersions(BadRequest):
    wire_type = "EmptyAllowedFormatVersions"


class DefaultFormatVersionNotAllowed(BadRequest):
    wire_type = "DefaultFormatVersionNotAllowed"


def checked_warehouse_name(name: str) -> str:
    """Raises `EmptyWarehouseName`, `WarehouseNameTooLong`, `BadRequest`.

    A slash is refused, as clients name a warehouse `<project id>/<name>`.
    """
    if not name.strip():
        raise EmptyWarehouseName("The name of a warehouse must not be empty")
    if len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        raise WarehouseNameTooLong(f"The name of a warehouse must not be longer than {MAX_NAME_BYTES} bytes")
    if "/" in name:
        raise BadRequest("Invalid warehouse name: must not hold a slash")
    return require_trimmed_name(name, "warehouse name")


def checked_delete_profile(profile: dict[str, Any] | None) -> dict[str, Any]:
    """What drops do, `hard` unless chosen. Raises `BadRequest`."""
    if not profile or profile.get("type") == "hard":
        return {"type": "hard"}
    if profile.get("type") != "soft":
        raise BadRequest('delete-profile: must be {"type": "hard"} or {"type": "soft", "expiration-seconds": ...}')
    seconds = profile.get("expiration-seconds")
    if type(seconds) is not int or not 0 <= seconds <= MAX_EXPIRATION_SECONDS:
        raise BadRequest(f"delete-profile: expiration-seconds must be a number from 0 to {MAX_EXPIRATION_SECONDS}")
    return {"type": "soft", "expiration-seconds": seconds}


def checked_format_policy(allowed: list[int] | None, default: int | None) -> tuple[list[int], int | None]:
    """The versions that tables may have, in order, and that of a table which names none.

    Raises `EmptyAllowedFormatVersions`, `DefaultFormatVersionNotAllowed`, `BadRequest`.
    """
    versions = sorted(set(ALLOWED_UNLESS_CHOSEN if allowed is None else allowed))
    if not versions:
        raise EmptyAllowedFormatVersions("allowed-format-versions: must not be empty")
    if not set(versions) <= set(SUPPORTED_FORMAT_VERSIONS):
        raise BadRequest("allowed-format-versions: must be a subset of [1, 2, 3, 4]")
    if default is not None and default not in versions:
        raise DefaultFormatVersionNotAllowed("default-format-version: must be one of allowed-format-versions")
    return versions, default
