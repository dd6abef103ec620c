"""Fuzzy search of tables, views and generic tables by name: those with similar trigrams, best match first.

The full name with its namespace is compared, in the form of name keys. The comparison runs in this process, in the same
way for every database: pg_trgm is slower unless it has an index of full names, for which every create, rename and move
would pay.
"""

from __future__ import annotations

import heapq
import math
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Self
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast

from catalog.identifiers import Levels
from catalog.models import Namespace, Tabular
from catalog.selectors.visible_pages import BATCH_SIZE, open_page_token, scan_visible, seal_page_token
from catalog.selectors.warehouses import namespace_key_for, require_on_warehouse
from icekeeper.kernel.http.paging import Page
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.names import LEVEL_SEPARATOR, name_key
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.similarity import MAX_SEARCH_LENGTH

NAME_BATCH_SIZE = 2_000
"""Names in one batch."""

_HIGHEST = "\U0010ffff"
"""Sorts after every kind and name: it is not a character."""

_BETWEEN_WORDS = re.compile(r"(?:[^\w\n]|_)+")
_BETWEEN_NAMES = " \n  "
"""A line break with the padding around a word in its trigrams."""


_ROUNDED = 1.000_001
"""An upper bound of the factor by which single precision may increase a similarity."""


class Match(NamedTuple):
    """A tabular with its similarity. Matches sort by similarity, best first, then by age, oldest first."""

    minus_similarity: float
    number: int
    kind: str

    @classmethod
    def of(cls, similarity: float, tabular_id: UUID, kind: str) -> Self:
        return cls(-similarity, tabular_id.int, kind)

    @classmethod
    def last_of(cls, similarity: float, tabular_id: UUID) -> Self:
        """A cursor that sorts directly after the tabular, whatever its kind."""
        return cls.of(similarity, tabular_id, _HIGHEST)

    @property
    def similarity(self) -> float:
        """From 0, nothing in common, to 1."""
        return -self.minus_similarity

    @property
    def id(self) -> UUID:
        return UUID(int=self.number)


BEGINNING = Match(-math.inf, 0, "")


@dataclass(frozen=True, slots=True)
class Below:
    """A range of namespaces: that with the path key `key`, and those with keys from `first` to before `end`."""

    key: str
    first: str
    end: str

    @classmethod
    def of(cls, key: str) -> Self:
        return cls(key, f"{key}{LEVEL_SEPARATOR}", f"{key}{chr(ord(LEVEL_SEPARATOR) + 1)}")

    def contains(self, key: str) -> bool:
        return key == self.key or self.first <= key < self.end


EVERYWHERE = Below("", "", _HIGHEST)


@dataclass(frozen=True, slots=True)
class Among:
    """The tabulars to search: those of these kinds that are not dropped."""

    warehouse_id: UUID
    kinds: Sequence[str]
    below: Below

    def living(self) -> QuerySet[Tabular]:
        """The tabulars of these kinds in all namespaces of the warehouse."""
        here = Tabular.objects.using(settings.READ_DATABASE).in_warehouse(self.warehouse_id)
        return here.live().of_kind(*self.kinds)


class _Name(NamedTuple):
    """A name to compare. Ids are text: most are not needed, and to parse a UUID costs as much as a comparison."""

    id: str
    namespace_id: str
    kind: str
    name_key: str


@dataclass(frozen=True, slots=True)
class _Space:
    """The trigrams of a namespace, and the trigrams of the search text that it does not have."""

    trigrams: set[str]
    lacking: list[str]


def find_matches_by_id(uuid: UUID, among: Among) -> Iterator[Match]:
    """Find the tabular that clients see under this id, and those directly in the namespace with this id."""
    named = among.living().filter(Q(uuid=uuid) | Q(namespace_id=uuid)).order_by("pk")
    for tabular_id, kind, path_key in named.values_list("pk", "kind", "namespace__path_key").iterator():
        if among.below.contains(path_key):
            yield Match.of(1.0, tabular_id, kind)


def find_similar(key: str, among: Among, *, after: Match, limit: int | None) -> Iterator[Match]:
    """Iterate the matches after `after` whose names share a trigram with `key`, in their order.

    `limit` returns only the first ones, which is faster: names that cannot be among them are not fully compared.
    """
    wanted = trigrams_of(key)
    if not wanted:
        return
    spaces = _spaces(wanted, among)
    worst = 0.0
    matches: list[Match] = []
    for names in _names(among):
        matches += [match for match in _compare(wanted, names, spaces, worst) if match > after]
        if limit is not None and len(matches) > limit:
            matches = heapq.nsmallest(limit, matches)
            worst = matches[-1].similarity
    heapq.heapify(matches)
    while matches:
        yield heapq.heappop(matches)


def _spaces(wanted: set[str], among: Among) -> dict[str, _Space]:
    namespaces = Namespace.objects.using(settings.READ_DATABASE).in_warehouse(among.warehouse_id)
    found = {}
    for namespace_id, path_key in namespaces.values_list(Cast("pk", TextField()), "path_key").iterator():
        if among.below.contains(path_key):
            trigrams = trigrams_of(path_key)
            found[namespace_id] = _Space(trigrams, list(wanted - trigrams))
    return found


def _names(among: Among) -> Iterator[list[_Name]]:
    ids = Cast("pk", TextField()), Cast("namespace_id", TextField())
    rows = among.living().values_list(*ids, "kind", "name_key").iterator(chunk_size=NAME_BATCH_SIZE)
    while names := [_Name(*row) for row in islice(rows, NAME_BATCH_SIZE)]:
        yield names


def _compare(wanted: set[str], names: Sequence[_Name], spaces: dict[str, _Space], worst: float) -> Iterator[Match]:
    """Iterate the matches among `names` that are at least as similar as `worst`."""
    texts = _BETWEEN_WORDS.sub("  ", f"  {_BETWEEN_NAMES.join([name.name_key for name in names])} ").split("\n")
    for name, text in zip(names, texts, strict=True):
        space = spaces.get(name.namespace_id)
        if space is None:
            continue
        shared = len(wanted) - len(space.lacking) + sum(map(text.__contains__, space.lacking))
        # The upper bound: the name has no trigrams besides those of its namespace and of the search text.
        if not shared or shared * _ROUNDED < worst * (len(space.trigrams) + len(space.lacking)):
            continue
        own = trigrams_of(name.name_key)
        similarity = in_single_precision(shared / (len(wanted) + len(own | space.trigrams) - shared))
        if similarity >= worst:
            yield Match.of(similarity, UUID(name.id), name.kind)


_WORD = re.compile(r"[^\W_]+")
_SINGLE = struct.Struct("f")


def trigrams_of(text: str) -> set[str]:
    """Return the trigrams of a case-folded text: see `icekeeper.kernel.names.name_key`."""
    found: set[str] = set()
    for word in _WORD.findall(text):
        padded = f"  {word} "
        found.update([padded[at : at + 3] for at in range(len(word) + 1)])
    return found


def in_single_precision(similarity: float) -> float:
    """Round a similarity (shared trigrams divided by all trigrams of both texts) as pg_trgm does."""
    rounded: float = _SINGLE.unpack(_SINGLE.pack(similarity))[0]
    return rounded


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
        matches = find_matches_by_id(uuid, among)
    else:
        matches = find_similar(name_key(search), among, after=after, limit=page.sql_limit if sees_everything else None)
    shown = scan_visible(
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
