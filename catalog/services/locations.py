"""Claims on locations: in a warehouse no tabular lies in, around or on top of what another one has or had.

A tabular holds its location; where it lay before a commit moved it; and the folder of its metadata files, where that
is somewhere else. What a dropped one left behind is held by the task that deletes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from catalog.errors import location_taken
from catalog.iceberg.metadata_files import metadata_folder
from catalog.models import LocationClaim
from catalog.selectors.targets import Target
from icekeeper.kernel.sql import as_uuid, fetch_all, fetch_one, lock_row
from storage.models import Warehouse
from storage.profiles.default_locations import tabular_location
from storage.profiles.location import location_inside, new_location_inside, parents

# Claims come first, so that PostgreSQL knows the types of the columns that tabulars do not have. The bounds of what
# lies below are compared byte by byte, as the indexes `tabular_below` and `location_claim_at` are sorted.
_HOLDERS = """
SELECT location, tabular_id, task_id FROM catalog_locationclaim
 WHERE warehouse_id = %s AND location = ANY(%s)
UNION ALL
SELECT location, tabular_id, task_id FROM catalog_locationclaim
 WHERE warehouse_id = %s AND location ~>=~ %s AND location ~<~ %s
UNION ALL
SELECT location, id, NULL FROM catalog_tabular
 WHERE warehouse_id = %s AND location = ANY(%s)
UNION ALL
SELECT location, id, NULL FROM catalog_tabular
 WHERE warehouse_id = %s AND location ~>=~ %s AND location ~<~ %s
"""

_AT_OR_ABOVE = """
SELECT 1 FROM catalog_locationclaim WHERE warehouse_id = %s AND location = ANY(%s)
UNION ALL
SELECT 1 FROM catalog_tabular WHERE warehouse_id = %s AND location = ANY(%s) LIMIT 1
"""

_NAMESPACES = """
SELECT location FROM catalog_namespace WHERE warehouse_id = %s AND location = ANY(%s)
UNION ALL
SELECT location FROM catalog_namespace WHERE warehouse_id = %s AND location ~>=~ %s AND location ~<~ %s
"""

NOBODY = UUID(int=0)
"""The owner of locations that a tabular without an id asks for."""

_OTHERS = f"""
SELECT 1 FROM ({_HOLDERS}) AS holders
 WHERE tabular_id IS NULL OR tabular_id <> %s LIMIT 1
"""  # noqa: S608 - a constant


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a location: a tabular, or else a purge task."""

    location: str
    tabular_id: UUID | None
    task_id: UUID | None


def lock_warehouse(warehouse_id: UUID) -> Warehouse | None:
    """The row that everybody locks who claims a location; None when the warehouse is gone. Held to the commit."""
    return lock_row(Warehouse, "id = %s", [warehouse_id])


def folder_outside(metadata: dict[str, Any], *, base: str) -> str | None:
    """The folder of a tabular's metadata files, in compared form, when it is not in the tabular's own location.

    Raises `InvalidLocation` when either is not in the warehouse at `base`.
    """
    location = location_inside(metadata["location"], base=base)
    folder = location_inside(metadata_folder(metadata), base=base)
    return None if f"{folder}/".startswith(f"{location}/") else folder


def spelled_location(target: Target, location: object, tabular_uuid: UUID) -> str:
    """Where a new tabular will lie: in its namespace's folder, or where the client chose, in the client's own spelling.

    Raises `InvalidLocation` for a choice outside of the warehouse, which need not be in the namespace's folder; and for
    a name of which the warehouse's layout makes no folder.
    """
    if location is None:
        base = target.warehouse_location
        folder = target.namespace_location or base
        name = target.identifier.name
        return tabular_location(target.storage.profile, base=base, folder=folder, name=name, tabular_id=tabular_uuid)
    new_location_inside(location, base=target.warehouse_location, storage_profile=target.storage.profile)
    return str(location).rstrip("/")


