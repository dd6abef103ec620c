"""Staged tables: their location is reserved for the client, and a ticket authorizes signing of its requests.

Listings of tables do not show reserved locations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Self
from uuid import UUID

from django.core import signing

from catalog.identifiers import Levels
from catalog.models import LocationClaim
from catalog.selectors.tables.targets import Target
from catalog.selectors.warehouses import require_on_warehouse
from catalog.services.locations.claims import is_foreseeable, is_in_own_folder, lock_warehouse
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import delete_in_batches
from icekeeper.kernel.db.sql import as_datetime, fetch_all
from icekeeper.kernel.errors.types import BadRequest, InvalidLocation
from icekeeper.kernel.names import path_key
from storage.errors import no_such_warehouse
from storage.profiles.location import location_inside
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import Securable

BATCH_SIZE: Final = 1_000
"""Rows of one batch of `list_staged_locations_for`."""

# In the order of bytes, as the index `location_claim_at` is sorted.
_RESERVED = """
SELECT id, location, staged_by, expires_at FROM catalog_locationclaim
 WHERE warehouse_id = %s AND staged_by IS NOT NULL AND expires_at > %s
   AND location ~>=~ %s AND (location ~>~ %s OR id > %s)
 ORDER BY location USING ~<~, id LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class StagedLocation:
    """A reservation that has not expired: `location` in compared form, `staged_by` as `Actor.name`."""

    location: str
    staged_by: str
    expires_at: datetime


def list_staged_locations_for(*, actor: Actor, warehouse_id: UUID) -> Iterator[StagedLocation]:
    """Iterate the reservations of a warehouse, active or not, by location, in batches.

    Raises `NoSuchWarehouse`, `Forbidden`.
    """
    require_on_warehouse(actor, warehouse_id, Can.UPDATE_STORAGE)
    return _read_reservations(warehouse_id)


def _read_reservations(warehouse_id: UUID) -> Iterator[StagedLocation]:
    moment, location, last_id = now(), "", 0
    while True:
        rows = fetch_all("default", _RESERVED, [warehouse_id, moment, location, location, last_id, BATCH_SIZE])
        for _, reserved, staged_by, expires_at in rows:
            yield StagedLocation(reserved, staged_by, as_datetime(expires_at))
        if len(rows) < BATCH_SIZE:
            return
        last_id, location, *_ = rows[-1]


def require_own_folder(target: Target, metadata: dict[str, Any]) -> None:
    """Raises `InvalidLocation` when a staged table would block default locations of other tables.

    It would if its location is at or above the folder of any namespace, or in the folder of another namespace. Staged
    tables are hidden, so their reservations would be a surprise to other clients.
    """
    location = metadata["location"]
    if is_foreseeable(location, UUID(metadata["table-uuid"])) and not is_in_own_folder(target, location):
        own = target.namespace_location or target.warehouse_location
        raise InvalidLocation(
            f"Location {location!r} cannot be staged: it must be in the folder of the table's own namespace "
            f"({own}), and not at, above or in the folder of another one"
        )


_RELEASE = """
DELETE FROM catalog_locationclaim
 WHERE warehouse_id = %s AND location = %s AND staged_by IS NOT NULL AND expires_at > %s
RETURNING staged_by, expires_at
"""


def release_staged_location(*, actor: Actor, warehouse_id: UUID, location: str) -> list[StagedLocation]:
    """Delete all reservations of exactly `location`, in any spelling, and return them.

    Credentials that were vended for the location stay valid until they expire: until then, the client that staged a
    table there can still write to it. Raises `NoSuchWarehouse`, `Forbidden`, and `InvalidLocation` for a location
    outside of the warehouse.
    """
    require_on_warehouse(actor, warehouse_id, Can.UPDATE_STORAGE)
    with change(actor) as tx:
        warehouse = lock_warehouse(warehouse_id)
        if warehouse is None:
            raise no_such_warehouse(warehouse_id)
        compared = location_inside(location, base=warehouse.location)
        rows = fetch_all("default", _RELEASE, [warehouse_id, compared, now()])
        released = [StagedLocation(compared, staged_by, as_datetime(until)) for staged_by, until in sorted(rows)]
        for staged in released:
            tx.record(
                Change.STAGED_LOCATION_RELEASED, subject=warehouse_id, project=warehouse.project_id,
                object_type=Securable.Type.WAREHOUSE.value, location=compared, staged_by=staged.staged_by,
                until=staged.expires_at,
            )  # fmt: skip
    return released


def delete_old_claims(*, actor: Actor) -> int:
    """Delete expired reservations of staged tables that were never created; return their number."""
    return delete_in_batches(LocationClaim.objects.filter(expires_at__lte=now()))


TICKET_LIFETIME: Final = timedelta(days=1)
"""How long a query may write to a staged table before it commits."""

_SALT: Final = "icekeeper.staged-table"


class InvalidStagingTicket(BadRequest):
    """The ticket expired, or was not issued by this server."""

    wire_type = "InvalidStagingTicket"


@dataclass(frozen=True, slots=True)
class StagingTicket:
    """A signed reference to a staged table. `location` is spelled as in the response, without a final slash."""

    actor_name: str
    warehouse_id: UUID
    namespace_key: str
    location: str

    @classmethod
    def of(cls, *, actor: Actor, warehouse_id: UUID, levels: Levels, location: str) -> Self:
        return cls(actor.name, warehouse_id, path_key(levels), location)

    @classmethod
    def decode(cls, text: str) -> Self:
        """Raises `InvalidStagingTicket`."""
        try:
            name, warehouse, namespace, location = signing.loads(text, salt=_SALT, max_age=TICKET_LIFETIME)
        except signing.BadSignature:
            raise InvalidStagingTicket(
                "The address of the signer for a staged table is invalid or has expired"
            ) from None
        return cls(name, UUID(warehouse), namespace, location)

    def encode(self) -> str:
        """Return the signed text of the ticket: letters, digits, `-`, `_` and `:`."""
        members = [self.actor_name, str(self.warehouse_id), self.namespace_key, self.location]
        return signing.dumps(members, salt=_SALT)

    def is_for(self, actor: Actor, warehouse_id: UUID) -> bool:
        return (self.actor_name, self.warehouse_id) == (actor.name, warehouse_id)
