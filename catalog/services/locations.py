"""Claims on locations: in a warehouse no table lies in, around or on top of another."""

from __future__ import annotations

from uuid import UUID

from catalog.errors import LocationAlreadyTaken
from catalog.models import Tabular
from storage.models import Warehouse
from storage.profiles.location import parents


def lock_warehouse(warehouse_id: UUID) -> Warehouse | None:
    """The row that everybody locks who claims a location; None when the warehouse is gone. Held to the commit."""
    return Warehouse.objects.select_for_update(no_key=True).filter(pk=warehouse_id).first()


def require_free_location(*, warehouse: Warehouse, location: str, owner: UUID) -> None:
    """Under the lock of `warehouse`: raises `LocationAlreadyTaken` unless only `owner` lies at, above or below."""
    others = Tabular.objects.filter(warehouse_id=warehouse.pk).exclude(pk=owner)
    around = [location, *parents(location, base=warehouse.location)]
    taken = others.filter(location__in=around).union(others.filter(location__startswith=f"{location}/"), all=True)
    if taken.values_list("pk").first() is not None:
        raise LocationAlreadyTaken(f"Location is already taken by another table or view: {location}")
