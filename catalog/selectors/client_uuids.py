"""The two ids of tables, views and generic tables: ours, which rights hang on, and the UUID that clients see.

Dropped ones that can be restored are among them."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from catalog.models import Tabular
from storage.models import Warehouse


def client_uuids(own_ids: Collection[UUID]) -> dict[UUID, UUID]:
    """By our ids, of those that there are. One statement, none where nothing is asked."""
    return dict(Tabular.objects.filter(pk__in=own_ids).values_list("pk", "uuid")) if own_ids else {}


def own_ids_of(client_uuid: UUID, *, project_id: str | None) -> list[UUID]:
    """Ours, in order, of all that have this UUID, of which each warehouse may hold one; with a project in that alone.

    One statement, which looks into the index of each warehouse.
    """
    warehouses = Warehouse.objects.all() if project_id is None else Warehouse.objects.filter(project_id=project_id)
    rows = Tabular.objects.filter(uuid=client_uuid, warehouse__in=warehouses.values("pk"))
    return sorted(rows.values_list("pk", flat=True))
