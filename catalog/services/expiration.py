"""The end of a soft-deleted table, view or generic table."""

from __future__ import annotations

from catalog.models import Tabular
from catalog.services.locations import lock_warehouse
from catalog.services.retirement import PURGE, audit_drop, retire
from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.db.write_transaction import write_transaction
from tasks.queue.leases import Lease
from tenancy.actor import Actor


def expire_tabular(*, actor: Actor, lease: Lease) -> None:
    """Delete the row of a soft-deleted tabular for good, and queue the purge of its files if its drop asked for it.

    One that is not soft-deleted any more is left as it is. The task ends in the same transaction. Raises `LeaseLost`
    when somebody else has it: then nothing is changed.
    """
    with write_transaction():
        warehouse = lock_warehouse(lease.warehouse_id)
        expired = [lease.entity_id, lease.warehouse_id]
        where = "id = %s AND warehouse_id = %s AND deleted_at IS NOT NULL"
        row = lock_row(Tabular, where, expired, mode="UPDATE")
        if row is not None and warehouse is not None:
            ended = retire([row], purge=lease.payload.get("deletion_kind") == PURGE)
            audit_drop(ended, row, actor=actor, project=warehouse.project_id, named=row.name)
        lease.finish()
