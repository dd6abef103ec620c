"""Which views say who owns them: for operators, before an engine is trusted and ever after."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from catalog.models import Tabular, TabularMetadata
from icekeeper.kernel.json.strict import read_stored_json
from tenancy.models import User

AT_ONCE = 200
"""Documents in memory."""


@dataclass(frozen=True, slots=True)
class OwnedView:
    """`owner` is what the view says in `property_name`; `users` are the ids of those it may mean, who may come in.

    `is_exact` is False for a property that is spelled otherwise: it means nothing, but readers may be confused by it.
    """

    warehouse: str
    identifier: str
    property_name: str
    owner: str
    users: tuple[str, ...]
    is_exact: bool
    is_dropped: bool


def list_owned_views(properties: Collection[str]) -> Iterator[OwnedView]:
    """Every view of the server with one of `properties` in any case of its letters, dropped ones that may come back
    included. Views whose metadata is not in the database are passed over: they have no owner for anybody."""
    folded = {name.casefold() for name in properties}
    rows = TabularMetadata.objects.filter(tabular__kind=Tabular.Kind.VIEW, document__isnull=False)
    rows = rows.select_related("tabular__namespace", "tabular__warehouse").order_by("tabular_id")
    for row in rows.iterator(chunk_size=AT_ONCE):
        view = row.tabular
        for name, owner in sorted(read_stored_json(bytes(row.document or b"{}"))["properties"].items()):
            if name.casefold() not in folded:
                continue
            yield OwnedView(
                warehouse=view.warehouse.name,
                identifier=".".join((*view.namespace.levels, view.name)),
                property_name=name,
                owner=owner,
                users=_users(owner),
                is_exact=name in properties,
                is_dropped=view.deleted_at is not None,
            )


def _users(owner: str) -> tuple[str, ...]:
    """Of any provider: which one it is depends on the token of the engine that reads."""
    if not owner or "\x00" in owner:
        return ()
    named = User.objects.filter(id__endswith=f"~{owner}", is_active=True, deleted_at__isnull=True).order_by("id")
    return tuple(each for each in named.values_list("id", flat=True) if each.partition("~")[2] == owner)
