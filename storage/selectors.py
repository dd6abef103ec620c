"""Warehouses that an actor may see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from django.db.models import Q

from icekeeper.kernel.db.lookups import IsAmong
from icekeeper.kernel.http.paging import Page, build_page
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import are_allowed, check_permissions, require_permission, visible_objects
from tenancy.authz.port import VisibleObjects
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef

BATCH_SIZE: Final = 500
"""Minimum batch size of permission checks after the first page of warehouses; of a list over many projects, the size of
the first batch."""


def get_warehouse_for(*, actor: Actor, action: Can, warehouse_id: UUID) -> Warehouse:
    """Return a warehouse, active or not, for `action`. Raises `NoSuchWarehouse`, `Forbidden`."""
    return _require_allowed(actor, action, Warehouse.objects.filter(pk=warehouse_id).first(), warehouse_id)


def get_warehouse_named_for(*, actor: Actor, project: Project, name: str) -> Warehouse:
    """Return a warehouse of a project by its name, active or not. Raises `NoSuchWarehouse`."""
    found = Warehouse.objects.in_project(project).named(name).first()
    return _require_allowed(actor, Can.GET_METADATA, found, name[:200])


def _require_allowed(actor: Actor, action: Can, found: Warehouse | None, requested: object) -> Warehouse:
    """Return the warehouse that was `requested` by id or name."""
    missing = no_such_warehouse(requested)
    if found is None:
        raise missing
    require_permission(actor, action, Securable.Type.WAREHOUSE, found.pk, missing=missing)
    return found


def list_warehouses_for(
    *, actor: Actor, project: Project, statuses: Sequence[str], page: Page
) -> tuple[list[Warehouse], str | None]:
    """Return a page of the warehouses of a project that `actor` may see, in order of creation, and the next page token.

    Hidden warehouses do not shorten a page: only the last page is short.
    """
    require_permission(actor, Can.LIST_WAREHOUSES, Securable.Type.PROJECT, project.pk)
    warehouses = Warehouse.objects.in_project(project).order_by("id")
    if set(statuses) != set(Warehouse.Status.values):
        warehouses = warehouses.filter(status__in=statuses)
    after, seen = page.after_id(), list[tuple[object, Warehouse]]()
    wanted = page.sql_limit
    batch_size = wanted
    while True:
        found = list(warehouses.filter(pk__gt=after)[:batch_size])
        shown = are_allowed(
            actor, Can.INCLUDE_IN_LIST, [ObjectRef(Securable.Type.WAREHOUSE, each.pk) for each in found]
        )
        seen += [(each.pk, each) for each, is_shown in zip(found, shown, strict=True) if is_shown]
        if len(found) < batch_size or len(seen) >= wanted:
            return build_page(seen, page)
        after = found[-1].pk
        batch_size = max(BATCH_SIZE, page.sql_limit)


def list_warehouses_of_projects_for(
    *, actor: Actor, projects: Sequence[Project], limit: int
) -> tuple[list[Warehouse], bool]:
    """Return the first `limit` warehouses of `projects` that `actor` may see, and whether there are more.

    Active or not, in order of the projects, then of creation; none of projects whose warehouses the actor is not
    allowed to list.
    The number of statements and permission checks does not depend on the number of projects. Beyond the first batch,
    only candidates for what the actor sees are read.
    """
    refs = [ObjectRef(Securable.Type.PROJECT, each.pk) for each in projects]
    listed = check_permissions(actor, [(Can.LIST_WAREHOUSES, ref) for ref in refs]) if refs else []
    order = {each.pk: at for at, (each, is_listed) in enumerate(zip(projects, listed, strict=True)) if is_listed}
    warehouses = Warehouse.objects.filter(project_id__in=order).order_by("id")
    seen: list[Warehouse] = []
    after, batch_size = None, BATCH_SIZE
    while order:
        found = list((warehouses if after is None else warehouses.filter(pk__gt=after))[:batch_size])
        refs = [ObjectRef(Securable.Type.WAREHOUSE, each.pk) for each in found]
        shown = are_allowed(actor, Can.INCLUDE_IN_LIST, refs)
        seen += [each for each, is_shown in zip(found, shown, strict=True) if is_shown]
        if len(found) < batch_size or len(seen) > limit:
            break
        if after is None:
            warehouses = warehouses.filter(candidate_warehouses(visible_objects(actor)))
        after, batch_size = found[-1].pk, max(BATCH_SIZE, limit + 1)
    by_project = sorted(seen[:limit], key=lambda each: order[each.project_id])
    return by_project, len(seen) > limit


def candidate_warehouses(visible: VisibleObjects | None) -> Q:
    """Return the condition that leaves out most of the warehouses that are hidden from a caller.

    As the conditions of `catalog.selectors.candidates`.
    """
    if visible is None:
        return Q()
    return Q(IsAmong("pk", visible.warehouses | visible.parents)) | Q(project_id__in=visible.projects)
