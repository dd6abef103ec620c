"""The warehouses among which a page lets the user choose, across all projects that they see."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from icekeeper.kernel.errors.types import Forbidden
from icekeeper.kernel.http.paging import Page as ListingPage
from icekeeper.kernel.ids import parse_id
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from storage.selectors import get_warehouse_for, list_warehouses_for
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.models import Project
from tenancy.selectors.projects import list_projects_for

MAX_CHOICES: Final = 1_000
"""Of a project."""
MAX_ID_LENGTH: Final = 100


def list_warehouses_of_project(actor: Actor, project: Project) -> tuple[list[Warehouse], bool]:
    """Return the first visible warehouses of a project, and whether there are more; none if the actor may list none."""
    page = ListingPage("console warehouses", None, MAX_CHOICES)
    try:
        found, token = list_warehouses_for(actor=actor, project=project, statuses=Warehouse.Status.values, page=page)
    except Forbidden:
        return [], False
    return found, token is not None


def list_warehouses_of_all_projects(actor: Actor) -> list[Warehouse]:
    """One listing for each project that the actor sees."""
    return [
        warehouse
        for project in list_projects_for(actor=actor)
        for warehouse in list_warehouses_of_project(actor, project)[0]
    ]


def choose_warehouse(actor: Actor, warehouses: Collection[Warehouse], wanted: str | None) -> Warehouse | None:
    """Return the warehouse whose id is `wanted`, which need not be among the choices; without, the first choice.

    Raises `NoSuchWarehouse` (404).
    """
    if not wanted:
        return next(iter(warehouses), None)
    warehouse_id = parse_id(wanted)
    if warehouse_id is None:
        raise no_such_warehouse(wanted[:MAX_ID_LENGTH])
    chosen = next((each for each in warehouses if each.pk == warehouse_id), None)
    return chosen or get_warehouse_for(actor=actor, action=Can.INCLUDE_IN_LIST, warehouse_id=warehouse_id)
