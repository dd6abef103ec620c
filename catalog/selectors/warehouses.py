"""Look-up of warehouses by name or id, with the permission check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings

from catalog.errors import no_such_object
from catalog.models import Namespace
from icekeeper.kernel.db.sql import as_uuid, fetch_one
from icekeeper.kernel.errors.types import BadRequest, CatalogError, NoSuchWarehouse
from icekeeper.kernel.json.strict import read_stored_json
from icekeeper.kernel.names import name_key
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can, reads_grants
from tenancy.authz.permissions import check_permissions, is_allowed, require_permission, require_permission_and_check
from tenancy.authz.port import NO_OBJECT
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import is_project_id

_FIND = """
SELECT id, CAST(storage_profile AS text), CAST(delete_profile AS text)
  FROM storage_warehouse
 WHERE project_id = %s AND name_key = %s AND status = 'active'
"""


class WarehouseNotGiven(BadRequest):
    wire_type = "GetConfigNoWarehouseProvided"


def require_active(actor: Actor, action: Can, warehouse_id: UUID) -> None:
    """Raises `NoSuchWarehouse` (404) for one that is missing or inactive, or that `actor` may not see; `Forbidden`."""
    missing = no_such_warehouse(warehouse_id)
    if not Warehouse.objects.filter(pk=warehouse_id, status=Warehouse.Status.ACTIVE).exists():
        raise missing
    require_permission(actor, action, Securable.Type.WAREHOUSE, warehouse_id, missing=missing)


def namespace_key_for(actor: Actor, warehouse_id: UUID, namespace_id: UUID) -> str:
    """The path key of a namespace that `actor` may see. Raises `NoSuchNamespace`."""
    rows = Namespace.objects.using(settings.READ_DATABASE).in_warehouse(warehouse_id).filter(pk=namespace_id)
    key: str | None = rows.values_list("path_key", flat=True).first()
    missing = no_such_object("namespace", namespace_id)
    if key is None:
        raise missing
    require_permission(actor, Can.GET_METADATA, Securable.Type.NAMESPACE, namespace_id, missing=missing)
    return key


def conceal_warehouse(actor: Actor, warehouse_id: UUID, error: CatalogError) -> CatalogError:
    """Return the error to send to `actor` when a request for an object in a warehouse raised `error`.

    In a warehouse that is hidden from the caller every "not found" becomes "no such warehouse". Permissions are checked
    only for "not found" errors (404).
    """
    if error.status != NoSuchWarehouse.status:
        return error
    ref: ObjectRef = ObjectRef(Securable.Type.WAREHOUSE, warehouse_id)
    # Callers who manage its grants know the warehouse, too.
    if any(check_permissions(actor, [(Can.USE, ref), (reads_grants(ref), ref)])):
        return error
    return no_such_warehouse(warehouse_id)


@dataclass(frozen=True, slots=True)
class FoundWarehouse:
    """The parts of a warehouse that clients see; both profiles as stored."""

    id: UUID
    storage_profile: dict[str, Any]
    delete_profile: dict[str, Any]


def find_warehouse_for(*, actor: Actor, argument: str | None, project_id: str | None) -> FoundWarehouse:
    """Find the active warehouse that a client names as `<name>` or `<project id>/<name>`.

    The project of the argument wins over `project_id`, the request's own. Raises `NoSuchWarehouse` (404).
    """
    if not argument:
        raise WarehouseNotGiven("The query parameter warehouse is required")
    left, slash, right = argument.partition("/")
    if slash and is_project_id(left):
        project_id, name = left, right
    else:
        name = argument
    row = None
    if project_id is not None and "\x00" not in name:
        row = fetch_one(settings.READ_DATABASE, _FIND, [project_id, name_key(name)])
    missing = NoSuchWarehouse(f"Warehouse does not exist: {name[:200]}")
    if row is None:
        # Raises when the authorizer cannot be reached, as for a warehouse that is hidden from the caller.
        is_allowed(actor, Can.GET_CONFIG, Securable.Type.WAREHOUSE, NO_OBJECT)
        raise missing
    stored_id, storage_profile, delete_profile = row
    warehouse_id = as_uuid(stored_id)
    require_permission(actor, Can.GET_CONFIG, Securable.Type.WAREHOUSE, warehouse_id, missing=missing)
    return FoundWarehouse(warehouse_id, read_stored_json(storage_profile), read_stored_json(delete_profile))


def require_on_warehouse(actor: Actor, warehouse_id: UUID, action: Can, more: Sequence[Can] = ()) -> list[bool]:
    """Require `action` on a warehouse, active or not, and return whether each of `more` is allowed.

    One call to the authorizer. Raises `NoSuchWarehouse`, `Forbidden`.
    """
    missing = no_such_warehouse(warehouse_id)
    if not Warehouse.objects.using(settings.READ_DATABASE).filter(pk=warehouse_id).exists():
        raise missing
    return require_permission_and_check(
        actor, action, ObjectRef(Securable.Type.WAREHOUSE, warehouse_id), more, missing=missing
    )
