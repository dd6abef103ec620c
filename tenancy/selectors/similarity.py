"""Searching by what somebody typed: equal names first, then those that begin with it, hold it, or are spelled alike.

The work is done by expressions that both databases know: an index would not find what is spelled alike, and the
extension of PostgreSQL that could may not be there.
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
"""Characters; what is typed beyond them is not looked at."""
HITS: Final = 10
"""Of a search that asks for no other number."""

_EXACT, _PREFIX, _SUBSTRING = 3000, 2000, 1000
_PLACE = re.compile(r"(\d{1,5}) (.+)", re.DOTALL)


def search(
    rows: QuerySet[M], typed: str, *, texts: Sequence[Combinable], page: Page, is_named: Q | None = None
) -> tuple[list[M], str | None]:
    """The best of `rows` whose `texts`, in their look-up form, match what was typed, and the next page's token.

    Only the first text may be spelled otherwise: mails of one company would all be alike. Nothing typed matches
    everything. `is_named` finds rows that are meant exactly, by another name than those.
    """
    needle = needle_of(typed)
    named = {f"text_{number}": text for number, text in enumerate(texts)}
    spaced = Concat(Value(" "), texts[0], Value(" "), output_field=TextField())
    ranked = rows.alias(**named, spaced=spaced).annotate(rank=_rank(needle, list(named), is_named))
    if needle:
        ranked = ranked.filter(rank__gt=0)
    if page.token:
        rank, key = _place(page, rows.model)
        ranked = ranked.filter(Q(rank__lt=rank) | Q(rank=rank, pk__gt=key))
    found: list[Any] = list(ranked.order_by("-rank", "pk")[: page.sql_limit])
    return build_page([(f"{row.rank} {row.pk}", row) for row in found], page)


def needle_of(typed: str) -> str:
    """What is looked for: empty when nothing was typed that could be."""
    return name_key(typed[:MAX_SEARCH_LENGTH]).strip()[:MAX_SEARCH_LENGTH]


def _rank(needle: str, names: Sequence[str], is_named: Q | None) -> Case:
    """An integer, 0 for what does not match. Spelled alike is what shares a third of the runs of three letters."""
    if not needle:
        return Case(default=0, output_field=IntegerField())
    exact, prefix, substring = is_named or Q(), Q(), Q()
    for name in names:
        exact |= Q(**{name: needle})
        prefix |= Q(**{f"{name}__startswith": needle})
        substring |= Q(**{f"{name}__contains": needle})
    runs = sorted({f" {needle} "[at : at + 3] for at in range(len(needle))})
    shared: Any = Value(0)
    for run in runs:
        shared += Case(When(spaced__contains=run, then=1), default=0, output_field=IntegerField())
    enough = max(2, -(-len(runs) // 3))
    return Case(
        When(exact, then=_EXACT),
        When(prefix, then=_PREFIX),
        When(substring, then=_SUBSTRING),
        When(GreaterThanOrEqual(shared, Value(enough)), then=shared),
        default=0,
        output_field=IntegerField(),
    )


def _place(page: Page, model: type[Model]) -> tuple[int, Any]:
    """The rank and the primary key of the last hit that was sent."""
    place = _PLACE.fullmatch(page.after_key())
    try:
        return int(place[1]), model._meta.pk.to_python(place[2])  # type: ignore[index]  # noqa: SLF001
    except (TypeError, ValidationError):
        raise InvalidPageToken("Invalid page token") from None
