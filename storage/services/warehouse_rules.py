"""Rules for warehouses: names, unique names and locations, delete profiles, format versions."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from icekeeper.kernel.db.sql import fetch_one
from icekeeper.kernel.errors.types import BadRequest, Conflict
from icekeeper.kernel.names import name_key, require_trimmed_name
from storage.credentials import SYSTEM_IDENTITY_TYPES, Credential
from storage.models import Warehouse
from storage.profiles.location import ancestor_keys, build_location_key, descendant_key_range
from storage.profiles.profile import Profile
from tenancy.models import Server

SUPPORTED_FORMAT_VERSIONS = (1, 2, 3, 4)
DEFAULT_ALLOWED_FORMAT_VERSIONS = (1, 2, 3)
"""Version 4 is not final, so warehouses must allow it explicitly."""

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


def validate_warehouse_name(name: str) -> str:
    """Return a valid name, stripped. Raises `EmptyWarehouseName`, `WarehouseNameTooLong`, `BadRequest`.

    A slash is not allowed, as clients address a warehouse by `<project id>/<name>`.
    """
    if not name.strip():
        raise EmptyWarehouseName("The name of a warehouse must not be empty", field="warehouse-name")
    if len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        raise WarehouseNameTooLong(
            f"The name of a warehouse must not be longer than {MAX_NAME_BYTES} bytes", field="warehouse-name"
        )
    if "/" in name:
        raise BadRequest("Invalid warehouse name: must not contain a slash", field="warehouse-name")
    return require_trimmed_name(name, "warehouse name")


def validate_delete_profile(profile: dict[str, Any] | None) -> dict[str, Any]:
    """Return a valid delete profile; `hard` is the default. Raises `BadRequest`."""
    if not profile or profile.get("type") == "hard":
        return {"type": "hard"}
    if profile.get("type") != "soft":
        message = 'delete-profile: must be {"type": "hard"} or {"type": "soft", "expiration-seconds": ...}'
        raise BadRequest(message, field="delete-profile")
    seconds = profile.get("expiration-seconds")
    if type(seconds) is not int or not 0 <= seconds <= MAX_EXPIRATION_SECONDS:
        message = f"delete-profile: expiration-seconds must be a number from 0 to {MAX_EXPIRATION_SECONDS}"
        raise BadRequest(message, field="delete-profile.expiration-seconds")
    return {"type": "soft", "expiration-seconds": seconds}


def validate_format_policy(allowed: list[int] | None, default: int | None) -> tuple[list[int], int | None]:
    """Return the allowed versions, in order, and the default version.

    Raises `EmptyAllowedFormatVersions`, `DefaultFormatVersionNotAllowed`, `BadRequest`.
    """
    versions = sorted(set(DEFAULT_ALLOWED_FORMAT_VERSIONS if allowed is None else allowed))
    if not versions:
        raise EmptyAllowedFormatVersions("allowed-format-versions: must not be empty", field="allowed-format-versions")
    if not set(versions) <= set(SUPPORTED_FORMAT_VERSIONS):
        raise BadRequest("allowed-format-versions: must be a subset of [1, 2, 3, 4]", field="allowed-format-versions")
    if default is not None and default not in versions:
        raise DefaultFormatVersionNotAllowed(
            "default-format-version: must be one of allowed-format-versions", field="default-format-version"
        )
    return versions, default


# The bounds are compared byte by byte, as the index `warehouse_by_location_key` is sorted.
_OTHERS = """
SELECT 1 FROM storage_warehouse
 WHERE (location_key = ANY(%s) OR (location_key ~>=~ %s AND location_key ~<~ %s))
   AND (project_id = %s OR %s OR credential_type = ANY(%s))
   AND id <> %s LIMIT 1
"""


NO_WAREHOUSE: Final = UUID(int=0)


class WarehouseExists(Conflict):
    wire_type = "WarehouseAlreadyExists"


class WarehouseOverlap(BadRequest):
    wire_type = "CreateWarehouseStorageProfileOverlap"


def lock_locations() -> None:
    """Lock the row of the server. Must be the first lock of a transaction that changes locations."""
    Server.objects.select_for_update().get()


def name_taken(name: str) -> WarehouseExists:
    return WarehouseExists(f"A warehouse named {name!r} already exists in this project", field="warehouse-name")


def require_free_name(project_id: str, name: str) -> None:
    """Raises `WarehouseExists` (409)."""
    if Warehouse.objects.filter(project_id=project_id, name_key=name_key(name)).exists():
        raise name_taken(name)


def is_shared_by_projects(profile: Profile, credential: Credential | None) -> bool:
    """Return whether projects could use the same files, so that warehouses of all projects must not overlap.

    True for local folders, and for the server's own identity. Elsewhere the credential decides who may use a bucket.
    """
    return profile.type == "local" or (credential is not None and credential.uses_system_identity)


def require_free_location(
    profile: Profile, credential: Credential | None, *, project_id: str, owner: UUID = NO_WAREHOUSE
) -> None:
    """Raise `WarehouseOverlap` (400) when the location overlaps that of another warehouse, active or not.

    `owner`, the warehouse of the location, is ignored. So are warehouses of other projects, unless one of the two
    `is_shared_by_projects`.
    """
    key = build_location_key(profile.as_json(), profile.location)
    meets_all = is_shared_by_projects(profile, credential)
    others = [ancestor_keys(key), *descendant_key_range(key), project_id, meets_all, SYSTEM_IDENTITY_TYPES, owner]
    if fetch_one("default", _OTHERS, others) is not None:
        message = f"Storage profile overlaps with that of another warehouse: {profile.location}"
        raise WarehouseOverlap(message, field="storage-profile")
