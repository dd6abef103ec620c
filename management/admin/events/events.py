"""Events: a list, newest first, that can be followed, and one event as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from events.cloud_events import TABULAR_TYPES, StoredEvent
from events.selectors.feed import FeedFilter
from events.selectors.recent_events import get_event_for, list_recent_events_for
from events.services.sink_filters import EVENT_TYPES
from icekeeper.kernel.errors.types import BadRequest, NotFound
from icekeeper.kernel.ids import parse_id
from management.admin.json_view import json_lines
from management.admin.level_text import join_levels, split_levels
from management.admin.listing_pages import ROWS_A_PAGE
from management.admin.navigation import Crumb, object_url
from management.admin.pages import Page
from management.admin.warehouse_choice import list_warehouses_by_project
from tenancy.authz.actions import Can
from tenancy.authz.permissions import check_permissions, is_allowed
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import server_ref

MAX_POSITION: Final = 2**62
FILTERS: Final = ("project", "warehouse", "namespace", "type", "object")
SCOPE: Final = ("project", "warehouse")
WITH_PAGE: Final = frozenset({"warehouse", "namespace", *TABULAR_TYPES})
"""Types of objects whose names are links."""


class _EventsOfAddress(Page):
    """What the pages of events share: the filters of the address."""

    section = "events"
    title = gettext_lazy("Events")

    def given(self) -> dict[str, str]:
        """Return the filters that are set, as texts."""
        return {name: value for name in FILTERS if (value := self.query(name))}

    def feed_filter(self, given: dict[str, str]) -> FeedFilter:
        """Return the filter in the address. Raises `BadRequest`."""
        warehouse, kind = given.get("warehouse"), given.get("type")
        warehouse_id = None if warehouse is None else parse_id(warehouse)
        if warehouse is not None and warehouse_id is None:
            raise BadRequest("warehouse: must be the id of a warehouse")
        if kind is not None and kind not in EVENT_TYPES:
            raise BadRequest("type: must be a type of events, such as updateTable")
        return FeedFilter(
            project=given.get("project"),
            warehouse=warehouse_id,
            namespace=split_levels(given["namespace"]) if "namespace" in given else None,
            types=() if kind is None else (kind,),
            object_id=given.get("object"),
        )


class EventsPage(_EventsOfAddress):
    """Events, newest first. Without the permission on the server, those of the first project with the permission.

    With `follow` the first page refreshes itself (`part=list`).
    """

    template_name = "console/events.html"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if request.GET.get("part") == "list":
            return self.render_part("console/parts/event_list.html", self.context())
        return super().get(request, **kwargs)

    def context(self) -> dict[str, Any]:
        choices = list_warehouses_by_project(self.actor)
        projects = [each for each, _warehouses in choices.projects]
        given = self.given()
        if not given.keys() & set(SCOPE) and not is_allowed(self.actor, Can.READ_EVENTS, *server_ref()):
            given |= self._readable_project(projects)
        through = self._through()
        found = list_recent_events_for(
            actor=self.actor, feed_filter=self.feed_filter(given), through=through, limit=ROWS_A_PAGE
        )
        scope = {name: value for name, value in given.items() if name in SCOPE}
        is_followed = self.request.GET.get("follow") == "1" and through is None
        return {
            "rows": [_row(each, scope) for each in found.events],
            "given": given,
            "projects": projects,
            "warehouses": choices.warehouses,
            "types": sorted(EVENT_TYPES),
            "first_url": None if through is None else f"?{urlencode(given)}",
            "next_url": None if found.earlier is None else f"?{urlencode({**given, 'through': found.earlier})}",
            "is_followed": is_followed,
            "follow_url": f"?{urlencode(given if is_followed else {**given, 'follow': '1'})}",
            "live_url": f"?{urlencode({**given, 'part': 'list'})}" if is_followed else "",
        }

    def _through(self) -> int | None:
        text = self.query("through")
        if not text:
            return None
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= MAX_POSITION):  # noqa: PLR2004
            raise BadRequest("through: must be the position of an event")
        return int(text)

    def _readable_project(self, projects: Sequence[Project]) -> dict[str, str]:
        refs = [ObjectRef(Securable.Type.PROJECT, each.pk) for each in projects]
        allowed = check_permissions(self.actor, [(Can.READ_EVENTS, ref) for ref in refs])
        readable = [each.pk for each, is_readable in zip(projects, allowed, strict=True) if is_readable]
        return {"project": readable[0]} if readable else {}


class EventPage(_EventsOfAddress):
    """One event with its data. The address has the project or warehouse whose events the user may read."""

    template_name = "console/event.html"

    def context(self) -> dict[str, Any]:
        position: int = self.kwargs["position"]
        if position > MAX_POSITION:
            raise NotFound("No such event")
        given = {name: value for name, value in self.given().items() if name in SCOPE}
        event = get_event_for(actor=self.actor, feed_filter=self.feed_filter(given), position=position)
        attributes = event.attributes
        title = f"{event.type} {position}"
        back = reverse("admin:events")
        return {
            "title": event.type,
            "breadcrumb": [Crumb(_("Events"), f"{back}?{urlencode(given)}" if given else back), Crumb(title)],
            "event": event,
            "time": attributes.get("time", ""),
            "objectkey": attributes.get("objectkey", ""),
            "sequence": attributes.get("objectsequence", ""),
            "document": json_lines(json.loads(event.structured)),
        }


def _row(event: StoredEvent, scope: dict[str, str]) -> dict[str, Any]:
    names: list[str] = json.loads(event.names)
    kind = event.object_type
    object_id = parse_id(event.public_id) if kind in WITH_PAGE else None
    warehouse_id = object_id if kind == "warehouse" else event.warehouse_id
    has_page = object_id is not None and warehouse_id is not None
    query = f"?{urlencode(scope)}" if scope else ""
    return {
        "event": event,
        "kind": kind,
        "name": join_levels(names) or event.public_id,
        "object_url": object_url(kind, object_id, warehouse_id) if has_page else None,
        "url": reverse("admin:event", args=[event.position]) + query,
    }
