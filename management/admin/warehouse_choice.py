"""The warehouses among which a page lets the user choose, across all projects that they see."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from icekeeper.kernel.errors.types import Forbidden, NotFound
from icekeeper.kernel.http.paging import Page as ListingPage
from icekeeper.kernel.ids import parse_id
from storage.models import Warehouse
from storage.selectors import list_warehouses_for
from tenancy.actor import Actor
from tenancy.models import Project
from tenancy.selectors.projects import list_projects_for

MAX_CHOICES: Final = 1_000
"""Of a project."""


def list_warehouses_of_project(actor: Actor, project: Project) -> tuple[list[Warehouse], bool]:
    """Return the first visible warehouses of a project, and whether there are more; none if the actor may list none."""
    page = ListingPage("console warehouses", None, MAX_CHOICES)
    try:
        found, token = list_warehouses_for(actor=actor, project=project, statuses=Warehouse.Status.values, page=page)
    except Forbidden:
        return [], False
    return found, token is not None


def list_warehouses_of_all_projects(actor: Actor) -> list[Warehouse]:
    return [
        warehouse
        for project in list_projects_for(actor=actor)
        for warehouse in list_warehouses_of_project(actor, project)[0]
    ]


def choose_warehouse(warehouses: Collection[Warehouse], wanted: str | None) -> Warehouse | None:
    """Return the warehouse whose id is `wanted`, the first one without. Raises `NotFound` for one not among them."""
    if not wanted:
        return next(iter(warehouses), None)
    warehouse_id = parse_id(wanted)
    for each in warehouses:
        if each.pk == warehouse_id:
            return each
    raise NotFound("No such warehouse")
