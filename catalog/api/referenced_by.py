"""`referenced-by`: the views that an engine reads something through, as a query names them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote, unquote_to_bytes

from django.conf import settings
from django.http import HttpRequest

from catalog.identifiers import Identifier
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.names import LEVEL_SEPARATOR

PARAMETER = "referenced-by"


class ReferencedByDepthExceeded(BadRequest):
    wire_type = "ReferencedByDepthExceeded"


def parse_referenced_by(request: HttpRequest) -> tuple[Identifier, ...]:
    """Return the views of `referenced-by`, outermost first; none if it is absent, given twice, or malformed.

    It is split before it is decoded, as names may contain commas (`%2C`). Raises `ReferencedByDepthExceeded` (400).
    """
    query = request.META["QUERY_STRING"]
    if not query:  # most have none, and then there is nothing to parse
        return ()
    chains = list(_raw_values(query))
    limit = settings.ICEKEEPER.referenced_by.max_nesting_depth
    if any(chain.count(",") >= limit for chain in chains):
        raise ReferencedByDepthExceeded(f"{PARAMETER}: more than {limit} views")
    if len(chains) != 1:
        return ()
    views = [_parse_view(text) for text in chains[0].split(",")]
    return () if None in views else tuple(view for view in views if view is not None)


def format_referenced_by(views: Sequence[Identifier]) -> str:
    """Return the query that `parse_referenced_by` reads `views` from."""
    named = ("%1F".join(quote(part, safe="") for part in (*view.levels, view.name)) for view in views)
    return f"{PARAMETER}={','.join(named)}"


def _raw_values(query: str) -> Iterator[str]:
    """Yield the raw values of the parameter."""
    for field in query.split("&"):
        name, _, value = field.partition("=")
        if _decode(name) == PARAMETER:
            yield value


def _parse_view(text: str) -> Identifier | None:
    """Parse levels and a name joined by U+001F."""
    decoded = _decode(text)
    *levels, name = (decoded or "").split(LEVEL_SEPARATOR)
    if not levels or not name or not all(levels):
        return None
    return Identifier(tuple(levels), name)


def _decode(text: str) -> str | None:
    """Return None if it is not UTF-8. The server passes bytes as characters of Latin-1."""
    try:
        return unquote_to_bytes(text.replace("+", " ").encode("latin-1")).decode()
    except UnicodeError:
        return None
