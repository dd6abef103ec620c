"""The warehouses among which a page lets the user choose, across all projects that they see."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.http import QueryDict

from icekeeper.kernel.ids import parse_id
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from storage.selectors import get_warehouse_for, list_warehouses_of_projects_for
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.models import Project
from tenancy.selectors.projects import list_projects_for

MAX_CHOICES: Final = 1_000
MAX_ID_LENGTH: Final = 100


@dataclass(frozen=True, slots=True)
class WarehousesByProject:
    """Projects with their warehouses, in order of creation; `has_more` if some warehouses are left out."""

    projects: Sequence[tuple[Project, list[Warehouse]]]
    has_more: bool

    @property
    def warehouses(self) -> list[Warehouse]:
        return [each for _, warehouses in self.projects for each in warehouses]


def list_warehouses_by_project(actor: Actor, projects: Sequence[Project] | None = None) -> WarehousesByProject:
    """Return the warehouses that the actor sees in `projects`, by default in all that they see.

    The number of statements does not depend on the number of projects.
    """
    if projects is None:
        projects = list_projects_for(actor=actor)
    found, has_more = list_warehouses_of_projects_for(actor=actor, projects=projects, limit=MAX_CHOICES)
    by_project: dict[str, list[Warehouse]] = {each.pk: [] for each in projects}
    for each in found:
        by_project[each.project_id].append(each)
    return WarehousesByProject([(each, by_project[each.pk]) for each in projects], has_more)


def list_warehouses_of_all_projects(actor: Actor) -> list[Warehouse]:
    return list_warehouses_by_project(actor).warehouses


def choose_warehouse(actor: Actor, warehouses: Collection[Warehouse], wanted: str | None) -> Warehouse | None:
    """Return the warehouse whose id is `wanted`, which need not be among the choices; without, the first choice.

    Raises `NoSuchWarehouse` (404).
    """
    if not wanted:
        return next(iter(warehouses), None)
    warehouse_id = _read_id(wanted)
    chosen = next((each for each in warehouses if each.pk == warehouse_id), None)
    return chosen or get_warehouse_for(actor=actor, action=Can.INCLUDE_IN_LIST, warehouse_id=warehouse_id)


def read_warehouse(actor: Actor, given: QueryDict) -> Warehouse:
    """Return the warehouse that an address or a form names as `warehouse`. Raises `NoSuchWarehouse` (404)."""
    return get_warehouse_for(actor=actor, action=Can.USE, warehouse_id=_read_id(given.get("warehouse", "")))


def _read_id(wanted: str) -> UUID:
    warehouse_id: UUID | None = parse_id(wanted)
    if warehouse_id is None:
        raise no_such_warehouse(wanted[:MAX_ID_LENGTH])
    return warehouse_id
