"""Links of Lakekeeper's console, which name an object in a warehouse: they lead to its page here, which has its id."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from catalog.selectors.browse import NAMESPACE, find_object_for
from icekeeper.kernel.errors.types import NotFound
from icekeeper.kernel.http.raw_path import decode_segment, split_levels
from management.admin.navigation import VIEW_OF_KIND, object_url
from management.admin.pages import Page

_IN_WAREHOUSE: Final = "/namespace/"
_NAMED: Final = 3
"""Segments of the link to a table: namespace, kind and name."""


class LakekeeperLink(Page):
    """`namespace/<levels>` or `namespace/<levels>/<kind>/<name>` below a warehouse; levels are joined by `%1F`.

    The path is split before it is decoded, because a name may have a slash.
    """

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        warehouse_id: UUID = kwargs["warehouse_id"]
        path: str = request.META["icekeeper.path"]
        segments = [decode_segment(each) for each in path.partition(_IN_WAREHOUSE)[2].rstrip("/").split("/")]
        kind, name = NAMESPACE, ""
        if len(segments) == _NAMED and segments[1] in VIEW_OF_KIND and segments[1] != NAMESPACE:
            kind, name = segments[1], segments[2]
        elif len(segments) != 1:
            raise NotFound("No such page")
        found = find_object_for(
            actor=self.actor, warehouse_id=warehouse_id, kind=kind, levels=split_levels(segments[0]), name=name
        )
        return HttpResponseRedirect(object_url(kind, found, warehouse_id))
