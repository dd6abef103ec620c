"""Creation of namespaces, updates of their properties, and drops of empty ones."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError
from django.db.models import RestrictedError

from catalog.errors import NamespaceProtected, ReservedNamespace, no_such_namespace
from catalog.identifiers import Levels, dotted, path_key, require_levels
from catalog.models import Namespace, Tabular
from catalog.selectors.warehouses import require_active
from catalog.services.idempotency import IdempotencyKey, store_response
from catalog.services.locations.claims import lock_warehouse, require_outside_tabulars
from icekeeper.kernel.db.sql import as_uuid, fetch_one
from icekeeper.kernel.db.write_transaction import write_transaction
from icekeeper.kernel.errors.database import is_foreign_key_violation
from icekeeper.kernel.errors.types import (
    AlreadyExists,
    BadRequest,
    InvalidLocation,
    NamespaceNotEmpty,
    UnprocessableEntity,
)
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import LEVEL_SEPARATOR, name_key
from icekeeper.kernel.request import permission_recheck
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from storage.profiles.default_locations import namespace_location
from storage.profiles.location import location_inside, new_location_inside, normalize
from tenancy.actor import Actor
from tenancy.audit.log import Event, record
from tenancy.authz.actions import Can
from tenancy.authz.model import OWNERSHIP
from tenancy.authz.permissions import require_permission
from tenancy.authz.securables import add_securable, remove_securable
from tenancy.models import Securable
from tenancy.refs import ObjectRef
from tenancy.services.cascaded_grants import audit_revoked_grants
from tenancy.services.creator_grants import grant_creator

RESERVED = frozenset({"system", "examples", "information_schema"})
LOCATION = "location"
MANAGED = frozenset({"namespace_id", "managed_access"})
"""Properties that the server sets: values from clients are ignored."""


class LocationCannotBeUpdated(BadRequest):
    wire_type = "LocationCannotBeUpdated"


class LocationCannotBeRemoved(BadRequest):
    wire_type = "LocationCannotBeRemoved"


@dataclass(frozen=True, slots=True)
class PropertyChanges:
    """The result of an update: keys that were set, keys that were removed, keys to remove that did not exist."""

    updated: list[str]
    removed: list[str]
    missing: list[str]

    def as_json(self) -> dict[str, list[str]]:
        return {"updated": self.updated, "removed": self.removed, "missing": self.missing}


def create_namespace(
    *,
    actor: Actor,
    warehouse_id: UUID,
    levels: object,
    properties: object,
    idempotency_key: IdempotencyKey | None = None,
) -> Namespace:
    """Create a namespace; its parent must exist. The levels above keep their own spelling.

    Keys of properties may be in any case, as engines and the compatibility kit send them. The property `location` is
    the folder of its tabulars: it must be in the warehouse and in no tabular's folder; the default follows the
    warehouse's layout. Raises `AlreadyExists`, `NoSuchNamespace` for the parent, `InvalidLocation`,
    `LocationAlreadyTaken`.
    """
    checked = require_levels(levels)
    require_not_reserved(checked)
    described = _without_managed(read_properties(properties, "properties"))
    chosen = described.pop(LOCATION, None)
    above = _require_to_create_in(actor, warehouse_id, checked[:-1])
    try:
        with write_transaction():
            # Locked, so that it is not deleted before the namespace exists.
            warehouse = lock_warehouse(warehouse_id)
            if warehouse is None or warehouse.status != Warehouse.Status.ACTIVE:
                raise no_such_warehouse(warehouse_id)
            parent_id, path, above_location = _lock_parent(warehouse_id, checked, above)
            namespace_id = new_id()
            namespace = Namespace.objects.create(
                id=namespace_id,
                warehouse_id=warehouse_id,
                parent_id=parent_id,
                path=path,
                path_key=path_key(checked),
                properties=described,
                location=_location(warehouse, chosen, above_location, checked[-1], namespace_id),
            )
            add_securable(Securable.Type.NAMESPACE, namespace.pk, parent=above)
            granted = grant_creator(actor, OWNERSHIP, ObjectRef(Securable.Type.NAMESPACE, namespace.pk))
            if granted:
                record(
                    Event.GRANT_CREATED, actor=actor, subject=namespace.pk, project=warehouse.project_id,
                    object_type=Securable.Type.NAMESPACE.value, levels=namespace.levels, **granted,
                )  # fmt: skip
            store_response(idempotency_key, namespace.as_json())
    except IntegrityError as error:
        if is_foreign_key_violation(error):
            raise (no_such_namespace(checked[:-1]) if checked[1:] else no_such_warehouse(warehouse_id)) from None
        raise AlreadyExists(f"Namespace already exists: {dotted(checked)}") from None
    return namespace


def require_not_reserved(levels: Levels) -> None:
    """Raises `ReservedNamespace` (400) for names that clients must not create, move or drop."""
    reserved = RESERVED | {name_key(name) for name in settings.ICEKEEPER.reserved_namespaces}
    if path_key(levels[:1]) in reserved:
        raise ReservedNamespace(f"Namespace {levels[0]} is reserved")


def _location(warehouse: Warehouse, chosen: str | None, parent: str | None, name: str, namespace_id: UUID) -> str:
    profile, base = warehouse.storage_profile, warehouse.location
    if chosen is None:
        location = namespace_location(profile, base=base, parent=parent, name=name, namespace_id=namespace_id)
        if location == base:
            return base
    else:
        location = new_location_inside(chosen, base=base, storage_profile=profile)
    location_inside(f"{location}/{namespace_id}", base=base)  # locations of tabulars below it must be valid
    require_outside_tabulars(warehouse=warehouse, location=location)
    return location


def _require_to_create_in(actor: Actor, warehouse_id: UUID, above: Levels) -> ObjectRef:
    """Return the parent, the namespace `above` or the warehouse, after a permission check.

    It runs before anything is locked, so that denied requests block no other client. Raises `NoSuchWarehouse`,
    `NoSuchNamespace`, `Forbidden`.
    """
    if above:
        return ObjectRef(Securable.Type.NAMESPACE, find_namespace_for(actor, Can.CREATE_NAMESPACE, warehouse_id, above))
    require_active(actor, warehouse_id, action=Can.CREATE_NAMESPACE)
    return ObjectRef(Securable.Type.WAREHOUSE, warehouse_id)


def _lock_parent(warehouse_id: UUID, levels: Levels, parent: ObjectRef) -> tuple[UUID | None, str, str | None]:
    """Lock the parent namespace; return its id, the new namespace's path with the parent's spelling, and the parent's
    location. Id and location are None below the warehouse.
    """
    *above, name = levels
    if not above:
        return None, name, None
    # Locked, so that it is not dropped before the child exists.
    parents = Namespace.objects.select_for_update(no_key=True).filter(
        warehouse_id=warehouse_id, path_key=path_key(tuple(above))
    )
    found = parents.filter(pk=str(parent.id)).values_list("pk", "path", "location").first()
    if found is None:  # dropped or moved concurrently
        raise no_such_namespace(tuple(above))
    permission_recheck.recheck()
    parent_id, parent_path, parent_location = found
    return parent_id, f"{parent_path}{LEVEL_SEPARATOR}{name}", parent_location


def update_namespace_properties(
    *,
    actor: Actor,
    warehouse_id: UUID,
    levels: Levels,
    removals: object,
    updates: object,
    idempotency_key: IdempotencyKey | None = None,
) -> PropertyChanges:
    """Merge property changes under the row's lock, so that concurrent changes are not lost.

    Raises `NoSuchNamespace`; `UnprocessableEntity` (422) when a key is in both lists; `LocationCannotBeUpdated` and
    `LocationCannotBeRemoved` (400), as tabulars depend on the location.
    """
    to_set = _without_managed(read_properties(updates, "updates"))
    to_remove = _string_list(removals, "removals")
    both = sorted(to_set.keys() & set(to_remove))
    if both:
        raise UnprocessableEntity(f"Keys are in both updates and removals: {', '.join(both)[:500]}")
    namespace_id = find_namespace_for(actor, Can.UPDATE_PROPERTIES, warehouse_id, levels)
    with write_transaction():
        namespace = _locked(warehouse_id, namespace_id, levels)
        _require_same_location(namespace, to_set, to_remove)
        to_store = {key: value for key, value in to_set.items() if key != LOCATION}
        merged = dict(namespace.properties)
        removed = [key for key in to_remove if merged.pop(key, None) is not None]
        changed = [key for key, value in to_store.items() if merged.get(key) != value]
        merged.update(to_store)
        require_small(merged, "properties")
        if removed or changed:
            namespace.properties = merged
            namespace.version += 1
            namespace.save(update_fields=["properties", "version", "updated_at"])
        missing = [key for key in to_remove if key not in removed]
        changes = PropertyChanges(updated=list(to_set), removed=removed, missing=missing)
        store_response(idempotency_key, changes.as_json())
    return changes


def _require_same_location(namespace: Namespace, to_set: dict[str, str], to_remove: list[str]) -> None:
    if LOCATION in to_remove:
        raise LocationCannotBeRemoved("The location of a namespace cannot be removed")
    wanted = to_set.get(LOCATION)
    if wanted is not None and not _is_location(namespace, wanted):
        raise LocationCannotBeUpdated("The location of a namespace cannot be changed")


def _is_location(namespace: Namespace, spelled: str) -> bool:
    try:
        return normalize(spelled, base=namespace.warehouse.location) == namespace.location
    except InvalidLocation:
        return False


def _without_managed(properties: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if key not in MANAGED}


def drop_namespace(
    *,
    actor: Actor,
    warehouse_id: UUID,
    levels: Levels,
    force: bool = False,
    idempotency_key: IdempotencyKey | None = None,
) -> None:
    """Drop an empty namespace. Soft-deleted tabulars count as its content.

    Raises `NoSuchNamespace`, `ReservedNamespace`, `NamespaceNotEmpty`, `NamespaceProtected` unless `force`.
    """
    require_not_reserved(levels)
    namespace_id = find_namespace_for(actor, Can.DELETE, warehouse_id, levels)
    try:
        with write_transaction():
            namespace = _locked(warehouse_id, namespace_id, levels)
            if namespace.protected and not force:
                raise NamespaceProtected(f"Namespace is protected: {namespace}")
            if Namespace.objects.filter(parent_id=namespace.pk).exists() or _has_tabulars(namespace.pk):
                raise NamespaceNotEmpty(f"Namespace {namespace} is not empty")
            ref = ObjectRef(Securable.Type.NAMESPACE, namespace.pk)
            ended, project = remove_securable(*ref), namespace.warehouse.project_id
            namespace.delete()
            audit_revoked_grants(
                ended, actor=actor, ref=ref, warehouse=warehouse_id, project=project, levels=namespace.levels
            )
            store_response(idempotency_key)
    except (RestrictedError, IntegrityError):
        # Something was moved into it between check and delete: the foreign keys decide.
        raise NamespaceNotEmpty(f"Namespace {dotted(levels)} is not empty") from None


def _has_tabulars(namespace_id: UUID) -> bool:
    return Tabular.objects.filter(namespace_id=namespace_id).exists()


def _locked(warehouse_id: UUID, namespace_id: UUID, levels: Levels) -> Namespace:
    """Lock the namespace that `find_namespace_for` found. Permissions were checked before; they are checked again under
    the lock if rights have changed in the meantime."""
    rows = Namespace.objects.select_for_update(of=("self",)).select_related("warehouse")
    namespace = rows.filter(pk=namespace_id, path_key=path_key(levels)).first()
    if namespace is None:  # dropped or moved concurrently
        raise no_such_namespace(levels)
    if namespace.warehouse.status != Warehouse.Status.ACTIVE:
        raise no_such_warehouse(warehouse_id)
    permission_recheck.recheck()
    return namespace


def find_namespace_for(actor: Actor, action: Can, warehouse_id: UUID, levels: Levels) -> UUID:
    """Return the id of a namespace after a check of `action`, without a lock.

    Raises `NoSuchWarehouse`, `NoSuchNamespace`, `Forbidden`.
    """
    row = fetch_one("default", _FIND, [path_key(levels), warehouse_id])
    if row is None or row[0] != Warehouse.Status.ACTIVE:
        raise no_such_warehouse(warehouse_id)
    missing = no_such_namespace(levels)
    if row[1] is None:
        raise missing
    namespace_id = as_uuid(row[1])
    require_permission(actor, action, Securable.Type.NAMESPACE, namespace_id, missing=missing)
    return namespace_id


_FIND = """
SELECT w.status, n.id
  FROM storage_warehouse w LEFT JOIN catalog_namespace n ON n.warehouse_id = w.id AND n.path_key = %s
 WHERE w.id = %s
"""


def _string_list(value: object, what: str) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise BadRequest(f"{what}: must be a list of strings")
    return list(dict.fromkeys(value))


MAX_PROPERTIES_BYTES = 1_048_576


def read_properties(value: object, what: str) -> dict[str, str]:
    """Read the properties in a request body; null and absent mean none. Raises `BadRequest`."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise BadRequest(f"{what}: must be an object of strings")
    require_small(value, what)
    return value


def require_small(properties: dict[str, str], what: str) -> None:
    """Raises `BadRequest` for properties that are too large together, or contain U+0000, which databases reject."""
    if sum(len(key) + len(value) for key, value in properties.items()) > MAX_PROPERTIES_BYTES:
        raise BadRequest(f"{what}: larger than {MAX_PROPERTIES_BYTES} characters together")
    if any("\x00" in key or "\x00" in value for key, value in properties.items()):
        raise BadRequest(f"{what}: the character U+0000 is not allowed")
