"""Names of securable objects, and the two ids of tables, views and generic tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from uuid import UUID

from catalog.models import Namespace, Tabular
from catalog.objects.object_keys import TABULARS
from icekeeper.kernel.names import LEVEL_SEPARATOR
from storage.models import Warehouse
from tenancy.models import Project, Role, Securable, TagDefinition
from tenancy.models.securable import securable_id
from tenancy.selectors.objects import NamedObject

T = Securable.Type
Named = Iterator[tuple[str, "NamedObject"]]
_OF_PROJECTS = {T.ROLE: Role, T.TAG: TagDefinition}


def name_objects(own_ids: Iterable[str]) -> dict[str, NamedObject]:
    """Return the names of existing objects by securable id. One statement for each type, one for all tabulars."""
    wanted: dict[Securable.Type, list[str]] = {}
    for each in dict.fromkeys(own_ids):
        kind, _, object_id = each.partition(":")
        wanted.setdefault(T(kind), []).append(object_id)
    found = {securable_id(T.SERVER, each): NamedObject(T.SERVER, each) for each in wanted.get(T.SERVER, [])}
    if T.PROJECT in wanted:
        found |= dict(_projects(wanted[T.PROJECT]))
    if T.WAREHOUSE in wanted:
        found |= dict(_warehouses(wanted[T.WAREHOUSE]))
    if T.NAMESPACE in wanted:
        found |= dict(_namespaces(wanted[T.NAMESPACE]))
    for kind in _OF_PROJECTS:
        if kind in wanted:
            found |= dict(_in_project(kind, wanted[kind]))
    tabulars = [each for kind in TABULARS for each in wanted.get(kind, [])]
    return found | (dict(_tabulars(tabulars)) if tabulars else {})


def _projects(ids: Collection[str]) -> Named:
    for pk, name in Project.objects.filter(pk__in=ids).values_list("pk", "name"):
        yield securable_id(T.PROJECT, pk), NamedObject(T.PROJECT, pk, name)


def _in_project(kind: Securable.Type, ids: Iterable[str]) -> Named:
    for pk, name in _OF_PROJECTS[kind]._default_manager.filter(pk__in=_uuids(ids)).values_list("pk", "name"):  # noqa: SLF001
        yield securable_id(kind, pk), NamedObject(kind, str(pk), name)


def _warehouses(ids: Iterable[str]) -> Named:
    for pk, name in Warehouse.objects.filter(pk__in=_uuids(ids)).values_list("pk", "name"):
        yield securable_id(T.WAREHOUSE, pk), NamedObject(T.WAREHOUSE, str(pk), name, str(pk), name)


def _namespaces(ids: Iterable[str]) -> Named:
    columns = ("pk", "path", "warehouse_id", "warehouse__name")
    for pk, path, warehouse_id, warehouse in Namespace.objects.filter(pk__in=_uuids(ids)).values_list(*columns):
        levels = tuple(path.split(LEVEL_SEPARATOR))
        named = NamedObject(T.NAMESPACE, str(pk), None, str(warehouse_id), warehouse, levels)
        yield securable_id(T.NAMESPACE, pk), named


def _tabulars(ids: Iterable[str]) -> Named:
    columns = ("pk", "kind", "uuid", "name", "warehouse_id", "warehouse__name", "namespace__path", "deleted_at")
    for pk, kind, uuid, name, warehouse_id, warehouse, path, deleted_at in Tabular.objects.filter(
        pk__in=_uuids(ids)
    ).values_list(*columns):
        levels, is_dropped = tuple(path.split(LEVEL_SEPARATOR)), deleted_at is not None
        named = NamedObject(T(kind), str(uuid), name, str(warehouse_id), warehouse, levels, is_dropped)
        yield securable_id(T(kind), pk), named


def _uuids(texts: Iterable[str]) -> list[UUID]:
    return [UUID(each) for each in texts]


def client_uuids(own_ids: Collection[UUID]) -> dict[UUID, UUID]:
    """Return the UUIDs that clients see, by the ids of existing tabulars. One statement, none without ids."""
    return dict(Tabular.objects.filter(pk__in=own_ids).values_list("pk", "uuid")) if own_ids else {}


def own_ids_of(client_uuid: UUID, *, project_id: str | None) -> list[UUID]:
    """Return the ids of all tabulars with this UUID, sorted; at most one in each warehouse, with a project only in it.

    One statement, which reads the index of each warehouse.
    """
    warehouses = Warehouse.objects.all() if project_id is None else Warehouse.objects.filter(project_id=project_id)
    rows = Tabular.objects.filter(uuid=client_uuid, warehouse__in=warehouses.values("pk"))
    return sorted(rows.values_list("pk", flat=True))
