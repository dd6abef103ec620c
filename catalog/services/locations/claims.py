"""Claims on locations: within a warehouse the locations of different owners never overlap.

A tabular claims its location, its former locations, and the folder of its metadata files if that is outside of its
location. The locations of a dropped tabular are claimed by the task that purges them. A client that stages a table
claims its location until it creates the table, or until the claim expires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from catalog.errors import location_taken
from catalog.iceberg.metadata_files import metadata_folder
from catalog.models import LocationClaim
from catalog.selectors.tables.targets import Target
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_uuid, fetch_all, fetch_one, lock_row
from storage.models import Warehouse
from storage.profiles.location import location_inside, new_location_inside, parents, tabular_location
from tenancy.actor import Actor

# Claims come first, so that PostgreSQL knows the types of the columns that tabulars do not have. The bounds of
# locations below are compared byte by byte, as the indexes `tabular_below` and `location_claim_at` are sorted.
_OWNERS = """
SELECT location, tabular_id, task_id, staged_by FROM catalog_locationclaim
 WHERE warehouse_id = %s AND location = ANY(%s) AND (expires_at IS NULL OR expires_at > %s)
UNION ALL
SELECT location, tabular_id, task_id, staged_by FROM catalog_locationclaim
 WHERE warehouse_id = %s AND location ~>=~ %s AND location ~<~ %s AND (expires_at IS NULL OR expires_at > %s)
UNION ALL
SELECT location, id, NULL, NULL FROM catalog_tabular
 WHERE warehouse_id = %s AND location = ANY(%s)
UNION ALL
SELECT location, id, NULL, NULL FROM catalog_tabular
 WHERE warehouse_id = %s AND location ~>=~ %s AND location ~<~ %s
"""

_AT_OR_ABOVE = """
SELECT 1 FROM catalog_locationclaim
 WHERE warehouse_id = %s AND location = ANY(%s) AND (expires_at IS NULL OR expires_at > %s)
UNION ALL
SELECT 1 FROM catalog_tabular WHERE warehouse_id = %s AND location = ANY(%s) LIMIT 1
"""

_NAMESPACES = """
SELECT location FROM catalog_namespace WHERE warehouse_id = %s AND location = ANY(%s)
UNION ALL
SELECT location FROM catalog_namespace WHERE warehouse_id = %s AND location ~>=~ %s AND location ~<~ %s
"""

NO_OWNER = UUID(int=0)
"""The owner to check for when the new tabular has no id yet."""

# The caller has at most one claim at exactly the location, so two rows are sufficient.
_OTHERS = f"""
SELECT staged_by IS NOT NULL AND staged_by = %s AND location = %s FROM ({_OWNERS}) AS owners
 WHERE tabular_id IS NULL OR tabular_id <> %s LIMIT 2
