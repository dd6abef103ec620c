"""Claims on locations: in a warehouse no tabular lies in, around or on top of what another one has or had.

A tabular holds its location; where it lay before a commit moved it; and the folder of its metadata files, where that
is somewhere else. What a dropped one left behind is held by the task that deletes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import F, QuerySet, UUIDField, Value
from django.db.models.functions import Cast

from catalog.errors import location_taken
from catalog.iceberg.metadata_files import metadata_folder
from catalog.models import LocationClaim, Tabular
from catalog.selectors.targets import Target
from storage.models import Warehouse
from storage.profiles.location import location_inside, parents


def lock_warehouse(warehouse_id: UUID) -> Warehouse | None:
    """The row that everybody locks who claims a location; None when the warehouse is gone. Held to the commit."""
    return Warehouse.objects.select_for_update(no_key=True).filter(pk=warehouse_id).first()


def folder_outside(metadata: dict[str, Any], *, base: str) -> str | None:
    """The folder of a tabular's metadata files, in compared form, when it is not in the tabular's own location.

    Raises `InvalidLocation` when either is not in the warehouse at `base`.
    """
    location = location_inside(metadata["location"], base=base)
    folder = location_inside(metadata_folder(metadata), base=base)
    return None if f"{folder}/".startswith(f"{location}/") else folder


def spelled_location(target: Target, location: object, tabular_uuid: UUID) -> str:
    """Where a new tabular will lie: in its namespace's folder, or where the client chose, in the client's own spelling.

    Raises `InvalidLocation` for a choice outside of the warehouse; it need not be in the namespace's folder.
    """
    if location is None:
        return f"{target.namespace_location or target.warehouse_location}/{tabular_uuid}"
    location_inside(location, base=target.warehouse_location)
    return str(location).rstrip("/")


def require_outside_tabulars(*, warehouse: Warehouse, location: str) -> None:
    """Under the lock of `warehouse`: raises `LocationAlreadyTaken` when a tabular could not be put into `location`."""
    around = [location, *parents(location, base=warehouse.location)]
    tabulars = Tabular.objects.filter(warehouse_id=warehouse.pk, location__in=around).values_list("location")
    claims = LocationClaim.objects.filter(warehouse_id=warehouse.pk, location__in=around).values_list("location")
    if tabulars.union(claims).exists():
        raise location_taken(location)


def require_free_location(*, warehouse: Warehouse, location: str, owner: UUID) -> None:
    """Under the lock of `warehouse`: raises `LocationAlreadyTaken` unless only `owner` lies at, above or below."""
    tabulars = Tabular.objects.filter(warehouse_id=warehouse.pk).exclude(pk=owner)
    claims = LocationClaim.objects.filter(warehouse_id=warehouse.pk)
    others = claims.exclude(tabular_id=owner) | claims.filter(tabular_id__isnull=True)
    if _overlaps(location, warehouse.location, tabulars, others):
        raise location_taken(location)


def tabular_lies_at(*, warehouse: Warehouse, location: str) -> bool:
    """Under the lock of `warehouse`: whether a tabular, soft-deleted ones included, lies or lay at, above or below."""
    tabulars = Tabular.objects.filter(warehouse_id=warehouse.pk)
    claims = LocationClaim.objects.filter(warehouse_id=warehouse.pk, tabular_id__isnull=False)
    return bool(_overlaps(location, warehouse.location, tabulars, claims))


def holders_of(*, warehouse_id: UUID, base: str, location: str) -> list[tuple[str, UUID | None]]:
    """Who is at, above or below a location of the warehouse at `base`: where, and the purge task if it is one.

    Without a lock it is a first look only.
    """
    nobody = Cast(Value(None), UUIDField())
    tabulars = Tabular.objects.filter(warehouse_id=warehouse_id).annotate(by_task=nobody)
    claims = LocationClaim.objects.filter(warehouse_id=warehouse_id).annotate(by_task=F("task_id"))
    return _overlaps(location, base, tabulars, claims, "by_task")


def _overlaps(location: str, base: str, tabulars: QuerySet[Any], claims: QuerySet[Any], *more: str) -> list[Any]:
    """The rows at, above or below `location`: their own location first, then the columns `more`."""
    around = [location, *parents(location, base=base)]
    below = f"{location}/"
    chosen = [rows.values_list("location", *more) for rows in (tabulars, claims)]
    found = (
        chosen[0]
        .filter(location__in=around)
        .union(
            chosen[0].filter(location__startswith=below),
            chosen[1].filter(location__in=around),
            chosen[1].filter(location__startswith=below),
            all=True,
        )
    )
    # SQLite's LIKE, which looks for the prefix there, does not tell A from a.
    return [row for row in found if row[0] in around or row[0].startswith(below)]


def claim(*, warehouse: Warehouse, owner: UUID, locations: Sequence[str]) -> None:
    """Under the lock of `warehouse`: let the tabular `owner` hold folders beside its location."""
    for location in locations:
        LocationClaim.objects.get_or_create(warehouse_id=warehouse.pk, tabular_id=owner, location=location)