def require_new_places(target: Target, metadata: dict[str, Any], *, base: dict[str, Any] | None = None) -> None:
    """See that the warehouse takes what `metadata` says of places, apart from what its former version, `base`, said.

    Raises `InvalidLocation` when they are not in the warehouse, or spelled as it takes nothing new.
    """
    said = () if base is None else (base["location"], metadata_folder(base))
    for location in (metadata["location"], metadata_folder(metadata)):
        if location not in said:
            new_location_inside(location, base=target.warehouse_location, storage_profile=target.storage.profile)


def is_foreseeable(location: str, fresh_uuid: UUID) -> bool:
    """Whether somebody may have been at a location before, which is not so when an id that is new names it."""
    return str(fresh_uuid) not in location.rpartition("/")[2]


def is_in_own_folder(target: Target, location: str) -> bool:
    """Whether nothing that others make by default could come to be in a new table's location.

    It could at or above the folder of any namespace, and in the folder of another namespace than the table's.
    """
    base = target.warehouse_location
    compared = location_inside(location, base=base)
    rows = fetch_all("default", _NAMESPACES, _at_above_below(target.warehouse_id, base, compared))
    folders = {folder for (folder,) in rows}
    own = target.namespace_location or base
    nearest = max((base, *(each for each in folders if compared.startswith(f"{each}/"))), key=len)
    return nearest == own and not any(f"{each}/".startswith(f"{compared}/") for each in folders)


def require_outside_tabulars(*, warehouse: Warehouse, location: str) -> None:
    """Under the lock of `warehouse`: raises `LocationAlreadyTaken` when a tabular could not be put into `location`."""
    around = [warehouse.pk, [location, *parents(location, base=warehouse.location)]]
    if fetch_one("default", _AT_OR_ABOVE, around * 2) is not None:
        raise location_taken(location)


def require_free_location(*, warehouse: Warehouse, location: str, owner: UUID) -> None:
    """Under the lock of `warehouse`: raises `LocationAlreadyTaken` unless only `owner` lies at, above or below."""
    if _others_hold(_around(warehouse.pk, warehouse.location, location), owner):
        raise location_taken(location)


def require_unheld(target: Target, locations: Sequence[str], *, owner: UUID) -> None:
    """The look before a file is put to or read at one of `locations`: as `require_free_location`, which must follow.

    Without it a purge that is under way there would delete the file, end, and leave the location free.
    """
    for location in locations:
        if _others_hold(_around(target.warehouse_id, target.warehouse_location, location), owner):
            raise location_taken(location)


def tabular_lies_at(*, warehouse: Warehouse, location: str) -> bool:
    """Under the lock of `warehouse`: whether a tabular, soft-deleted ones included, lies or lay at, above or below."""
    held = holders_of(warehouse_id=warehouse.pk, base=warehouse.location, location=location)
    return any(holder.tabular_id is not None for holder in held)


def holders_of(*, warehouse_id: UUID, base: str, location: str) -> list[Holder]:
    """Who is at, above or below a location of the warehouse at `base`. Without a lock it is a first look only."""
    rows = fetch_all("default", _HOLDERS, _around(warehouse_id, base, location))
    return [
        Holder(where, tabular_id and as_uuid(tabular_id), task_id and as_uuid(task_id))
        for where, tabular_id, task_id in rows
    ]


def _others_hold(around: list[Any], owner: UUID) -> bool:
    return fetch_one("default", _OTHERS, [*around, owner]) is not None


def _around(warehouse_id: UUID, base: str, location: str) -> list[Any]:
    """The parameters of `_HOLDERS`."""
    return _at_above_below(warehouse_id, base, location) * 2


def _at_above_below(warehouse_id: UUID, base: str, location: str) -> list[Any]:
    """What lies below begins with a slash, and "0" is the character after that."""
    at_or_above = [warehouse_id, [location, *parents(location, base=base)]]
    return [*at_or_above, warehouse_id, f"{location}/", f"{location}0"]


def claim(*, warehouse: Warehouse, owner: UUID, locations: Sequence[str]) -> None:
    """Under the lock of `warehouse`: let the tabular `owner` hold folders beside its location."""
    for location in locations:
        LocationClaim.objects.get_or_create(warehouse_id=warehouse.pk, tabular_id=owner, location=location)
