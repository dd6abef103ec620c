"""What happens to a warehouse and looks at what it holds."""

from __future__ import annotations

from uuid import UUID

from django.db import IntegrityError
from django.db.models import RestrictedError

from catalog.errors import WarehouseHasUnfinishedTasks, WarehouseNotEmpty, WarehouseProtected, no_such_warehouse
from catalog.models import Namespace
from icekeeper.kernel.write_transaction import write_transaction
from storage.models import Warehouse
from tasks.queue.leases import has_tasks
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.port import require
from tenancy.authz.securables import remove_securable
from tenancy.models import Securable


def delete_warehouse(*, actor: Actor, warehouse_id: UUID, force: bool = False) -> None:
    """Forget an empty warehouse; its files stay.

    Raises `WarehouseNotEmpty`, `WarehouseHasUnfinishedTasks` (409), `WarehouseProtected` (409) unless `force`.
    """
    try:
        with write_transaction():
            warehouse = Warehouse.objects.select_for_update().filter(pk=warehouse_id).first()
            if warehouse is None:
                raise no_such_warehouse(warehouse_id)
            require(actor, Can.DELETE, Securable.Type.WAREHOUSE, warehouse_id)
            if warehouse.protected and not force:
                raise WarehouseProtected(f"Warehouse is protected: {warehouse.name}")
            if Namespace.objects.filter(warehouse_id=warehouse_id).exists():
                raise WarehouseNotEmpty(f"Warehouse is not empty: {warehouse.name}")
            if has_tasks(warehouse_id):
                raise WarehouseHasUnfinishedTasks(
                    f"Files of dropped tables are still to be deleted in {warehouse.name}"
                )
            warehouse.delete()
            remove_securable(Securable.Type.WAREHOUSE, warehouse_id)
    except (RestrictedError, IntegrityError):
        raise WarehouseNotEmpty("Warehouse is not empty") from None
