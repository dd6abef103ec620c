"""Creation of namespaces."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError

from catalog.errors import ReservedNamespace, no_such_namespace
from catalog.identifiers import Levels, dotted, require_levels
from catalog.models import Namespace
from catalog.selectors.namespaces import find_namespace_for
from catalog.selectors.warehouses import require_active
from catalog.services.approval.approve import require_approval
from catalog.services.approval.port import ChangeAction
from catalog.services.approval.proposals import propose_namespace
from catalog.services.approval.rule_set import recent_rules_version
from catalog.services.idempotency import IdempotencyKey
from catalog.services.locations.claims import lock_warehouse, require_outside_tabulars
from catalog.services.namespaces.properties import LOCATION, read_properties, without_managed
from icekeeper.kernel import request_context
from icekeeper.kernel.db.sql import as_uuid
from icekeeper.kernel.db.transactions import is_foreign_key_violation
from icekeeper.kernel.errors.types import (
    AlreadyExists,
)
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import LEVEL_SEPARATOR, name_key, path_key
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from storage.profiles.location import location_inside, namespace_location, new_location_inside
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.model import OWNERSHIP
from tenancy.authz.securables import add_securable
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.services.automatic_grants import grant_creator

RESERVED = frozenset({"system", "examples", "information_schema"})


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
    `LocationAlreadyTaken`, `ContractViolation` (409).
    """
    new = _read_request(levels, properties)
    above = _require_to_create_in(actor, warehouse_id, new.levels[:-1])
    parent_id = as_uuid(above.id) if above.type is Securable.Type.NAMESPACE else None
    require_approval(
        recent_rules_version(),
        lambda: [
            propose_namespace(
                ChangeAction.CREATE, actor, warehouse_id, new.levels, namespace_id=None, parent_id=parent_id,
                properties=lambda _: new.properties,
            )
        ],
        warehouse_id=warehouse_id,
    )  # fmt: skip
    return _insert(actor, warehouse_id, new, above, idempotency_key)


def create_unapproved_namespace(*, actor: Actor, warehouse_id: UUID, levels: object, properties: object) -> Namespace:
    """Do what `create_namespace` does without asking the rules: for dry runs, which are rolled back."""
    new = _read_request(levels, properties)
    return _insert(actor, warehouse_id, new, _require_to_create_in(actor, warehouse_id, new.levels[:-1]), None)


@dataclass(frozen=True, slots=True)
class _NewNamespace:
    """A valid request; `location` is the chosen one."""

    levels: Levels
    properties: dict[str, str]
    location: str | None


def _read_request(levels: object, properties: object) -> _NewNamespace:
    checked = require_levels(levels)
    require_not_reserved(checked)
    described = without_managed(read_properties(properties, "properties"))
    chosen = described.pop(LOCATION, None)
    return _NewNamespace(checked, described, chosen)


def _insert(
    actor: Actor,
    warehouse_id: UUID,
    new: _NewNamespace,
    above: ObjectRef,
    idempotency_key: IdempotencyKey | None,
) -> Namespace:
    checked = new.levels
    try:
        with change(actor, idempotency_key) as tx:
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
                properties=new.properties,
                location=_location(warehouse, new.location, above_location, checked[-1], namespace_id),
            )
            add_securable(Securable.Type.NAMESPACE, namespace.pk, parent=above)
            granted = grant_creator(actor, OWNERSHIP, ObjectRef(Securable.Type.NAMESPACE, namespace.pk))
            tx.record(
                Change.NAMESPACE_CREATED, subject=namespace.pk, project=warehouse.project_id, warehouse=warehouse_id,
                levels=namespace.levels, **granted,
            )  # fmt: skip
            tx.result = namespace.as_json()
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
    require_active(actor, Can.CREATE_NAMESPACE, warehouse_id)
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
    request_context.recheck_permissions()
    parent_id, parent_path, parent_location = found
    return parent_id, f"{parent_path}{LEVEL_SEPARATOR}{name}", parent_location
