"""Deletion of warehouses."""

from __future__ import annotations

from uuid import UUID

from django.db import IntegrityError
from django.db.models import RestrictedError

from catalog.errors import WarehouseHasUnfinishedTasks, WarehouseNotEmpty, WarehouseProtected
from catalog.models import LocationClaim, Namespace
from storage.secrets.stores import delete_secret
from storage.services.warehouse_changes import changing_warehouse
from tasks.queue.config import delete_queue_configs
from tasks.queue.leases import has_tasks
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.securables import remove_securable
from tenancy.changes.kinds import Change
from tenancy.models import Securable


def delete_warehouse(
    *, actor: Actor, warehouse_id: UUID, force: bool = False, expected_version: int | None = None
) -> None:
    """Delete an empty warehouse with its credential; its files stay. Staged tables do not count as content.

    Raises `NoSuchWarehouse`, `WarehouseManaged` (403), `WarehouseNotEmpty`, `WarehouseHasUnfinishedTasks` (409),
    `WarehouseProtected` (409) unless `force`, `WarehouseChanged` (409) if it does not have the `expected_version`.
    """
    try:
        changing = changing_warehouse(
            actor=actor,
            action=Can.DELETE,
            warehouse_id=warehouse_id,
            expected_version=expected_version,
            deletes=True,
        )
        with changing as (warehouse, tx):
            if warehouse.protected and not force:
                raise WarehouseProtected(f"Warehouse is protected: {warehouse.name}")
            if Namespace.objects.in_warehouse(warehouse_id).exists():
                raise WarehouseNotEmpty(f"Warehouse is not empty: {warehouse.name}")
            # A purge that has failed is no task to wait for, but its files are still there.
            if has_tasks(warehouse_id) or LocationClaim.objects.of_purges(warehouse_id).exists():
                raise WarehouseHasUnfinishedTasks(
                    f"Files of dropped tables are still to be deleted in {warehouse.name}"
                )
            LocationClaim.objects.filter(warehouse_id=warehouse_id, staged_by__isnull=False).delete()
            if warehouse.secret_id is not None:
                delete_secret(warehouse.secret_id)
            delete_queue_configs(warehouse_id)
            warehouse.delete()
            ended = remove_securable(Securable.Type.WAREHOUSE, warehouse_id)
            tx.record(
                Change.WAREHOUSE_DELETED, subject=warehouse_id, project=warehouse.project_id,
                named=warehouse.name, **ended.as_details(),
            )  # fmt: skip
    except (RestrictedError, IntegrityError):
        raise WarehouseNotEmpty("Warehouse is not empty") from None
