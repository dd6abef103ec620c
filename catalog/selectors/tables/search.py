"""Fuzzy search of tables, views and generic tables by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from uuid import UUID

from django.conf import settings

from catalog.identifiers import Levels
from catalog.models import Tabular
from catalog.selectors.sealed_page_tokens import open_page_token, seal_page_token
from catalog.selectors.tables.similar_names import (
    BEGINNING,
    EVERYWHERE,
    Among,
    Below,
    Match,
    find_by_id,
    find_similar,
)
from catalog.selectors.visibility import BATCH_SIZE, filter_visible
from catalog.selectors.warehouses import namespace_key_for, require_on_warehouse
from icekeeper.kernel.http.paging import Page
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.names import name_key
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.similarity import MAX_SEARCH_LENGTH


@dataclass(frozen=True, slots=True)
class Wanted:
    """A search text with its filters. `namespace_id` limits the search to that namespace and those below it."""

    search: str
    kinds: Sequence[Tabular.Kind] = tuple(Tabular.Kind)
    namespace_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class FoundTabular:
    """A match. `uuid` is the id that clients see; `distance` is 0 for the exact name, up to 1, and None for an id."""

    kind: str
    uuid: UUID
    name: str
    levels: Levels
    distance: float | None


def search_tabulars_for(
    *, actor: Actor, warehouse_id: UUID, wanted: Wanted, page: Page
) -> tuple[list[FoundTabular], str | None]:
    """List tabulars whose name shares a trigram with `wanted.search`, best match first, and the next page's token.

    Pages are full while there are matches, except for callers whose visible tabulars are among more than
    `MAX_SCANNED`. A UUID finds the tabular with that id, and those directly in the namespace with that id.
    Raises `NoSuchWarehouse`, `NoSuchNamespace` when `wanted.namespace_id` is not in the warehouse, `Forbidden`.
    """
    (sees_everything,) = require_on_warehouse(actor, warehouse_id, Can.USE, [Can.LIST_EVERYTHING])
    among = Among(warehouse_id, [kind.value for kind in wanted.kinds], _below(actor, warehouse_id, wanted.namespace_id))
    after = _start_of(page)
    search = wanted.search[:MAX_SEARCH_LENGTH]
    uuid = parse_id(search)
    if uuid is not None:
        matches = find_by_id(uuid, among)
    else:
        matches = find_similar(name_key(search), among, after=after, limit=page.sql_limit if sees_everything else None)
    shown = filter_visible(
        actor=actor,
        batches=_batches(match for match in matches if match > after),
        ref=lambda match: ObjectRef(Securable.Type(match.kind), match.id),
        sees_everything=sees_everything,
        wanted=page.sql_limit,
    )
    found, cursor = shown.truncated(page.size)
    token = None if cursor is None else seal_page_token(page.kind, repr(cursor.similarity), str(cursor.id))
    return _described(found, by_id=uuid is not None), token


def _start_of(page: Page) -> Match:
    """The match after which the page starts."""
    if not page.token:
        return BEGINNING
    similarity, tabular_id = open_page_token(page.token, page.kind)
    return Match.last_of(float(similarity), UUID(tabular_id))


def _below(actor: Actor, warehouse_id: UUID, namespace_id: UUID | None) -> Below:
    return EVERYWHERE if namespace_id is None else Below.of(namespace_key_for(actor, warehouse_id, namespace_id))


def _batches(matches: Iterator[Match]) -> Iterator[list[Match]]:
    while batch := list(islice(matches, BATCH_SIZE)):
        yield batch


def _described(matches: Sequence[Match], *, by_id: bool) -> list[FoundTabular]:
    """Read the matches in their order; those that were dropped concurrently are skipped."""
    ids = [match.id for match in matches]
    rows = Tabular.objects.using(settings.READ_DATABASE).live().filter(pk__in=ids)
    found = {row.pk: row for row in rows.select_related("namespace").only("kind", "uuid", "name", "namespace__path")}
    return [
        FoundTabular(
            kind=row.kind,
            uuid=row.uuid,
            name=row.name,
            levels=row.namespace.levels,
            distance=None if by_id else round(1 - match.similarity, 6),
        )
        for match in matches
        if (row := found.get(match.id)) is not None
    ]
