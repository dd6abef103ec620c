"""Look-up of warehouses and the objects in them for the APIs of grants and permissions: by id or name, and vice versa.

Inactive warehouses and soft-deleted tabulars are found, too, as they have grants. Only `list_grants_of_for` checks
permissions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import starmap
from typing import Any, Final, NamedTuple
from uuid import UUID

from catalog.errors import no_such_object
from catalog.identifiers import Identifier, Levels
from catalog.models import Namespace, Tabular
from icekeeper.kernel.db.sql import fetch_all
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.paging import Page
from icekeeper.kernel.names import LEVEL_SEPARATOR, lookup_key, path_key
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor, Grantee
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.grants import ListedGrant, LocatedGrant, list_grants_of
from tenancy.selectors.objects import NamedObject, PermissionTarget

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


def find_permission_target(*, key: ObjectKey, project: Project | None) -> PermissionTarget:
    """Return the warehouse or object that a key names, dropped or not; with `project` only one of that project.

    Raises `NoSuchWarehouse` or the "no such" error of its type (404).
    """
    missing = key.missing()
    if key.securable_type is Securable.Type.WAREHOUSE and project is not None:
        if not Warehouse.objects.filter(pk=key.warehouse_id, project=project).exists():
            raise missing
        return PermissionTarget(ObjectRef(Securable.Type.WAREHOUSE, key.warehouse_id), missing)
    ref = resolve_object_key(key)
    if ref is not None and project is not None:
        is_in_project = Warehouse.objects.filter(pk=key.warehouse_id, project=project).exists()
        ref = ref if is_in_project else None
    if ref is None:
        raise missing
    return PermissionTarget(ref, missing)


def find_namespace_target(*, namespace_id: UUID) -> PermissionTarget:
    """Return a namespace by its id alone, for routes without a warehouse. Raises `NoSuchNamespace` (404)."""
    missing = no_such_object("namespace", namespace_id)
    if not Namespace.objects.filter(pk=namespace_id).exists():
        raise missing
    return PermissionTarget(ObjectRef(Securable.Type.NAMESPACE, namespace_id), missing)


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
    named = {each: (each.warehouse_id, path_key(each.levels)) for each in wanted}
    warehouses, keys = _columns(named.values())
    rows = Namespace.objects.filter(warehouse_id__in=warehouses, path_key__in=keys)
    existing = {tuple(names): pk for *names, pk in rows.values_list("warehouse_id", "path_key", "pk")}
    return {
        each: ObjectRef(Securable.Type.NAMESPACE, existing[names]) for each, names in named.items() if names in existing
    }


def _tabulars_by_id(wanted: Sequence[ObjectKey]) -> dict[ObjectKey, ObjectRef]:
    named = {each: (each.warehouse_id, each.securable_type.value, each.object_id) for each in wanted}
    rows = Tabular.objects.filter(uuid__in={each.object_id for each in wanted})
    existing = {tuple(names): pk for *names, pk in rows.values_list("warehouse_id", "kind", "uuid", "pk")}
    return {each: ObjectRef(each.securable_type, existing[names]) for each, names in named.items() if names in existing}


def _tabulars_by_name(wanted: Sequence[ObjectKey]) -> dict[ObjectKey, ObjectRef]:
    named = {
        each: (each.warehouse_id, path_key(each.levels), lookup_key(each.name), each.securable_type.value)
        for each in wanted
    }
    warehouses, keys, name_keys, _ = _columns(named.values())
    # Only the current tabular has the name, but several dropped ones may have had it.
    rows = Tabular.objects.live().filter(
        namespace__warehouse_id__in=warehouses, namespace__path_key__in=keys, name_key__in=name_keys
    )
    columns = ("namespace__warehouse_id", "namespace__path_key", "name_key", "kind", "pk")
    existing = {tuple(names): pk for *names, pk in rows.values_list(*columns)}
    return {each: ObjectRef(each.securable_type, existing[names]) for each, names in named.items() if names in existing}


def _columns(rows: Iterable[tuple[object, ...]]) -> list[list[Any]]:
    """Return the distinct values of each column. A query finds further combinations, which the caller must ignore."""
    return [list(dict.fromkeys(column)) for column in zip(*rows, strict=True)]


T = Securable.Type


def name_objects(own_ids: Iterable[str]) -> dict[str, NamedObject]:
    """Return the names of existing objects by securable id. One statement, none for the server."""
    wanted: dict[Securable.Type, list[str]] = {}
    for each in dict.fromkeys(own_ids):
        kind, _, object_id = each.partition(":")
        wanted.setdefault(T(kind), []).append(object_id)
    found = {securable_id(T.SERVER, each): NamedObject(T.SERVER, each) for each in wanted.pop(T.SERVER, [])}
    if not wanted:
        return found
    params = [
        wanted.get(T.PROJECT, []),
        *(_uuids(wanted.get(kind, [])) for kind in (T.ROLE, T.TAG, T.WAREHOUSE, T.NAMESPACE)),
        _uuids(each for kind in TABULARS for each in wanted.get(kind, [])),
    ]
    for row in starmap(_NameRow, fetch_all("default", _NAMES, params)):
        own_id, named = _named(row)
        found[own_id] = named
    return found


class _NameRow(NamedTuple):
    """A row of `_NAMES`; `path` is that of a namespace, or of the namespace of a tabular."""

    kind: str
    id: str
    uuid: str | None
    name: str | None
    warehouse_id: str | None
    warehouse: str | None
    path: str | None
    is_dropped: bool


_NAMES: Final = """
SELECT 'project', CAST(id AS text), CAST(NULL AS text), CAST(name AS text), CAST(NULL AS text), CAST(NULL AS text),
       CAST(NULL AS text), FALSE
  FROM tenancy_project WHERE id = ANY(%s)
