"""Grants of a principal with their objects by the ids that clients know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from catalog.objects.names import client_uuids
from catalog.objects.object_keys import TABULARS
from icekeeper.kernel.http.paging import Page
from storage.models import Warehouse
from tenancy.actor import Actor, Grantee
from tenancy.models import Project, Securable
from tenancy.models.securable import securable_id
from tenancy.selectors.grants import ListedGrant, LocatedGrant, list_grants_of


@dataclass(frozen=True, slots=True)
class GrantedObject:
    """An object by the ids that clients know; `warehouse_id` only of a warehouse and of objects in one."""

    securable_type: Securable.Type
    object_id: str
    warehouse_id: str | None = None


def list_grants_of_for(
    *, actor: Actor, project: Project, grantee: Grantee, page: Page
) -> tuple[list[tuple[ListedGrant, GrantedObject]], str | None]:
    """List the grants of one principal in a project, without objects in inactive warehouses.

    Raises `GrantActionForbidden` (403).
    """

    def inactive_warehouses() -> list[str]:
        rows = Warehouse.objects.filter(project=project).exclude(status=Warehouse.Status.ACTIVE)
        return [securable_id(Securable.Type.WAREHOUSE, pk) for pk in rows.values_list("pk", flat=True)]

    located, token = list_grants_of(
        actor=actor, project=project, grantee=grantee, inactive_warehouses=inactive_warehouses, page=page
    )
    uuids = client_uuids({UUID(str(each.ref.id)) for each in located if each.ref.type in TABULARS})
    found = []
    for each in located:
        granted_on = _granted_object(each, uuids)
        if granted_on is not None:
            found.append((each.grant, granted_on))
    return found, token


def _granted_object(located: LocatedGrant, uuids: Mapping[UUID, UUID]) -> GrantedObject | None:
    """Return None for a tabular that was deleted concurrently."""
    securable_type, object_id = located.ref.type, str(located.ref.id)
    if securable_type in {Securable.Type.PROJECT, Securable.Type.TAG}:
        return GrantedObject(securable_type, object_id)
    if securable_type not in TABULARS:
        return GrantedObject(securable_type, object_id, located.warehouse_id)
    uuid = uuids.get(UUID(object_id))
    return None if uuid is None else GrantedObject(securable_type, str(uuid), located.warehouse_id)
