"""Locations of a warehouse that are reserved by clients that staged a table; listings of tables do not show them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from catalog.selectors.warehouses import require_on_warehouse
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_datetime, fetch_all
from tenancy.actor import Actor
from tenancy.authz.actions import Can

BATCH_SIZE: Final = 1_000
"""Rows in memory."""

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
