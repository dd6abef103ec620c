"""Claims on locations: in a warehouse no table lies in, around or on top of another, now or where it lay before."""

from __future__ import annotations

from uuid import UUID

from catalog.errors import LocationAlreadyTaken
from catalog.models import FormerLocation, Tabular
from storage.models import Warehouse
from storage.profiles.location import parents


def lock_warehouse(warehouse_id: UUID) -> Warehouse | None:
    """The row that everybody locks who claims a location; None when the warehouse is gone. Held to the commit."""
    return Warehouse.objects.select_for_update(no_key=True).filter(pk=warehouse_id).first()


def require_free_location(*, warehouse: Warehouse, location: str, owner: UUID) -> None:
    """Under the lock of `warehouse`: raises `LocationAlreadyTaken` unless only `owner` lies at, above or below."""
    around = [location, *parents(location, base=warehouse.location)]
    below = f"{location}/"
    here = Tabular.objects.filter(warehouse_id=warehouse.pk).exclude(pk=owner).values_list("location")
    before = FormerLocation.objects.filter(warehouse_id=warehouse.pk).exclude(tabular_id=owner).values_list("location")
    found = here.filter(location__in=around).union(
        here.filter(location__startswith=below),
        before.filter(location__in=around),
        before.filter(location__startswith=below),
        all=True,
    )
    # SQLite's LIKE, which looks for the prefix there, does not tell A from a.
    if any(taken in around or taken.startswith(below) for (taken,) in found):
        raise LocationAlreadyTaken(f"Location is already taken by another table or view: {location}")