UNION ALL
SELECT 'role', CAST(id AS text), NULL, name, NULL, NULL, NULL, FALSE FROM tenancy_role WHERE id = ANY(%s)
UNION ALL
SELECT 'tag', CAST(id AS text), NULL, name, NULL, NULL, NULL, FALSE FROM tenancy_tagdefinition WHERE id = ANY(%s)
UNION ALL
SELECT 'warehouse', CAST(id AS text), NULL, name, CAST(id AS text), name, NULL, FALSE
  FROM storage_warehouse WHERE id = ANY(%s)
UNION ALL
SELECT 'namespace', CAST(n.id AS text), NULL, NULL, CAST(n.warehouse_id AS text), w.name, n.path, FALSE
  FROM catalog_namespace AS n JOIN storage_warehouse AS w ON w.id = n.warehouse_id WHERE n.id = ANY(%s)
UNION ALL
SELECT t.kind, CAST(t.id AS text), CAST(t.uuid AS text), t.name, CAST(t.warehouse_id AS text), w.name, n.path,
       t.deleted_at IS NOT NULL
  FROM catalog_tabular AS t JOIN catalog_namespace AS n ON n.id = t.namespace_id
  JOIN storage_warehouse AS w ON w.id = t.warehouse_id
 WHERE t.id = ANY(%s)
"""


def _named(row: _NameRow) -> tuple[str, NamedObject]:
    """Return the securable id of a row, and the object."""
    kind = T(row.kind)
    own_id = row.id if kind is T.PROJECT else _uuid_text(row.id)
    warehouse_id = None if row.warehouse_id is None else _uuid_text(row.warehouse_id)
    levels = () if row.path is None else tuple(row.path.split(LEVEL_SEPARATOR))
    object_id = own_id if row.uuid is None else _uuid_text(row.uuid)
    named = NamedObject(kind, object_id, row.name, warehouse_id, row.warehouse, levels, bool(row.is_dropped))
    return securable_id(kind, own_id), named


def _uuid_text(stored: str) -> str:
    """Return a UUID as clients see it: SQLite stores no dashes."""
    return str(UUID(stored))


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


def list_grants_of_for(
    *, actor: Actor, project: Project, grantee: Grantee, page: Page, expires_before: datetime | None = None
) -> tuple[list[tuple[ListedGrant, NamedObject]], str | None]:
    """List the grants of one principal in a project with their objects, which have ids but no names.

    Objects in inactive warehouses are left out.
    Raises `GrantActionForbidden` (403).
    """

    def inactive_warehouses() -> list[str]:
        rows = Warehouse.objects.filter(project=project).exclude(status=Warehouse.Status.ACTIVE)
        return [securable_id(Securable.Type.WAREHOUSE, pk) for pk in rows.values_list("pk", flat=True)]

    located, token = list_grants_of(
        actor=actor,
        project=project,
        grantee=grantee,
        inactive_warehouses=inactive_warehouses,
        page=page,
        expires_before=expires_before,
    )
    uuids = client_uuids({UUID(str(each.ref.id)) for each in located if each.ref.type in TABULARS})
    found = []
    for each in located:
        granted_on = _granted_object(each, uuids)
        if granted_on is not None:
            found.append((each.grant, granted_on))
    return found, token


def _granted_object(located: LocatedGrant, uuids: Mapping[UUID, UUID]) -> NamedObject | None:
    """Return the object without its names, None for a tabular that was deleted concurrently."""
    securable_type, object_id = located.ref.type, str(located.ref.id)
    if securable_type in {Securable.Type.PROJECT, Securable.Type.TAG}:
        return NamedObject(securable_type, object_id)
    if securable_type not in TABULARS:
        return NamedObject(securable_type, object_id, warehouse_id=located.warehouse_id)
    uuid = uuids.get(UUID(object_id))
    return None if uuid is None else NamedObject(securable_type, str(uuid), warehouse_id=located.warehouse_id)
