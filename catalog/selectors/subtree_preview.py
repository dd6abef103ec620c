"""What a recursive drop of a namespace would drop: the namespaces below it and everything in them, up to a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Final, TypeVar
from uuid import UUID

from django.conf import settings

from catalog.errors import no_such_object
from catalog.models import Namespace, Tabular
from catalog.selectors.browse import LocatedNamespace, locate_namespace_for
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import are_allowed, is_allowed, require_permission
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef

MAX_SHOWN: Final = 500
"""Namespaces, and tabulars, that a preview reads and shows; it says when there are more."""


@dataclass(frozen=True, slots=True)
class SubtreePreview:
    """What would be dropped. `namespaces` are those below, without the namespace itself, in the order of their paths.

    Only the first `MAX_SHOWN` of each are read: `has_more_namespaces` and `has_more_tabulars` say that there are more,
    and `hides_some` that objects are left out which the caller may not see. `digest` covers what was read.
    """

    located: LocatedNamespace
    warehouse: Warehouse
    namespaces: list[Namespace]
    tabulars: list[Tabular]
    has_more_namespaces: bool
    has_more_tabulars: bool
    hides_some: bool
    digest: str

    @property
    def is_empty(self) -> bool:
        return not (self.namespaces or self.tabulars or self.hides_some)

    @property
    def has_protected(self) -> bool:
        rows: list[Namespace | Tabular] = [self.located.namespace, *self.namespaces, *self.tabulars]
        return any(row.protected for row in rows)


def preview_subtree_for(*, actor: Actor, warehouse_id: UUID, namespace_id: UUID) -> SubtreePreview:
    """Return what a recursive drop of a namespace would drop. Four statements, at most two permission checks more.

    Raises `NoSuchNamespace`, `Forbidden` without the permission to drop the namespace.
    """
    located = locate_namespace_for(actor=actor, warehouse_id=warehouse_id, namespace_id=namespace_id)
    top = located.namespace
    missing = no_such_object("namespace", namespace_id)
    require_permission(actor, Can.DELETE, Securable.Type.NAMESPACE, top.pk, missing=missing)
    subtree = Namespace.objects.using(settings.READ_DATABASE).in_warehouse(warehouse_id).in_subtree(top.path_key)
    # The namespace itself is one of them; one more row means that there are more.
    rows = list(subtree.defer("properties").order_by("id")[: MAX_SHOWN + 2])
    below = [row for row in rows if row.pk != top.pk][: MAX_SHOWN + 1]
    within = [top.pk, *(row.pk for row in below[:MAX_SHOWN])]
    inside = Tabular.objects.using(settings.READ_DATABASE).filter(namespace_id__in=within)
    tabulars = list(inside.order_by("namespace_id", "kind", "id")[: MAX_SHOWN + 1])
    digest = subtree_digest(top.warehouse, top.pk, [top, *below], tabulars)
    namespaces, shown = below[:MAX_SHOWN], tabulars[:MAX_SHOWN]
    hides_some = False
    if (namespaces or shown) and not is_allowed(actor, Can.LIST_EVERYTHING, Securable.Type.NAMESPACE, top.pk):
        count = len(namespaces) + len(shown)
        namespaces = _visible(actor, namespaces, lambda row: ObjectRef(Securable.Type.NAMESPACE, row.pk))
        shown = _visible(actor, shown, lambda row: ObjectRef(Securable.Type(row.kind), row.pk))
        hides_some = len(namespaces) + len(shown) < count
    return SubtreePreview(
        located,
        top.warehouse,
        sorted(namespaces, key=lambda row: row.path_key),
        sorted(shown, key=lambda row: (row.name_key, row.deleted_at is not None, row.pk)),
        has_more_namespaces=len(below) > MAX_SHOWN,
        has_more_tabulars=len(tabulars) > MAX_SHOWN,
        hides_some=hides_some,
        digest=digest,
    )


def subtree_digest(
    warehouse: Warehouse, top_id: UUID, namespaces: Iterable[Namespace], tabulars: Iterable[Tabular]
) -> str:
    """Return the digest of what a preview reads of these, which may be more: the first `MAX_SHOWN`, and if there are
    more."""
    by_id = sorted(namespaces, key=lambda row: row.pk)
    top = next(row for row in by_id if row.pk == top_id)
    below = list(islice((row for row in by_id if row.pk != top_id), MAX_SHOWN + 1))
    within = {top_id, *(row.pk for row in below[:MAX_SHOWN])}
    inside = sorted(
        (row for row in tabulars if row.namespace_id in within), key=lambda row: (row.namespace_id, row.kind, row.pk)
    )[: MAX_SHOWN + 1]
    shown = (
        warehouse.has_soft_delete,
        [(str(row.pk), row.path, row.protected) for row in (top, *below)],
        [(str(row.pk), row.name, row.protected, row.deleted_at is not None) for row in inside],
    )
    return sha256(repr(shown).encode()).hexdigest()


Row = TypeVar("Row", Namespace, Tabular)


def _visible(actor: Actor, rows: Sequence[Row], ref: Callable[[Row], ObjectRef]) -> list[Row]:
    allowed = are_allowed(actor, Can.INCLUDE_IN_LIST, [ref(row) for row in rows])
    return [row for row, is_shown in zip(rows, allowed, strict=True) if is_shown]
