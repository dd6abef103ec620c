"""Fuzzy search by name: exact matches first, then prefixes, substrings and similar spellings.

It uses expressions of both databases: an index does not find similar spellings, and the PostgreSQL extension that does
may not be installed. A page that texts with the search text fill is read without comparing all spellings: an index may
find them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Case, IntegerField, Model, Q, QuerySet, TextField, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Concat
from django.db.models.lookups import GreaterThanOrEqual

from icekeeper.kernel.errors.types import InvalidPageToken
from icekeeper.kernel.http.paging import Page, build_page
from icekeeper.kernel.names import name_key

M = TypeVar("M", bound=Model)

MAX_SEARCH_LENGTH: Final = 64
"""Characters; the rest of a search text is ignored."""
DEFAULT_HITS: Final = 10
"""Results of a search without a page size."""

_EXACT, _PREFIX, _SUBSTRING = 3000, 2000, 1000
_CURSOR = re.compile(r"(\d{1,5}) (.+)", re.DOTALL)


def search(
    rows: QuerySet[M], typed: str, *, texts: Sequence[Combinable], page: Page, is_named: Q | None = None
) -> tuple[list[M], str | None]:
    """Return the best of `rows` whose normalized `texts` match the search text `typed`, and the next page token.

    Similar spellings count for the first text only: email addresses of one company are all similar. An empty search
    text matches everything. `is_named` matches rows exactly by another attribute.
    """
    needle = needle_of(typed)
    named = {f"text_{number}": text for number, text in enumerate(texts)}
    spaced = Concat(Value(" "), texts[0], Value(" "), output_field=TextField())
    containing = is_named or Q()
    for name in named:
        containing |= Q(**{f"{name}__contains": needle})
    ranked = rows.alias(**named, spaced=spaced).annotate(rank=_rank(needle, list(named), is_named))
    if page.token:
        rank, key = _parse_cursor(page, rows.model)
        ranked = ranked.filter(Q(rank__lt=rank) | Q(rank=rank, pk__gt=key))
    ranked = ranked.order_by("-rank", "pk")
    limit = page.sql_limit
    found: list[Any] = list((ranked.filter(containing) if needle else ranked)[:limit])
    if needle and len(found) < limit:
        found += ranked.filter(~containing, rank__gt=0)[: limit - len(found)]
    return build_page([(f"{row.rank} {row.pk}", row) for row in found], page)


def needle_of(typed: str) -> str:
    """Normalize a search text; empty if nothing searchable remains."""
    return name_key(typed[:MAX_SEARCH_LENGTH]).strip()[:MAX_SEARCH_LENGTH]


def _rank(needle: str, names: Sequence[str], is_named: Q | None) -> Case:
    """Return the rank, 0 without a match. A similar spelling shares at least a third of the trigrams."""
    if not needle:
        return Case(default=0, output_field=IntegerField())
    exact, prefix, substring = is_named or Q(), Q(), Q()
    for name in names:
        exact |= Q(**{name: needle})
        prefix |= Q(**{f"{name}__startswith": needle})
        substring |= Q(**{f"{name}__contains": needle})
    trigrams = sorted({f" {needle} "[at : at + 3] for at in range(len(needle))})
    shared: Any = Value(0)
    for trigram in trigrams:
        shared += Case(When(spaced__contains=trigram, then=1), default=0, output_field=IntegerField())
    enough = max(2, -(-len(trigrams) // 3))
    return Case(
        When(exact, then=_EXACT),
        When(prefix, then=_PREFIX),
        When(substring, then=_SUBSTRING),
        When(GreaterThanOrEqual(shared, Value(enough)), then=shared),
        default=0,
        output_field=IntegerField(),
    )


def _parse_cursor(page: Page, model: type[Model]) -> tuple[int, Any]:
    """Parse a page token into the rank and the primary key of the last result of the previous page."""
    match = _CURSOR.fullmatch(page.after_key())
    try:
        return int(match[1]), model._meta.pk.to_python(match[2])  # type: ignore[index]  # noqa: SLF001
    except (TypeError, ValidationError):
        raise InvalidPageToken("Invalid page token") from None
