from __future__ import annotations

from dataclasses import dataclass

from icekeeper.kernel.errors.types import CatalogError
from tenancy.actor import Actor
from tenancy.models import Securable
from tenancy.refs import ObjectRef, securable_id
from tenancy.selectors.allowed_actions import require_known


@dataclass(frozen=True, slots=True)
class ManagedAccess:
    """Whether it is set on the object itself, and whether it counts there: set on the object or on what it lies in."""

    is_set: bool
    is_in_force: bool


def get_managed_access_for(*, actor: Actor, ref: ObjectRef, missing: CatalogError) -> ManagedAccess:
    """Of a warehouse or a namespace. Raises `missing` for who may not know of it. Two statements."""
    require_known(actor, ref, missing)
    on = Securable.objects.filter(pk=securable_id(*ref)).first()
    if on is None:
        raise missing
    return ManagedAccess(on.managed_access, _is_in_force(on.path))


def is_access_managed(ref: ObjectRef) -> bool:
    """Whether managed access counts on what lies in a warehouse or a namespace."""
    path = Securable.objects.filter(pk=securable_id(*ref)).values_list("path", flat=True).first()
    return path is not None and _is_in_force(path)


def _is_in_force(path: str) -> bool:
    return Securable.objects.filter(pk__in=path.rstrip("/").split("/"), managed_access=True).exists()
