"""Names and places that no other warehouse may have."""

from __future__ import annotations

from uuid import UUID

from icekeeper.kernel.errors import BadRequest, Conflict
from icekeeper.kernel.names import name_key
from storage.models import Warehouse
from storage.profiles.overlap import common_start, overlap
from storage.profiles.profile import Profile
from tenancy.models import Server


class WarehouseExists(Conflict):
    wire_type = "WarehouseAlreadyExists"


class WarehouseOverlap(BadRequest):
    wire_type = "CreateWarehouseStorageProfileOverlap"


def lock_places() -> None:
    """To be called first in a transaction that takes a place: one at a time, by the row of the server."""
    Server.objects.select_for_update().get()


def name_taken(name: str) -> WarehouseExists:
    return WarehouseExists(f"A warehouse named {name!r} already exists in this project")


def require_free_name(project_id: str, name: str) -> None:
    """Raises `WarehouseExists` (409)."""
    if Warehouse.objects.filter(project_id=project_id, name_key=name_key(name)).exists():
        raise name_taken(name)


def require_free_place(project_id: str, profile: Profile, *, but_for: UUID | None = None) -> None:
    """Raises `WarehouseOverlap` (400) when files of another warehouse, active or not, are in, around or at its place.

    Folders of this machine are looked at in all projects, buckets in the project alone: who may use a bucket is not
    this server's to say, and nobody can keep others from it by naming it.
    """
    stored, location = profile.as_json(), profile.location
    others = Warehouse.objects.filter(location__startswith=common_start(stored, location))
    if but_for is not None:
        others = others.exclude(pk=but_for)
    if profile.type != "local":
        others = others.filter(project_id=project_id)
    for place in others.values_list("storage_profile", "location"):
        if overlap((stored, location), place):
            raise WarehouseOverlap(f"Storage profile overlaps with that of another warehouse: {location}")
