"""Checks that names and locations of warehouses are free."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from icekeeper.kernel.db.sql import fetch_one
from icekeeper.kernel.errors.types import BadRequest, Conflict
from icekeeper.kernel.names import name_key
from storage.credentials.credential import Credential
from storage.credentials.kinds import SYSTEM_IDENTITY_TYPES
from storage.models import Warehouse
from storage.profiles.location_keys import ancestor_keys, build_location_key, descendant_key_range
from storage.profiles.profile import Profile
from tenancy.models import Server

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
    """Lock the row of the server: to be called first in a transaction that takes a location."""
    Server.objects.select_for_update().get()


def name_taken(name: str) -> WarehouseExists:
    return WarehouseExists(f"A warehouse named {name!r} already exists in this project")


def require_free_name(project_id: str, name: str) -> None:
    """Raises `WarehouseExists` (409)."""
    if Warehouse.objects.filter(project_id=project_id, name_key=name_key(name)).exists():
        raise name_taken(name)


def conflicts_across_projects(profile: Profile, credential: Credential | None) -> bool:
    """Return whether a warehouse must not share files with one of any project.

    True for folders of this machine, and for storage that is used with the server's own identity: there nothing else
    separates the projects. Elsewhere the credential decides who may use a bucket.
    """
    return profile.type == "local" or (credential is not None and credential.uses_system_identity)


def require_free_location(
    profile: Profile, credential: Credential | None, *, project_id: str, owner: UUID = NO_WAREHOUSE
) -> None:
    """Raises `WarehouseOverlap` (400) when files of another warehouse, active or not, are in, around or at `profile`'s.

    But for `owner`, the warehouse that the location is for, and those of other projects where neither of the two
    `conflicts_across_projects`.
    """
    key = build_location_key(profile.as_json(), profile.location)
    meets_all = conflicts_across_projects(profile, credential)
    others = [ancestor_keys(key), *descendant_key_range(key), project_id, meets_all, SYSTEM_IDENTITY_TYPES, owner]
    if fetch_one("default", _OTHERS, others) is not None:
        raise WarehouseOverlap(f"Storage profile overlaps with that of another warehouse: {profile.location}")
