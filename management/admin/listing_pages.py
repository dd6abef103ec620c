"""Pages of lists: 50 rows each, with links to the first and the next page that keep the filters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django.http import HttpRequest

from icekeeper.kernel.http.paging import Page, listing_key

ROWS_A_PAGE: Final = 50


@dataclass(frozen=True, slots=True)
class Pager:
    """`page` is what the address requests; `parameter` is the parameter with its token, of several lists on a page."""

    page: Page
    filters: Mapping[str, str]
    parameter: str

    def links(self, token: str | None) -> dict[str, str | None]:
        """Return `first_url` and `next_url` for the template, None where there is no such page."""
        following = None if token is None else f"?{urlencode({**self.filters, self.parameter: token})}"
        return {"first_url": f"?{urlencode(self.filters)}" if self.page.token else None, "next_url": following}


def read_pager(
    request: HttpRequest, kind: str, /, *bounds: object, parameter: str = "after", **filters: str | None
) -> Pager:
    """Return the requested page of the list `kind`, whose tokens are valid with the same bounds and filters only."""
    given = {key: value for key, value in filters.items() if value}
    page = Page(
        listing_key(f"console {kind}", *bounds, *sorted(given.items())), request.GET.get(parameter), ROWS_A_PAGE
    )
    return Pager(page, given, parameter)
