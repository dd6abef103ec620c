"""What was dropped in a soft-delete warehouse and can still be restored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import F, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from catalog.identifiers import Levels
from catalog.models import Tabular
from catalog.selectors.candidates import candidate_tabulars
from catalog.selectors.visible_pages import batch_size, open_page_token, scan_visible, seal_page_token
from catalog.selectors.warehouses import namespace_key_for, require_on_warehouse
from icekeeper.kernel.http.paging import MIN_ID, Page
from tasks.models import Task
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import action_forbidden, visible_objects
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef


@dataclass(frozen=True, slots=True)
class DeletedTabular:
    """`uuid` is the id that clients see. After `expires_at` it may be deleted permanently at any time."""

    id: UUID
    kind: str
    uuid: UUID
    name: str
    levels: Levels
    created_at: datetime
    deleted_at: datetime
    expires_at: datetime


def list_deleted_tabulars_for(
    *, actor: Actor, warehouse_id: UUID, namespace_id: UUID | None, page: Page
) -> tuple[list[DeletedTabular], str | None]:
    """In order of creation, and the next page's token; `namespace_id` None: of all namespaces.

    Pages are full while there are items, except for callers whose visible items are among more than `MAX_SCANNED`.

    Raises `NoSuchWarehouse`, `NoSuchNamespace` when `namespace_id` is none of the warehouse's, `Forbidden`.
    """
    may_list, sees_everything = require_on_warehouse(
        actor, warehouse_id, Can.USE, [Can.LIST_DELETED_TABULARS, Can.LIST_EVERYTHING]
    )
    if not may_list:
        raise action_forbidden(actor, Can.LIST_DELETED_TABULARS, ObjectRef(Securable.Type.WAREHOUSE, warehouse_id))
    if namespace_id is not None:
        namespace_key_for(actor, warehouse_id, namespace_id)
    after = MIN_ID
    if page.token:
        (after_text,) = open_page_token(page.token, page.kind)
        after = UUID(after_text)
    visible = None if sees_everything else visible_objects(actor)
    size = batch_size(page, visible, sees_everything=sees_everything)
    dropped = Tabular.objects.using(settings.READ_DATABASE).in_warehouse(warehouse_id).dropped()
    dropped = dropped.filter(candidate_tabulars(visible))
    found = scan_visible(
        actor=actor,
        batches=_batches(dropped if namespace_id is None else dropped.filter(namespace_id=namespace_id), after, size),
        ref=lambda item: ObjectRef(Securable.Type(item.kind), item.id),
        sees_everything=sees_everything,
        wanted=page.sql_limit,
    )
    shown, cursor = found.truncated(page.size)
    return shown, None if cursor is None else seal_page_token(page.kind, str(cursor.id))


def _batches(dropped: QuerySet[Any], after: UUID, size: int) -> Iterator[list[DeletedTabular]]:
    expiration = Task.objects.live().filter(
        queue=Task.Queue.SOFT_DELETION, warehouse_id=OuterRef("warehouse_id"), entity_id=OuterRef("pk")
    )
    rows: QuerySet[Any] = (
        dropped.annotate(expires_at=Coalesce(Subquery(expiration.values("scheduled_for")[:1]), F("deleted_at")))
        .select_related("namespace")
        .only("kind", "uuid", "name", "created_at", "deleted_at", "namespace__path")
        .order_by("pk")
    )
    while True:
        found = [
            DeletedTabular(
                id=row.pk,
                kind=row.kind,
                uuid=row.uuid,
                name=row.name,
                levels=row.namespace.levels,
                created_at=row.created_at,
                deleted_at=row.deleted_at,
                expires_at=row.expires_at,
            )
            for row in rows.filter(pk__gt=after)[:size]
            if row.deleted_at is not None
        ]
        yield found
        if len(found) < size:
            return
        after = found[-1].id
