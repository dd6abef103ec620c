"""Requests and pages of searches. Lakekeeper's searches return ten hits and have no pages."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from rest_framework import serializers

from icekeeper.kernel.http.paging import MAX_PAGE_SIZE, Page, listing_key
from icekeeper.kernel.http.serializers import KebabSerializer, Text
from tenancy.selectors.similarity import HITS, MAX_SEARCH_LENGTH

ONLY_FOR_PAGES = "Only with `page-size` or `page-token`; absent on the last page"


class SearchRequest(KebabSerializer):
    search = Text(
        allow_blank=True, help_text=f"What to look for; what is behind {MAX_SEARCH_LENGTH} characters is not looked at"
    )
    page_size = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=MAX_PAGE_SIZE, help_text=f"Most hits; default: {HITS}"
    )
    page_token = Text(
        required=False, allow_null=True, allow_blank=True, help_text="`next-page-token` of the same search before"
    )


def page_of_search(kind: str, body: dict[str, Any], *bounds: object) -> Page:
    """Of the hits of a search for the same text among what `bounds` say."""
    size = min(body.get("page_size") or HITS, settings.ICEKEEPER.pagination_size_max)
    return Page(listing_key(kind, body["search"], *bounds), body.get("page_token"), size)


def next_page_of_search(body: dict[str, Any], token: str | None) -> dict[str, str]:
    """The member for the next page, for callers that ask for pages: others may not know the member."""
    asks_for_pages = body.get("page_size") is not None or body.get("page_token") is not None
    return {"next-page-token": token} if token is not None and asks_for_pages else {}
