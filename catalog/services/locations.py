"""Claims on locations: in a warehouse no tabular lies in, around or on top of what another one has or had.

A tabular holds its location; where it lay before a commit moved it; and the folder of its metadata files, where that
is somewhere else. What a dropped one left behind is held by the task that deletes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from catalog.errors import LocationAlreadyTaken
from catalog.iceberg.metadata_files import metadata_folder
from catalog.models import LocationClaim, Tabular
from catalog.selectors.targets import Target
from storage.models import Warehouse
from storage.profiles.location import location_inside, parents


def lock_warehouse(warehouse_id: UUID) -> Warehouse | None:
    """The row that everybody locks who claims a location; None when the warehouse is gone. Held to the commit."""
    return Warehouse.objects.select_for_update(no_key=True).filter(pk=warehouse_id).first()


def chosen_location(target: Target, location: object, tabular_uuid: UUID) -> str:
    """Where a new table or view will lie, in the client's own spelling; one that it chose must be in the warehouse."""
    if location is None:
        return f"{target.warehouse_location}/{tabular_uuid}"
    location_inside(location, base=target.warehouse_location)
    return str(location).rstrip("/")


def folder_outside(metadata: dict[str, Any], *, base: str) -> str | None:
    """The folder of a tabular's metadata files, in compared form, when it is not in the tabular's own location.

    Raises `InvalidLocation` when either is not in the warehouse at `base`.
    """
    location = location_inside(metadata["location"], base=base)
    folder = location_inside(metadata_folder(metadata), base=base)
    return None if f"{folder}/".startswith(f"{location}/") else folder


def require_free_location(*, warehouse: Warehouse, location: str, owner: UUID) -> None:
    """Under the lock of `warehouse`: raises `LocationAlreadyTaken` unless only `owner` lies at, above or below."""
    around = [location, *parents(location, base=warehouse.location)]
    below = f"{location}/"
    tabulars = Tabular.objects.filter(warehouse_id=warehouse.pk).exclude(pk=owner).values_list("location")
    claims = LocationClaim.objects.filter(warehouse_id=warehouse.pk).values_list("location")
    others = claims.exclude(tabular_id=owner) | claims.filter(tabular_id__isnull=True)
    found = tabulars.filter(location__in=around).union(
        tabulars.filter(location__startswith=below),
        others.filter(location__in=around),
        others.filter(location__startswith=below),
        all=True,
    )
    # SQLite's LIKE, which looks for the prefix there, does not tell A from a.
    if any(taken in around or taken.startswith(below) for (taken,) in found):
        raise LocationAlreadyTaken(f"Location is already taken by another table or view: {location}")


def claim(*, warehouse: Warehouse, owner: UUID, locations: Sequence[str]) -> None:
    """Under the lock of `warehouse`: let the tabular `owner` hold folders beside its location."""
    for location in locations:
        LocationClaim.objects.get_or_create(warehouse_id=warehouse.pk, tabular_id=owner, location=location)
