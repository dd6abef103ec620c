"""Look-up of warehouses and their objects for the APIs of grants and permissions, by id or name.

Inactive warehouses and soft-deleted tabulars are found, too, as they have grants. No permissions are checked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from catalog.errors import no_such_object
from catalog.identifiers import Identifier, Levels, path_key
from catalog.models import Namespace, Tabular
from icekeeper.kernel.errors.types import CatalogError
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.objects import PermissionTarget, require_found

TABULARS: Final = {
    Securable.Type.TABLE: Tabular.Kind.TABLE,
    Securable.Type.VIEW: Tabular.Kind.VIEW,
    Securable.Type.GENERIC_TABLE: Tabular.Kind.GENERIC_TABLE,
}


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """A warehouse or an object in it as a client names it: by the id that clients see, or by name.

    `levels` alone name a namespace, with `name` a tabular; `object_id` takes precedence over both.
    """

    securable_type: Securable.Type
    warehouse_id: UUID
    object_id: UUID | None = None
    levels: Levels = ()
    name: str = ""

    def missing(self) -> CatalogError:
        """The error when the object does not exist."""
        if self.securable_type is Securable.Type.WAREHOUSE:
            return no_such_warehouse(self.warehouse_id)
        if self.object_id is not None:
            return no_such_object(self.securable_type.value, self.object_id)
        named = ".".join(self.levels) if not self.name else str(Identifier(self.levels, self.name))
        return no_such_object(self.securable_type.value, named)


def resolve_object_key(key: ObjectKey) -> ObjectRef | None:
    """Resolve a key to a reference, None when the object does not exist."""
    return resolve_objects([key])[0]


def resolve_objects(keys: Sequence[ObjectKey]) -> list[ObjectRef | None]:
    """Resolve keys in their order, None for unknown objects. At most one statement for each type by id, one by name."""
    found: dict[ObjectKey, ObjectRef] = {}
    by_type: dict[tuple[Securable.Type, bool], list[ObjectKey]] = {}
    for each in dict.fromkeys(keys):
        by_type.setdefault((each.securable_type, each.object_id is not None), []).append(each)
    for (securable_type, has_id), wanted in by_type.items():
        if securable_type is Securable.Type.WAREHOUSE:
            found |= _warehouses(wanted)
        elif securable_type is Securable.Type.NAMESPACE:
            found |= _namespaces_by_id(wanted) if has_id else _namespaces_by_name(wanted)
        else:
            found |= _tabulars_by_id(wanted) if has_id else _tabulars_by_name(wanted)
    return [found.get(each) for each in keys]


def find_target(*, actor: Actor, key: ObjectKey, project: Project | None) -> PermissionTarget:
    """Return the warehouse or object that a key names, dropped or not; with `project` only one of that project.

    Raises `NoSuchWarehouse` or the "no such" error of its type (404).
    """
    missing = key.missing()
    ref = resolve_object_key(key)
    if ref is not None and project is not None:
        is_in_project = Warehouse.objects.filter(pk=key.warehouse_id, project=project).exists()
        ref = ref if is_in_project else None
    return require_found(ref, missing)


def find_namespace_target(*, actor: Actor, namespace_id: UUID) -> PermissionTarget:
    """Return a namespace by its id alone, for routes without a warehouse. Raises `NoSuchNamespace` (404)."""
    exists = Namespace.objects.filter(pk=namespace_id).exists()
    ref = ObjectRef(Securable.Type.NAMESPACE, namespace_id) if exists else None
    return require_found(ref, no_such_object("namespace", namespace_id))


def _warehouses(wanted: Sequence[ObjectKey]) -> dict[ObjectKey, ObjectRef]:
    existing = set(Warehouse.objects.filter(pk__in={each.warehouse_id for each in wanted}).values_list("pk", flat=True))
    return {
        each: ObjectRef(Securable.Type.WAREHOUSE, each.warehouse_id) for each in wanted if each.warehouse_id in existing
    }


def _namespaces_by_id(wanted: Sequence[ObjectKey]) -> dict[ObjectKey, ObjectRef]:
    rows = Namespace.objects.filter(pk__in={each.object_id for each in wanted})
    existing = set(rows.values_list("warehouse_id", "pk"))
    return {
        each: ObjectRef(Securable.Type.NAMESPACE, each.object_id)
        for each in wanted
        if (each.warehouse_id, each.object_id) in existing
    }


def _namespaces_by_name(wanted: Sequence[ObjectKey]) -> dict[ObjectKey, ObjectRef]:
    warehouses, keys = _columns((each.warehouse_id, path_key(each.levels)) for each in wanted)
    rows = Namespace.objects.filter(warehouse_id__in=warehouses, path_key__in=keys)
    existing = {(warehouse_id, key): pk for warehouse_id, key, pk in rows.values_list("warehouse_id", "path_key", "pk")}
    return {
        each: ObjectRef(Securable.Type.NAMESPACE, existing[named])
        for each in wanted
        if (named := (each.warehouse_id, path_key(each.levels))) in existing
    }


def _tabulars_by_id(wanted: Sequence[ObjectKey]) -> dict[ObjectKey, ObjectRef]:
    rows = Tabular.objects.filter(uuid__in={each.object_id for each in wanted})
    existing = {(warehouse_id, kind, uuid): pk for warehouse_id, kind, uuid, pk in rows.values_list(*_IDENTITY)}
    return {
        each: ObjectRef(each.securable_type, existing[named])
        for each in wanted
        if (named := (each.warehouse_id, each.securable_type.value, each.object_id)) in existing
    }


def _tabulars_by_name(wanted: Sequence[ObjectKey]) -> dict[ObjectKey, ObjectRef]:
    def named(each: ObjectKey) -> tuple[UUID, str, str]:
        identifier = Identifier(each.levels, each.name)
        return each.warehouse_id, identifier.path_key, identifier.name_key

    warehouses, keys = _columns(named(each)[:2] for each in wanted)
    names = list(dict.fromkeys(named(each)[2] for each in wanted))
    # Only the current tabular has the name, but several dropped ones may have had it.
    rows = Tabular.objects.live().filter(
        namespace__warehouse_id__in=warehouses, namespace__path_key__in=keys, name_key__in=names
    )
    columns = ("namespace__warehouse_id", "namespace__path_key", "name_key", "kind", "pk")
    existing = {(warehouse, key, name, kind): pk for warehouse, key, name, kind, pk in rows.values_list(*columns)}
    return {
        each: ObjectRef(each.securable_type, existing[(*named(each), each.securable_type.value)])
        for each in wanted
        if (*named(each), each.securable_type.value) in existing
    }


def _columns(pairs: Iterable[tuple[UUID, str]]) -> tuple[list[UUID], list[str]]:
    """Return the distinct values of both columns. A query finds further combinations, which the caller must ignore."""
    wanted = list(pairs)
    return list(dict.fromkeys(first for first, _ in wanted)), list(dict.fromkeys(second for _, second in wanted))


_IDENTITY: Final = ("warehouse_id", "kind", "uuid", "pk")
