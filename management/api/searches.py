"""Pages of searches. Lakekeeper's searches return ten hits and have no pages."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from icekeeper.kernel.http.paging import Page, listing_key
from tenancy.selectors.similarity import DEFAULT_HITS


def search_page(kind: str, body: dict[str, Any], *bounds: object) -> Page:
    """Return the page that a `SearchRequest` asks for; its token is bound to the text and to `bounds`."""
    size = min(body.get("page_size") or DEFAULT_HITS, settings.ICEKEEPER.pagination_size_max)
    return Page(listing_key(kind, body["search"], *bounds), body.get("page_token"), size)


def next_page_token(body: dict[str, Any], token: str | None) -> str | None:
    """Return `token` to clients that asked for a page: others may not know the member."""
    has_page = body.get("page_size") is not None or body.get("page_token") is not None
    return token if has_page else None
