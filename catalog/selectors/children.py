"""The objects directly in a namespace or in a warehouse, in the order of their names, for the console.

The lists of the APIs are in order of creation: `catalog.selectors.namespaces`, `catalog.selectors.tables`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django.db.models.functions import Substr

from catalog.errors import no_such_object
from catalog.models import Namespace, Tabular
from catalog.selectors.browse import NAMESPACE
from catalog.selectors.candidates import candidate_namespaces, candidate_tabulars
from catalog.selectors.visible_pages import (
    LONG_PLAIN_BYTES,
    batch_size,
    open_page_token,
    scan_visible,
    seal_page_token,
)
from icekeeper.kernel.db.sql import as_uuid, fetch_planned_rows
from icekeeper.kernel.http.paging import Page, listing_key
from icekeeper.kernel.names import LEVEL_SEPARATOR, lookup_key
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import SEEN_BY, Can
from tenancy.authz.permissions import require_permission_and_check, visible_objects
from tenancy.authz.port import VisibleObjects
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

LISTED_BY: Final = {
    NAMESPACE: Can.LIST_NAMESPACES,
    Tabular.Kind.TABLE.value: Can.LIST_TABLES,
    Tabular.Kind.VIEW.value: Can.LIST_VIEWS,
    Tabular.Kind.GENERIC_TABLE.value: Can.LIST_GENERIC_TABLES,
}
"""By kind, the action on the parent that lists it."""


@dataclass(frozen=True, slots=True)
class Child:
    """An object directly below another one: a namespace or a tabular, by `kind`. `id` is the id that clients see."""

    kind: str
    id: UUID
    name: str
    is_protected: bool = False


class ChildRow(NamedTuple):
    """A child with its own id and its key. Children are in the order of `part` and key: namespaces (0), tabulars (1).

    Keys of one part are compared by the database only.
    """

    part: int
    kind: str
    id: UUID
    uuid: UUID
    name: str
    key: str
    is_protected: bool

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef(Securable.Type(self.kind), self.id)

    def child(self) -> Child:
        return Child(self.kind, self.uuid, self.name, self.is_protected)


def kinds_in(parent: ObjectRef) -> list[str]:
    return [NAMESPACE] if parent.type is Securable.Type.WAREHOUSE else list(LISTED_BY)


def list_children_for(
    *, actor: Actor, warehouse_id: UUID, namespace_id: UUID | None, page: Page, part_of_name: str = ""
) -> tuple[list[Child], str | None]:
    """List what is directly in a namespace, or in a warehouse (`namespace_id` None), and the token of the next page.

    Namespaces come first, then tables, views and generic tables, in the order of their names; with `part_of_name` only
    those whose name contains it, without regard to case. What the caller is not allowed to list is left out. Pages are
    full while there are items, except for callers whose visible items are among more than `MAX_SCANNED`. Raises
    `NoSuchWarehouse`, `NoSuchNamespace`, `InvalidPageToken`.
    """
    parent, above = _read_parent(warehouse_id, namespace_id)
    missing = no_such_warehouse(warehouse_id) if namespace_id is None else no_such_object(NAMESPACE, namespace_id)
    if above is None:
        raise missing
    kinds = kinds_in(parent)
    actions = [Can.LIST_EVERYTHING, *(LISTED_BY[kind] for kind in kinds)]
    sees_everything, *are_listed = require_permission_and_check(
        actor, SEEN_BY[parent.type], parent, actions, missing=missing
    )
    visible = None if sees_everything else visible_objects(actor)
    siblings = _Siblings(
        warehouse_id, parent, above, lookup_key(part_of_name), visible,
        [kind for kind, is_listed in zip(kinds, are_listed, strict=True) if is_listed],
    )  # fmt: skip
    after = 0, ""
    if page.token:
        part, key = open_page_token(page.token, _token_kind(page, parent, siblings.needle))
        after = int(part), key
    found = scan_visible(
        actor=actor,
        batches=siblings.batches(after, batch_size(page, visible, sees_everything=sees_everything)),
        ref=lambda row: row.ref,
        sees_everything=sees_everything,
        wanted=page.sql_limit,
    )
    shown, cursor = found.truncated(page.size)
    token = None if cursor is None else child_token(page, parent, cursor, needle=siblings.needle)
    return [row.child() for row in shown], token


def child_token(page: Page, parent: ObjectRef, last: ChildRow, *, needle: str = "") -> str:
    """Return the token that continues a list of `list_children_for` after `last`, which may be hidden from the caller.

    `needle` is the key of `part_of_name`.
    """
    kind = _token_kind(page, parent, needle)
    return seal_page_token(kind, str(last.part), last.key, plain_bytes=LONG_PLAIN_BYTES)


def _token_kind(page: Page, parent: ObjectRef, needle: str) -> str:
    return listing_key(page.kind, parent.type.value, str(parent.id), needle)


def _read_parent(warehouse_id: UUID, namespace_id: UUID | None) -> tuple[ObjectRef, str | None]:
    """Return the parent, and the prefix of the path keys of its namespaces; None without it in an active warehouse."""
    if namespace_id is None:
        warehouses = Warehouse.objects.using(settings.READ_DATABASE).filter(status=Warehouse.Status.ACTIVE)
        is_there = warehouses.filter(pk=warehouse_id).exists()
        return ObjectRef(Securable.Type.WAREHOUSE, warehouse_id), "" if is_there else None
    rows = Namespace.objects.using(settings.READ_DATABASE).in_warehouse(warehouse_id).filter(pk=namespace_id)
    key = rows.filter(warehouse__status=Warehouse.Status.ACTIVE).values_list("path_key", flat=True).first()
    return ObjectRef(Securable.Type.NAMESPACE, namespace_id), None if key is None else f"{key}{LEVEL_SEPARATOR}"


@dataclass(frozen=True, slots=True)
class _Siblings:
    """The children of `parent` of some kinds whose key contains `needle`, without those that are not in `visible`.

    `above` is the prefix of the path keys of its namespaces.
    """

    warehouse_id: UUID
    parent: ObjectRef
    above: str
    needle: str
    visible: VisibleObjects | None
    kinds: Collection[str]

    def batches(self, after: tuple[int, str], size: int) -> Iterator[list[ChildRow]]:
        """Yield the rows after a part and key, `size` in a batch; no empty batch."""
        first, key = after
        for part, read in enumerate((self._namespaces, self._tabulars)):
            if part < first:
                continue
            last_key = key if part == first else ""
            while True:
                found = read(last_key, size)
                if found:
                    yield found
                if len(found) < size:
                    break
                last_key = found[-1].key

    def _namespaces(self, after: str, size: int) -> list[ChildRow]:
        if NAMESPACE not in self.kinds:
            return []
        # The warehouse is part of the index `namespace_by_name`.
        rows: QuerySet[Any] = Namespace.objects.using(settings.READ_DATABASE).in_warehouse(self.warehouse_id)
        if self.parent.type is Securable.Type.WAREHOUSE:
            rows = rows.filter(parent_id__isnull=True)
        else:
            rows = rows.filter(parent_id=self.parent.id)
        if self.needle:
            rows = rows.annotate(own_key=Substr("path_key", len(self.above) + 1)).filter(own_key__contains=self.needle)
        rows = rows.filter(candidate_namespaces(self.visible), path_key__gt=f"{self.above}{after}")
        columns = rows.order_by("parent_id", "path_key").values_list("pk", "path", "path_key", "protected")
        return [
            ChildRow(
                0, NAMESPACE, as_uuid(own_id), as_uuid(own_id), path.rpartition(LEVEL_SEPARATOR)[2],
                path_key.removeprefix(self.above), bool(protected),
            )
            for own_id, path, path_key, protected in fetch_planned_rows(columns[:size])
        ]  # fmt: skip

    def _tabulars(self, after: str, size: int) -> list[ChildRow]:
        kinds = [kind for kind in self.kinds if kind != NAMESPACE]
        if not kinds:
            return []
        rows: QuerySet[Any] = Tabular.objects.using(settings.READ_DATABASE).live().of_kind(*kinds)
        rows = rows.filter(candidate_tabulars(self.visible), namespace_id=self.parent.id, name_key__gt=after)
        if self.needle:
            rows = rows.filter(name_key__contains=self.needle)
        columns = rows.order_by("namespace_id", "name_key").values_list(
            "kind", "pk", "uuid", "name", "name_key", "protected"
        )
        return [
            ChildRow(1, kind, as_uuid(own_id), as_uuid(uuid), name, key, bool(protected))
            for kind, own_id, uuid, name, key, protected in fetch_planned_rows(columns[:size])
        ]
