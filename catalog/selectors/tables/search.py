"""Tables, views and generic tables that are called about so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from uuid import UUID

from django.conf import settings

from catalog.identifiers import Levels
from catalog.models import Tabular
from catalog.selectors.sealed_page_tokens import open_page_token, seal_page_token
from catalog.selectors.tables.similar_names import BEGINNING, EVERYWHERE, Among, Below, Place, alike, with_id
from catalog.selectors.visibility import AT_ONCE, filter_visible
from catalog.selectors.warehouses import namespace_key_for, require_on_warehouse
from icekeeper.kernel.http.paging import Page
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.names import name_key
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.models import Securable
from tenancy.refs import ObjectRef
from tenancy.selectors.similarity import MAX_SEARCH_LENGTH


@dataclass(frozen=True, slots=True)
class Wanted:
    """`namespace_id`: only in that one and below it."""

    search: str
    kinds: Sequence[Tabular.Kind] = tuple(Tabular.Kind)
    namespace_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class FoundTabular:
    """`uuid` is the id that clients see; `distance` from 0, the very name, to 1; None for what was found by an id."""

    kind: str
    uuid: UUID
    name: str
    levels: Levels
    distance: float | None


def search_tabulars_for(
    *, actor: Actor, warehouse_id: UUID, wanted: Wanted, page: Page
) -> tuple[list[FoundTabular], str | None]:
    """What has any trigram of its name in common with `wanted.search`, the best first, and the next page's token.

    A page is full as long as there are any, but for who must be looked for among more than `MAX_SCANNED`.
    A UUID finds the tabular that has it, and those right in the namespace that has it.
    Raises `NoSuchWarehouse`, `NoSuchNamespace` when `wanted.namespace_id` is none of the warehouse's, `Forbidden`.
    """
    (sees_everything,) = require_on_warehouse(actor, warehouse_id, Can.USE, [Can.LIST_EVERYTHING])
    among = Among(warehouse_id, [kind.value for kind in wanted.kinds], _below(actor, warehouse_id, wanted.namespace_id))
    after = _behind(page)
    search = wanted.search[:MAX_SEARCH_LENGTH]
    uuid = parse_id(search)
    if uuid is not None:
        places = with_id(uuid, among)
    else:
        places = alike(name_key(search), among, after=after, limit=page.sql_limit if sees_everything else None)
    shown = filter_visible(
        actor=actor,
        batches=_batches(place for place in places if place > after),
        ref=lambda place: ObjectRef(Securable.Type(place.kind), place.id),
        sees_everything=sees_everything,
        wanted=page.sql_limit,
    )
    found, cursor = shown.truncated(page.size)
    token = None if cursor is None else seal_page_token(page.kind, repr(cursor.similarity), str(cursor.id))
    return _described(found, by_id=uuid is not None), token


def _behind(page: Page) -> Place:
    if not page.token:
        return BEGINNING
    similarity, tabular_id = open_page_token(page.token, page.kind)
    return Place.last_with(float(similarity), UUID(tabular_id))


def _below(actor: Actor, warehouse_id: UUID, namespace_id: UUID | None) -> Below:
    return EVERYWHERE if namespace_id is None else Below.of(namespace_key_for(actor, warehouse_id, namespace_id))


def _batches(places: Iterator[Place]) -> Iterator[list[Place]]:
    while batch := list(islice(places, AT_ONCE)):
        yield batch


def _described(places: Sequence[Place], *, by_id: bool) -> list[FoundTabular]:
    """In the order of `places`; what is gone in between is left out."""
    ids = [place.id for place in places]
    rows = Tabular.objects.using(settings.READ_DATABASE).filter(pk__in=ids, deleted_at__isnull=True)
    found = {row.pk: row for row in rows.select_related("namespace").only("kind", "uuid", "name", "namespace__path")}
    return [
        FoundTabular(
            kind=row.kind,
            uuid=row.uuid,
            name=row.name,
            levels=row.namespace.levels,
            distance=None if by_id else round(1 - place.similarity, 6),
        )
        for place in places
        if (row := found.get(place.id)) is not None
    ]
