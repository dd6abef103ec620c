"""Objects whose grants a page of the console shows, by the ids in its address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from catalog.errors import no_such_object
from catalog.models import Namespace, Tabular
from catalog.objects import ObjectKey, list_grants_of_for, name_objects, resolve_objects
from catalog.selectors.browse import PathStep
from icekeeper.kernel.http.paging import Page
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor, Grantee
from tenancy.authz.actions import SEEN_BY, Can, grant_action
from tenancy.authz.permissions import check_permissions, is_allowed
from tenancy.models import Project, Role, Securable
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.grants import ListedGrant
from tenancy.selectors.objects import NamedObject, PermissionTarget, find_role_target, target_project, the_server
from tenancy.selectors.projects import get_project

T = Securable.Type


@dataclass(frozen=True, slots=True)
class PermissionObject:
    """An object with its project (None for the server) and its names.

    `named` has no names where the object is hidden from the caller, whose only permissions may be those on its grants.
    `is_browsable`: the caller sees the object in the catalog, because neither it nor its warehouse is out of use.
    `known` has the names that were read with the object, of itself and of objects above it, by securable id.
    """

    target: PermissionTarget
    project: Project | None
    named: NamedObject
    is_browsable: bool = True
    known: Mapping[str, NamedObject] = field(default_factory=dict)


class PrincipalGrant(NamedTuple):
    """A grant of a principal on an object. `named` is the object with its names, None if the caller does not see it."""

    grant: ListedGrant
    on: NamedObject
    named: NamedObject | None
    can_revoke: bool


def list_principal_grants_for(
    *, actor: Actor, project: Project, grantee: Grantee, page: Page, expires_before: datetime | None
) -> tuple[list[PrincipalGrant], str | None]:
    """Return the grants of `list_grants_of_for` with what the actor sees of their objects, and may revoke."""
    listed, token = list_grants_of_for(
        actor=actor, project=project, grantee=grantee, page=page, expires_before=expires_before
    )
    found = _find_refs([on for _, on in listed])
    names = _name_visible_objects(actor=actor, found=found)
    revocable = _find_revocable_for(actor=actor, listed=listed, found=found)
    return [PrincipalGrant(grant, on, names.get(on), (grant.privilege, on) in revocable) for grant, on in listed], token


def _name_visible_objects(*, actor: Actor, found: Mapping[NamedObject, ObjectRef]) -> dict[NamedObject, NamedObject]:
    """Return the objects of listed grants with their names, as far as the actor sees them.

    `found` has their references, of `_find_refs`. One permission check, and one statement.
    """
    checks = [(Can.GET_METADATA if ref.type is T.PROJECT else SEEN_BY.get(ref.type), ref) for ref in found.values()]
    wanted = [(action, ref) for action, ref in checks if action is not None]
    seen = {ref for (_, ref), is_seen in zip(wanted, check_permissions(actor, wanted), strict=True) if is_seen}
    own_ids = {each: securable_id(*ref) for each, ref in found.items() if ref in seen}
    names = name_objects(own_ids.values())
    return {each: names[own_id] for each, own_id in own_ids.items() if own_id in names}


def _find_revocable_for(
    *, actor: Actor, listed: Sequence[tuple[ListedGrant, NamedObject]], found: Mapping[NamedObject, ObjectRef]
) -> set[tuple[str, NamedObject]]:
    """Return privilege and object of those listed grants that the actor may revoke. One permission check.

    `found` has the references of the objects, of `_find_refs`.
    """
    pairs = [(grant.privilege, on) for grant, on in listed if on in found]
    decided = check_permissions(actor, [(grant_action(privilege), found[on]) for privilege, on in pairs])
    return {pair for pair, is_allowed in zip(pairs, decided, strict=True) if is_allowed}


def _find_refs(listed: Sequence[NamedObject]) -> dict[NamedObject, ObjectRef]:
    """Return the references of the existing ones of these objects. At most one statement for each type."""
    keys = {
        each: ObjectKey(each.securable_type, UUID(str(each.warehouse_id)), _client_id(each))
        for each in dict.fromkeys(listed)
        if each.warehouse_id is not None
    }
    refs: dict[NamedObject, ObjectRef | None] = dict(zip(keys, resolve_objects(list(keys.values())), strict=True))
    for each in listed:
        if each not in keys:
            refs[each] = ObjectRef(each.securable_type, each.object_id)
    return {each: ref for each, ref in refs.items() if ref is not None}


def _client_id(named: NamedObject) -> UUID | None:
    return None if named.securable_type is T.WAREHOUSE else UUID(named.object_id)


def find_server_object() -> PermissionObject:
    target = the_server()
    return PermissionObject(target, None, NamedObject(T.SERVER, str(target.ref.id)))


def find_project_object(*, actor: Actor, project_id: str) -> PermissionObject:
    """Return a project, without its name for callers who do not see it. Raises `ProjectNotFound` (404)."""
    project = get_project(project_id)
    named = NamedObject(T.PROJECT, project.pk, project.name)
    is_seen = is_allowed(actor, Can.GET_METADATA, T.PROJECT, project.pk)
    return PermissionObject(target_project(project), project, named if is_seen else named.without_names(), is_seen)


def find_role_object(*, actor: Actor, role_id: UUID) -> PermissionObject:
    """Return a role. Raises `RoleIdNotFound` (404)."""
    target = find_role_target(project=None, role_id=role_id)
    role = Role.objects.select_related("project").get(pk=role_id)
    named = NamedObject(T.ROLE, str(role_id), role.name)
    is_seen = is_allowed(actor, SEEN_BY[T.ROLE], *target.ref)
    return PermissionObject(target, role.project, named if is_seen else named.without_names(), is_seen)


def find_warehouse_object(*, actor: Actor, key: ObjectKey) -> PermissionObject:
    """Return a warehouse or an object in it, also an inactive or dropped one.

    Raises the 404 of its type; permissions on the grants are for the caller of this function to check.
    """
    missing = key.missing()
    found = _find_named(key)
    if found is None:
        raise missing
    warehouse, own_id, named = found
    ref = ObjectRef(key.securable_type, own_id)
    is_seen = is_allowed(actor, SEEN_BY[ref.type], *ref)
    is_in_use = key.securable_type is T.WAREHOUSE or (
        warehouse.status == Warehouse.Status.ACTIVE and not named.is_dropped
    )
    return PermissionObject(
        PermissionTarget(ref, missing),
        warehouse.project,
        named if is_seen else named.without_names(),
        is_seen and is_in_use,
    )


def _find_named(key: ObjectKey) -> tuple[Warehouse, UUID, NamedObject] | None:
    """Return the warehouse with its project, the own id and the names of an object. One statement."""
    if key.securable_type is T.WAREHOUSE:
        warehouse = Warehouse.objects.select_related("project").filter(pk=key.warehouse_id).first()
        return None if warehouse is None else (warehouse, warehouse.pk, _name_warehouse(warehouse))
    if key.object_id is None:
        return None
    if key.securable_type is T.NAMESPACE:
        namespaces = Namespace.objects.in_warehouse(key.warehouse_id).select_related("warehouse__project")
        namespace = namespaces.filter(pk=key.object_id).first()
        return None if namespace is None else (namespace.warehouse, namespace.pk, _name_namespace(namespace))
    tabulars = Tabular.objects.in_warehouse(key.warehouse_id).select_related("namespace__warehouse__project")
    tabular = tabulars.filter(uuid=key.object_id, kind=key.securable_type.value).first()
    return None if tabular is None else (tabular.namespace.warehouse, tabular.pk, _name_tabular(tabular))


def _name_warehouse(warehouse: Warehouse) -> NamedObject:
    own_id = str(warehouse.pk)
    return NamedObject(T.WAREHOUSE, own_id, warehouse.name, own_id, warehouse.name)


def _name_namespace(namespace: Namespace) -> NamedObject:
    warehouse = namespace.warehouse
    return NamedObject(T.NAMESPACE, str(namespace.pk), None, str(warehouse.pk), warehouse.name, tuple(namespace.levels))


def _name_tabular(tabular: Tabular) -> NamedObject:
    namespace, warehouse = tabular.namespace, tabular.namespace.warehouse
    return NamedObject(
        T(tabular.kind), str(tabular.uuid), tabular.name, str(warehouse.pk), warehouse.name, tuple(namespace.levels),
        tabular.deleted_at is not None,
    )  # fmt: skip


def warehouse_object(warehouse: Warehouse) -> PermissionObject:
    """Return a warehouse that the caller sees, read with its project."""
    missing = no_such_warehouse(warehouse.pk)
    target = PermissionTarget(ObjectRef(T.WAREHOUSE, warehouse.pk), missing)
    return PermissionObject(target, warehouse.project, _name_warehouse(warehouse))


def namespace_object(namespace: Namespace, path: Sequence[PathStep]) -> PermissionObject:
    """Return a namespace that the caller sees, read with its warehouse, its project, and the path to it."""
    warehouse, named = namespace.warehouse, _name_namespace(namespace)
    ref, missing = ObjectRef(T.NAMESPACE, namespace.pk), no_such_object(T.NAMESPACE.value, namespace.pk)
    known = {**_names_on(path, warehouse), securable_id(*ref): named}
    return PermissionObject(PermissionTarget(ref, missing), warehouse.project, named, known=known)


def tabular_object(tabular: Tabular, path: Sequence[PathStep]) -> PermissionObject:
    """Return a live table, view or generic table that the caller sees, read with its namespace, its project, and the
    path to it."""
    kind, warehouse, named = T(tabular.kind), tabular.namespace.warehouse, _name_tabular(tabular)
    ref, missing = ObjectRef(kind, tabular.pk), no_such_object(kind.value, tabular.uuid)
    known = {**_names_on(path, warehouse), securable_id(*ref): named}
    return PermissionObject(PermissionTarget(ref, missing), warehouse.project, named, known=known)


def _names_on(path: Sequence[PathStep], warehouse: Warehouse) -> dict[str, NamedObject]:
    """Return the names of the objects on the path to a namespace or a tabular, by securable id."""
    found: dict[str, NamedObject] = {}
    levels: tuple[str, ...] = ()
    own_id = str(warehouse.pk)
    for step in path:
        kind = T(step.kind)
        if kind is T.NAMESPACE:
            levels = (*levels, step.name)
            named = NamedObject(kind, step.id, None, own_id, warehouse.name, levels)
        elif kind is T.WAREHOUSE:
            named = _name_warehouse(warehouse)
        else:
            named = NamedObject(kind, step.id, step.name)
        found[securable_id(kind, step.id)] = named
    return found
