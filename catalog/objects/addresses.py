"""The objects of a warehouse as the APIs of rights address them: by id, or by name, dropped ones included.

Rights hang on an object wherever it is: a warehouse may be inactive, a table dropped and not expired. What asks the
authorizer is elsewhere; here nothing is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from catalog.errors import no_such_object
from catalog.identifiers import Identifier, Levels, path_key
from catalog.models import Namespace, Tabular
from icekeeper.kernel.db.sql import as_uuid, fetch_all
from icekeeper.kernel.errors.types import CatalogError
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.models import Project, Securable
from tenancy.refs import ObjectRef
from tenancy.selectors.rights_targets import RightsTarget, require_found

TABULARS: Final = {
    Securable.Type.TABLE: Tabular.Kind.TABLE,
    Securable.Type.VIEW: Tabular.Kind.VIEW,
    Securable.Type.GENERIC_TABLE: Tabular.Kind.GENERIC_TABLE,
}


@dataclass(frozen=True, slots=True)
class Address:
    """A warehouse, or what is in it: by the id that clients see, or by name.

    `levels` alone name a namespace, with `name` a tabular; `object_id` goes before both.
    """

    securable_type: Securable.Type
    warehouse_id: UUID
    object_id: UUID | None = None
    levels: Levels = ()
    name: str = ""

    def missing(self) -> CatalogError:
        """What is answered when there is no such object."""
        if self.securable_type is Securable.Type.WAREHOUSE:
            return no_such_warehouse(self.warehouse_id)
        if self.object_id is not None:
            return no_such_object(self.securable_type.value, self.object_id)
        named = ".".join(self.levels) if not self.name else str(Identifier(self.levels, self.name))
        return no_such_object(self.securable_type.value, named)


def find_addressed(address: Address) -> ObjectRef | None:
    """What the address leads to, None when there is no such object."""
    return find_all_addressed([address])[0]


def find_all_addressed(addresses: Sequence[Address]) -> list[ObjectRef | None]:
    """What each address leads to, in their order: at most one statement a type and way of naming."""
    found: dict[Address, ObjectRef] = {}
    by_type: dict[tuple[Securable.Type, bool], list[Address]] = {}
    for each in dict.fromkeys(addresses):
        by_type.setdefault((each.securable_type, each.object_id is not None), []).append(each)
    for (securable_type, has_id), wanted in by_type.items():
        if securable_type is Securable.Type.WAREHOUSE:
            found |= _warehouses(wanted)
        elif securable_type is Securable.Type.NAMESPACE:
            found |= _namespaces_by_id(wanted) if has_id else _namespaces_by_name(wanted)
        else:
            found |= _tabulars_by_id(wanted) if has_id else _tabulars_by_name(wanted)
    return [found.get(each) for each in addresses]


def find_target(*, actor: Actor, address: Address, project: Project | None) -> RightsTarget:
    """A warehouse or what is in one, dropped or not; with `project` one of that.

    Raises `NoSuchWarehouse` or the "no such" of its type (404).
    """
    missing = address.missing()
    ref = find_addressed(address)
    if ref is not None and project is not None:
        is_here = Warehouse.objects.filter(pk=address.warehouse_id, project=project).exists()
        ref = ref if is_here else None
    return require_found(ref, missing)


def find_namespace_target(*, actor: Actor, namespace_id: UUID) -> RightsTarget:
    """For addresses that name no warehouse. Raises `NoSuchNamespace` (404)."""
    is_there = Namespace.objects.filter(pk=namespace_id).exists()
    ref = ObjectRef(Securable.Type.NAMESPACE, namespace_id) if is_there else None
    return require_found(ref, no_such_object("namespace", namespace_id))


def _warehouses(wanted: Sequence[Address]) -> dict[Address, ObjectRef]:
    there = set(Warehouse.objects.filter(pk__in={each.warehouse_id for each in wanted}).values_list("pk", flat=True))
    return {
        each: ObjectRef(Securable.Type.WAREHOUSE, each.warehouse_id) for each in wanted if each.warehouse_id in there
    }


def _namespaces_by_id(wanted: Sequence[Address]) -> dict[Address, ObjectRef]:
    rows = Namespace.objects.filter(pk__in={each.object_id for each in wanted})
    there = set(rows.values_list("warehouse_id", "pk"))
    return {
        each: ObjectRef(Securable.Type.NAMESPACE, each.object_id)
        for each in wanted
        if (each.warehouse_id, each.object_id) in there
    }


def _namespaces_by_name(wanted: Sequence[Address]) -> dict[Address, ObjectRef]:
    warehouses, keys = _columns((each.warehouse_id, path_key(each.levels)) for each in wanted)
    rows = fetch_all("default", _NAMESPACES, [warehouses, keys])
    there = {(as_uuid(warehouse_id), key): as_uuid(own_id) for warehouse_id, key, own_id in rows}
    return {
        each: ObjectRef(Securable.Type.NAMESPACE, there[named])
        for each in wanted
        if (named := (each.warehouse_id, path_key(each.levels))) in there
    }


def _tabulars_by_id(wanted: Sequence[Address]) -> dict[Address, ObjectRef]:
    rows = Tabular.objects.filter(uuid__in={each.object_id for each in wanted})
    there = {(warehouse_id, kind, uuid): pk for warehouse_id, kind, uuid, pk in rows.values_list(*_IDENTITY)}
    return {
        each: ObjectRef(each.securable_type, there[named])
        for each in wanted
        if (named := (each.warehouse_id, each.securable_type.value, each.object_id)) in there
    }


def _tabulars_by_name(wanted: Sequence[Address]) -> dict[Address, ObjectRef]:
    def named(each: Address) -> tuple[UUID, str, str]:
        identifier = Identifier(each.levels, each.name)
        return each.warehouse_id, identifier.path_key, identifier.name_key

    warehouses, keys = _columns(named(each)[:2] for each in wanted)
    names = list(dict.fromkeys(named(each)[2] for each in wanted))
    rows = fetch_all("default", _TABULARS, [warehouses, keys, names])
    there = {
        (as_uuid(warehouse_id), key, name_key, kind): as_uuid(own_id)
        for warehouse_id, key, name_key, kind, own_id in rows
    }
    return {
        each: ObjectRef(each.securable_type, there[(*named(each), each.securable_type.value)])
        for each in wanted
        if (*named(each), each.securable_type.value) in there
    }


def _columns(pairs: Iterable[tuple[UUID, str]]) -> tuple[list[UUID], list[str]]:
    """The different values of both; what is found of combinations that nobody asked for is passed over."""
    asked = list(pairs)
    return list(dict.fromkeys(first for first, _ in asked)), list(dict.fromkeys(second for _, second in asked))


_IDENTITY: Final = ("warehouse_id", "kind", "uuid", "pk")

_NAMESPACES: Final = """
SELECT warehouse_id, path_key, id FROM catalog_namespace WHERE warehouse_id = ANY(%s) AND path_key = ANY(%s)
"""

# Of several that were dropped under one name none is meant; the one that has it now is.
_TABULARS: Final = """
SELECT n.warehouse_id, n.path_key, t.name_key, t.kind, t.id
  FROM catalog_namespace n JOIN catalog_tabular t ON t.namespace_id = n.id
 WHERE n.warehouse_id = ANY(%s) AND n.path_key = ANY(%s) AND t.name_key = ANY(%s) AND t.deleted_at IS NULL
"""
