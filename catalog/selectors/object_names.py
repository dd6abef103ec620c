"""What objects of whatever type are called, and the ids that clients know them by: of many at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from catalog.models import Namespace, Tabular
from catalog.selectors.addressed import TABULARS
from storage.models import Warehouse
from tenancy.authz.securables import securable_id
from tenancy.models import Project, Role, Securable, TagDefinition

T = Securable.Type


@dataclass(frozen=True, slots=True)
class NamedObject:
    """`name` begins with the warehouse's of what is in one; of the server it is empty.

    `object_id` is the one that clients know. `is_dropped`: it can be restored, and keeps its grants until then.
    """

    securable_type: Securable.Type
    object_id: str
    warehouse_id: str | None = None
    name: tuple[str, ...] = ()
    is_dropped: bool = False


def name_objects(own_ids: Collection[str]) -> dict[str, NamedObject]:
    """By securable ids; those that went away are left out. One statement for each type that is among them."""
    by_type: dict[Securable.Type, set[str]] = {}
    for own_id in own_ids:
        kind, _, object_id = own_id.partition(":")
        by_type.setdefault(T(kind), set()).add(object_id)
    found: list[tuple[str, NamedObject]] = []
    for kind, ids in by_type.items():
        if kind is T.SERVER:
            found += [(securable_id(kind, each), NamedObject(kind, each)) for each in ids]
        elif kind is T.PROJECT:
            rows = Project.objects.filter(pk__in=ids).values_list("pk", "name")
            found += [(securable_id(kind, pk), NamedObject(kind, pk, None, (name,))) for pk, name in rows]
        elif kind is T.WAREHOUSE:
            found += _warehouses(ids)
        elif kind is T.NAMESPACE:
            found += _namespaces(ids)
        elif kind in TABULARS:
            found += _tabulars(kind, ids)
        else:
            found += _in_project(kind, ids)
    return dict(found)


def _in_project(kind: Securable.Type, ids: Collection[str]) -> list[tuple[str, NamedObject]]:
    """Roles and tags."""
    uuids = [UUID(each) for each in ids]
    rows = (
        Role.objects.filter(pk__in=uuids).values_list("pk", "name")
        if kind is T.ROLE
        else TagDefinition.objects.filter(pk__in=uuids).values_list("pk", "name")
    )
    return [(securable_id(kind, pk), NamedObject(kind, str(pk), None, (name,))) for pk, name in rows]


def _warehouses(ids: Collection[str]) -> list[tuple[str, NamedObject]]:
    rows = Warehouse.objects.filter(pk__in=[UUID(each) for each in ids]).values_list("pk", "name")
    return [(securable_id(T.WAREHOUSE, pk), NamedObject(T.WAREHOUSE, str(pk), str(pk), (name,))) for pk, name in rows]


def _namespaces(ids: Collection[str]) -> list[tuple[str, NamedObject]]:
    rows = Namespace.objects.filter(pk__in=[UUID(each) for each in ids]).select_related("warehouse")
    return [
        (
            securable_id(T.NAMESPACE, row.pk),
            NamedObject(T.NAMESPACE, str(row.pk), str(row.warehouse_id), (row.warehouse.name, *row.levels)),
        )
        for row in rows
    ]


def _tabulars(kind: Securable.Type, ids: Collection[str]) -> list[tuple[str, NamedObject]]:
    """Of each its names alone: nothing that weighs."""
    rows = Tabular.objects.filter(pk__in=[UUID(each) for each in ids], kind=kind.value).select_related(
        "namespace__warehouse"
    )
    return [
        (
            securable_id(kind, row.pk),
            NamedObject(
                kind,
                str(row.uuid),
                str(row.warehouse_id),
                (row.namespace.warehouse.name, *row.namespace.levels, row.name),
                is_dropped=row.deleted_at is not None,
            ),
        )
        for row in rows
    ]
