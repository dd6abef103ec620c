from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from icekeeper.kernel.http.paging import Page, build_page
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import are_allowed, require_permission
from tenancy.models import Project, Securable
from tenancy.refs import ObjectRef

BATCH_SIZE: Final = 500
"""Of how many warehouses at least it is asked in one question, when the first page of them is not all seen."""


def get_warehouse_for(*, actor: Actor, warehouse_id: UUID) -> Warehouse:
    """The warehouse, active or not. Raises `NoSuchWarehouse`."""
    warehouse = Warehouse.objects.filter(pk=warehouse_id).first()
    missing = no_such_warehouse(warehouse_id)
    if warehouse is None:
        raise missing
    require_permission(actor, Can.GET_METADATA, Securable.Type.WAREHOUSE, warehouse_id, missing=missing)
    return warehouse


def get_warehouse_named_for(*, actor: Actor, project: Project, name: str) -> Warehouse:
    """The warehouse of a project by its name, active or not. Raises `NoSuchWarehouse`."""
    warehouse = Warehouse.objects.in_project(project).named(name).first()
    missing = no_such_warehouse(name[:200])
    if warehouse is None:
        raise missing
    require_permission(actor, Can.GET_METADATA, Securable.Type.WAREHOUSE, warehouse.pk, missing=missing)
    return warehouse


def list_warehouses_for(
    *, actor: Actor, project: Project, statuses: Sequence[str], page: Page
) -> tuple[list[Warehouse], str | None]:
    """Those of a project that `actor` may see, in order of creation, and the token of the next page (None: no more).

    A page is filled up for those that are left out: only the last one is short.
    """
    require_permission(actor, Can.LIST_WAREHOUSES, Securable.Type.PROJECT, project.pk)
    warehouses = Warehouse.objects.in_project(project).order_by("id")
    if set(statuses) != set(Warehouse.Status.values):
        warehouses = warehouses.filter(status__in=statuses)
    after, seen = page.after_id(), list[tuple[object, Warehouse]]()
    wanted = page.sql_limit
    at_once = wanted
    while True:
        found = list(warehouses.filter(pk__gt=after)[:at_once])
        shown = are_allowed(
            actor, Can.INCLUDE_IN_LIST, [ObjectRef(Securable.Type.WAREHOUSE, each.pk) for each in found]
        )
        seen += [(each.pk, each) for each, is_shown in zip(found, shown, strict=True) if is_shown]
        if len(found) < at_once or len(seen) >= wanted:
            return build_page(seen, page)
        after = found[-1].pk
        at_once = max(BATCH_SIZE, page.sql_limit)
