"""Tabulars in the order of how much their names are like a text.

What is compared is the whole name, namespace and all, in the form that names are looked up by. The names come here and
are compared in the same way on every database: pg_trgm itself takes longer, unless it has an index of such texts, for
which every create, rename and move would pay.
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

from catalog.models import Namespace, Tabular
from icekeeper.kernel.names import LEVEL_SEPARATOR

AT_ONCE = 2_000
"""Names that are looked at together."""

_HIGHEST = "\U0010ffff"
"""Above everything that a name begins with: it is no character."""

_BETWEEN_WORDS = re.compile(r"(?:[^\w\n]|_)+")
_BETWEEN_NAMES = " \n  "
"""With what is around a word in its trigrams."""


_ROUNDED = 1.000_001
"""More than a similarity may have gained in single precision."""


class Place(NamedTuple):
    """Of one tabular in the order: the most alike first, among equals the oldest."""

    minus_similarity: float
    number: int
    kind: str

    @classmethod
    def of(cls, similarity: float, tabular_id: UUID, kind: str) -> Self:
        return cls(-similarity, tabular_id.int, kind)

    @classmethod
    def last_with(cls, similarity: float, tabular_id: UUID) -> Self:
        """Right behind the tabular, whatever its kind."""
        return cls.of(similarity, tabular_id, _HIGHEST)

    @property
    def similarity(self) -> float:
        """From 0, nothing in common, to 1."""
        return -self.minus_similarity

    @property
    def id(self) -> UUID:
        return UUID(int=self.number)


BEGINNING = Place(-math.inf, 0, "")


@dataclass(frozen=True, slots=True)
class Below:
    """Some of the namespaces of a warehouse: that with the path key `key`, and those with keys between two others."""

    key: str
    first: str
    end: str

    @classmethod
    def of(cls, key: str) -> Self:
        return cls(key, f"{key}{LEVEL_SEPARATOR}", f"{key}{chr(ord(LEVEL_SEPARATOR) + 1)}")

    def holds(self, key: str) -> bool:
        return key == self.key or self.first <= key < self.end


EVERYWHERE = Below("", "", _HIGHEST)


@dataclass(frozen=True, slots=True)
class Among:
    """Which tabulars come into question: those of these kinds there that are not dropped."""

    warehouse_id: UUID
    kinds: Sequence[str]
    below: Below

    def living(self) -> QuerySet[Tabular]:
        """All of them, and those in other namespaces."""
        here = Tabular.objects.using(settings.READ_DATABASE).filter(warehouse_id=self.warehouse_id)
        return here.filter(deleted_at__isnull=True, kind__in=self.kinds)


class _Name(NamedTuple):
    """A row of what is compared. Ids are text here: most are thrown away, and a UUID costs as much as a comparison."""

    id: str
    namespace_id: str
    kind: str
    name_key: str


@dataclass(frozen=True, slots=True)
class _Space:
    """What a namespace does to the comparison of each name in it: its trigrams, and those asked for that it lacks."""

    trigrams: set[str]
    lacking: list[str]


def with_id(uuid: UUID, among: Among) -> Iterator[Place]:
    """The one that clients know by this id, and those right in the namespace that has it."""
    named = among.living().filter(Q(uuid=uuid) | Q(namespace_id=uuid)).order_by("pk")
    for tabular_id, kind, path_key in named.values_list("pk", "kind", "namespace__path_key").iterator():
        if among.below.holds(path_key):
            yield Place.of(1.0, tabular_id, kind)


def alike(key: str, among: Among, *, after: Place, limit: int | None) -> Iterator[Place]:
    """Those behind `after` whose names have any trigram in common with `key`, in their order.

    With `limit` only the first ones, which is quicker: what cannot be among them is not compared to the end.
    """
    asked = trigrams_of(key)
    if not asked:
        return
    spaces = _spaces(asked, among)
    worst = 0.0
    places: list[Place] = []
    for names in _names(among):
        places += [place for place in _compare(asked, names, spaces, worst) if place > after]
        if limit is not None and len(places) > limit:
            places = heapq.nsmallest(limit, places)
            worst = places[-1].similarity
    heapq.heapify(places)
    while places:
        yield heapq.heappop(places)


def _spaces(asked: set[str], among: Among) -> dict[str, _Space]:
    namespaces = Namespace.objects.using(settings.READ_DATABASE).filter(warehouse_id=among.warehouse_id)
    found = {}
    for namespace_id, path_key in namespaces.values_list(Cast("pk", TextField()), "path_key").iterator():
        if among.below.holds(path_key):
            trigrams = trigrams_of(path_key)
            found[namespace_id] = _Space(trigrams, list(asked - trigrams))
    return found


def _names(among: Among) -> Iterator[list[_Name]]:
    ids = Cast("pk", TextField()), Cast("namespace_id", TextField())
    rows = among.living().values_list(*ids, "kind", "name_key").iterator(chunk_size=AT_ONCE)
    while names := [_Name(*row) for row in islice(rows, AT_ONCE)]:
        yield names


def _compare(asked: set[str], names: Sequence[_Name], spaces: dict[str, _Space], worst: float) -> Iterator[Place]:
    """Those of `names` that are at least as similar as `worst`, and at all."""
    texts = _BETWEEN_WORDS.sub("  ", f"  {_BETWEEN_NAMES.join([name.name_key for name in names])} ").split("\n")
    for name, text in zip(names, texts, strict=True):
        space = spaces.get(name.namespace_id)
        if space is None:
            continue
        shared = len(asked) - len(space.lacking) + sum(map(text.__contains__, space.lacking))
        # At best it has no trigrams but those of the namespace and those asked for.
        if not shared or shared * _ROUNDED < worst * (len(space.trigrams) + len(space.lacking)):
            continue
        own = trigrams_of(name.name_key)
        similarity = in_single_precision(shared / (len(asked) + len(own | space.trigrams) - shared))
        if similarity >= worst:
            yield Place.of(similarity, UUID(name.id), name.kind)


_WORD = re.compile(r"[^\W_]+")
_SINGLE = struct.Struct("f")


def trigrams_of(text: str) -> set[str]:
    """The trigrams of a text in which capitals do not count any more: see `icekeeper.kernel.names.name_key`."""
    found: set[str] = set()
    for word in _WORD.findall(text):
        padded = f"  {word} "
        found.update([padded[at : at + 3] for at in range(len(word) + 1)])
    return found


def in_single_precision(similarity: float) -> float:
    """A similarity as pg_trgm gives it: shared trigrams by all that either text has."""
    rounded: float = _SINGLE.unpack(_SINGLE.pack(similarity))[0]
    return rounded


def similarity_of(one: str, other: str) -> float:
    """From 0, nothing in common, to 1, the same words."""
    ours, theirs = trigrams_of(one), trigrams_of(other)
    shared = len(ours & theirs)
    return in_single_precision(shared / (len(ours | theirs) or 1))
