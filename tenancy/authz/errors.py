"""Error responses for denied requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from icekeeper.kernel.errors.types import CatalogError, Forbidden
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_denial
from tenancy.authz.actions import Can
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

Missing = CatalogError | Callable[[], CatalogError] | None
"""The error for an object that does not exist, or a function that builds it; hot paths build it only when needed."""


class AuthorizationBackendError(CatalogError):
    """The authorization backend is unavailable, so every check is denied."""

    status, wire_type, retry_after = 503, "AuthorizationBackendError", 5


class ServerActionForbidden(Forbidden):
    wire_type = "ServerActionForbidden"


class ProjectActionForbidden(Forbidden):
    wire_type = "ProjectActionForbidden"


class WarehouseActionForbidden(Forbidden):
    wire_type = "WarehouseActionForbidden"


class NamespaceActionForbidden(Forbidden):
    wire_type = "NamespaceActionForbidden"


class TableActionForbidden(Forbidden):
    wire_type = "TableActionForbidden"


class ViewActionForbidden(Forbidden):
    wire_type = "ViewActionForbidden"


class GenericTableActionForbidden(Forbidden):
    wire_type = "GenericTableActionForbidden"


class RoleActionForbidden(Forbidden):
    wire_type = "RoleActionForbidden"


class TagActionForbidden(Forbidden):
    wire_type = "TagActionForbidden"


class UserActionForbidden(Forbidden):
    wire_type = "UserActionForbidden"


class GrantActionForbidden(Forbidden):
    wire_type = "GrantActionForbidden"


_ERRORS: dict[Securable.Type, type[Forbidden]] = {
    Securable.Type.SERVER: ServerActionForbidden,
    Securable.Type.PROJECT: ProjectActionForbidden,
    Securable.Type.WAREHOUSE: WarehouseActionForbidden,
    Securable.Type.NAMESPACE: NamespaceActionForbidden,
    Securable.Type.TABLE: TableActionForbidden,
    Securable.Type.VIEW: ViewActionForbidden,
    Securable.Type.GENERIC_TABLE: GenericTableActionForbidden,
    Securable.Type.ROLE: RoleActionForbidden,
    Securable.Type.TAG: TagActionForbidden,
    Securable.Type.USER: UserActionForbidden,
}


_TABULARS: Final = frozenset({Securable.Type.TABLE, Securable.Type.VIEW, Securable.Type.GENERIC_TABLE})
"""Types whose id in the API differs from the id of the securable."""


def build_missing(missing: Missing) -> CatalogError | None:
    return missing() if callable(missing) else missing


def display_name(ref: ObjectRef, missing: CatalogError | None) -> str:
    """Return how messages name an object: as the caller named it (`missing.about`), never by an internal id."""
    if missing is not None and missing.about is not None:
        return missing.about
    securable_type, object_id = ref
    return f"this {securable_type}" if securable_type in _TABULARS else f"{securable_type} {object_id}"


def deny_as_missing(actor: Actor, action: Can, ref: ObjectRef, missing: CatalogError) -> CatalogError:
    """Return `missing`, because the object is hidden from the actor, and audit the denial with its true reason."""
    record_denial(actor=actor, action=action, object_type=ref.type.value, object_id=ref.id, reason="CannotSeeResource")
    return missing


def action_forbidden(actor: Actor, action: Can, ref: ObjectRef, missing: CatalogError | None = None) -> Forbidden:
    """Return the error to raise, and audit the denial. `missing` is the error for an object that does not exist."""
    securable_type, object_id = ref
    record_denial(actor=actor, action=action, object_type=securable_type.value, object_id=object_id)
    return _ERRORS[securable_type](f"{actor.name} may not {action} on {display_name(ref, missing)}")
