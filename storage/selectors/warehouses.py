from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from icekeeper.kernel.errors import NoSuchWarehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.port import require
from tenancy.models import Project, Securable


def get_warehouse_for(*, actor: Actor, warehouse_id: UUID) -> Warehouse:
    """The warehouse, active or not. Raises `NoSuchWarehouse`."""
    warehouse = Warehouse.objects.filter(pk=warehouse_id).first()
    if warehouse is None:
        raise NoSuchWarehouse(f"Warehouse does not exist: {warehouse_id}")
    require(actor, Can.GET_METADATA, Securable.Type.WAREHOUSE, warehouse_id)
    return warehouse


def list_warehouses_for(*, actor: Actor, project: Project, statuses: Sequence[str]) -> list[Warehouse]:
    """The warehouses of a project in order of creation."""
    require(actor, Can.LIST_WAREHOUSES, Securable.Type.PROJECT, project.pk)
    return list(Warehouse.objects.filter(project=project, status__in=statuses).order_by("id"))