"""  # noqa: S608 - a constant


@dataclass(frozen=True, slots=True)
class ClaimOwner:
    """The owner of a claimed location: a tabular, a purge task, or the client that staged a table there."""

    location: str
    tabular_id: UUID | None
    task_id: UUID | None
    staged_by: str | None


def lock_warehouse(warehouse_id: UUID) -> Warehouse | None:
    """Lock the warehouse until the commit, as every claim of a location must; None when it does not exist."""
    return lock_row(Warehouse, "id = %s", [warehouse_id])


def folder_outside(metadata: dict[str, Any], *, base: str) -> str | None:
    """Return the folder of a tabular's metadata files, in compared form, if it is outside of the tabular's location.

    Raises `InvalidLocation` when either is not in the warehouse at `base`.
    """
    location = location_inside(metadata["location"], base=base)
    folder = location_inside(metadata_folder(metadata), base=base)
    return None if f"{folder}/".startswith(f"{location}/") else folder


def new_tabular_location(target: Target, location: object, tabular_uuid: UUID) -> str:
    """Return the location of a new tabular: the client's choice in its own spelling, or a folder of the namespace.

    The client's choice need not be in the namespace's folder. Raises `InvalidLocation` for a location outside of the
    warehouse, and for a name that the warehouse's layout cannot turn into a folder.
    """
    if location is None:
        base = target.warehouse_location
        folder = target.namespace_location or base
        name = target.identifier.name
        return tabular_location(target.storage.profile, base=base, folder=folder, name=name, tabular_id=tabular_uuid)
    new_location_inside(location, base=target.warehouse_location, storage_profile=target.storage.profile)
    return str(location).rstrip("/")


def require_valid_locations(target: Target, metadata: dict[str, Any], *, base: dict[str, Any] | None = None) -> None:
    """Validate the locations in `metadata`, except those that its former version, `base`, has, too.

    Raises `InvalidLocation` when one is outside of the warehouse, or in a spelling that is not allowed for new
    locations.
    """
    former = () if base is None else (base["location"], metadata_folder(base))
    for location in (metadata["location"], metadata_folder(metadata)):
        if location not in former:
            new_location_inside(location, base=target.warehouse_location, storage_profile=target.storage.profile)


def is_foreseeable(location: str, fresh_uuid: UUID) -> bool:
    """Whether a location could have been used before; not if its last part contains the new id."""
    return str(fresh_uuid) not in location.rpartition("/")[2]


def is_in_own_folder(target: Target, location: str) -> bool:
    """Whether a location overlaps no default location of other tables.

    It does if it is at or above the folder of any namespace, or in the folder of another namespace than the table's.
    """
    base = target.warehouse_location
    compared = location_inside(location, base=base)
    params = [*_at_or_above_params(target.warehouse_id, base, compared), *_below_params(target.warehouse_id, compared)]
    folders = {folder for (folder,) in fetch_all("default", _NAMESPACES, params)}
    own = target.namespace_location or base
    nearest = max((base, *(each for each in folders if compared.startswith(f"{each}/"))), key=len)
    return nearest == own and not any(f"{each}/".startswith(f"{compared}/") for each in folders)


def require_outside_tabulars(*, warehouse: Warehouse, location: str) -> None:
    """Under the lock of `warehouse`: raises `LocationAlreadyTaken` when `location` is at or below a claimed one."""
    at_or_above = _at_or_above_params(warehouse.pk, warehouse.location, location)
    if fetch_one("default", _AT_OR_ABOVE, [*at_or_above, now(), *at_or_above]) is not None:
        raise location_taken(location)


def require_unclaimed(*, warehouse: Warehouse, location: str, owner: UUID) -> None:
    """Under the lock of `warehouse`: raises `LocationAlreadyTaken` for claims of others at, above or below."""
    if _find_others(warehouse.pk, warehouse.location, location, owner, None):
        raise location_taken(location)


def take_location(*, actor: Actor, warehouse: Warehouse, location: str, owner: UUID) -> None:
    """As `require_unclaimed`, but deletes the claim of a table that `actor` staged at exactly the location."""
    others = _find_others(warehouse.pk, warehouse.location, location, owner, actor)
    if not all(others):
        raise location_taken(location)
    if others:
        LocationClaim.objects.filter(warehouse_id=warehouse.pk, location=location, staged_by=actor.name).delete()


def require_unreserved(target: Target, locations: Sequence[str], *, owner: UUID, actor: Actor | None = None) -> None:
    """Check `locations` before a file is written or read there, without a lock.

    `require_unclaimed` must follow, or `take_location` when there is an `actor`. Without this check a running purge
    could delete the file and finish, which leaves the location free.
    """
    for location in locations:
        if not all(_find_others(target.warehouse_id, target.warehouse_location, location, owner, actor)):
            raise location_taken(location)


def is_occupied(*, warehouse: Warehouse, location: str) -> bool:
    """Under the lock of `warehouse`: whether there are claims at, above or below, other than those of purges."""
    return any(claim_owner.task_id is None for claim_owner in _find_owners(warehouse.pk, warehouse.location, location))


def find_other_claims(*, actor: Actor, warehouse_id: UUID, base: str, location: str) -> list[ClaimOwner]:
    """Find the claims at, above or below a location, except that of a table which `actor` staged at exactly this one.

    The result is reliable only under the lock of the warehouse. `base` is the warehouse's location.
    """
    owners = _find_owners(warehouse_id, base, location)
    return [each for each in owners if (each.staged_by, each.location) != (actor.name, location)]


def claim(*, warehouse: Warehouse, owner: UUID, locations: Sequence[str]) -> None:
    """Under the lock of `warehouse`: claim further folders for the tabular `owner`."""
    for location in locations:
        LocationClaim.objects.get_or_create(warehouse_id=warehouse.pk, tabular_id=owner, location=location)


def _find_others(warehouse_id: UUID, base: str, location: str, owner: UUID, actor: Actor | None) -> list[bool]:
    """Return for up to two claims of others than `owner` whether it is that of a table that `actor` staged there."""
    params = [actor and actor.name, location, *_overlap_params(warehouse_id, base, location), owner]
    return [bool(is_own) for (is_own,) in fetch_all("default", _OTHERS, params)]


def _find_owners(warehouse_id: UUID, base: str, location: str) -> list[ClaimOwner]:
    rows = fetch_all("default", _OWNERS, _overlap_params(warehouse_id, base, location))
    return [
        ClaimOwner(where, tabular_id and as_uuid(tabular_id), task_id and as_uuid(task_id), staged_by)
        for where, tabular_id, task_id, staged_by in rows
    ]


def _overlap_params(warehouse_id: UUID, base: str, location: str) -> list[Any]:
    """The parameters of `_OWNERS`."""
    at_or_above = _at_or_above_params(warehouse_id, base, location)
    below, moment = _below_params(warehouse_id, location), now()
    return [*at_or_above, moment, *below, moment, *at_or_above, *below]


def _at_or_above_params(warehouse_id: UUID, base: str, location: str) -> list[Any]:
    return [warehouse_id, [location, *parents(location, base=base)]]


def _below_params(warehouse_id: UUID, location: str) -> list[Any]:
    """The parameters of the range below a location: "0" is the character after the slash."""
    return [warehouse_id, f"{location}/", f"{location}0"]
