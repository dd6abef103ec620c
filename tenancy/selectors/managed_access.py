from __future__ import annotations

from dataclasses import dataclass

from icekeeper.kernel.errors import CatalogError
from tenancy.actor import Actor
from tenancy.authz.securables import Ref, securable_id
from tenancy.models import Securable
from tenancy.selectors.allowed_actions import require_known


@dataclass(frozen=True, slots=True)
class ManagedAccess:
    """Whether it is set on the object itself, and whether it counts there: set on the object or on what it lies in."""

    is_set: bool
    is_in_force: bool


def get_managed_access_for(*, actor: Actor, ref: Ref, missing: CatalogError) -> ManagedAccess:
    """Of a warehouse or a namespace. Raises `missing` for who may not know of it. Two statements."""
    require_known(actor, ref, missing)
    on = Securable.objects.filter(pk=securable_id(*ref)).first()
    if on is None:
        raise missing
    path = on.path.rstrip("/").split("/")
    return ManagedAccess(on.managed_access, Securable.objects.filter(pk__in=path, managed_access=True).exists())
