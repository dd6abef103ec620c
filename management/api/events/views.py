"""The feed of events: pages by cursor, long poll, and Server-Sent Events."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from time import monotonic
from typing import Final

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.dateparse import parse_datetime
from rest_framework.request import Request

from events.cloud_events import TYPES_DOCUMENT, Payload
from events.selectors.feed import Feed, FeedFilter, FeedPage, open_feed_for
from events.selectors.feed_waits import SEARCH_SECONDS, wait_for_page
from events.selectors.publication_watch import publication_watch
from icekeeper.kernel.errors.types import BadRequest, Busy, Forbidden
from icekeeper.kernel.http.client_link import client_link
from icekeeper.kernel.http.raw_path import split_levels
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.json.strict import JsonText, write_json
from icekeeper.kernel.request_context import remaining_seconds
from management.api.base import ManagementViewSet, require_parameters
from management.api.events.schema import (
    DEFAULT_LIMIT,
    EVENT_TYPES,
    LATEST,
    MAX_LIMIT,
    MAX_WAIT_SECONDS,
    PARAMETERS,
    describe_events,
)
from management.api.events.stream import MEDIA_TYPE, EventStream
from tenancy.authn.requests import authenticate_request
from tenancy.selectors.projects import named_project_id, require_project_id

MAX_CURSOR: Final = 2**63 - 1
MAX_FILTER_LENGTH: Final = 255
MAX_NAMESPACE_LENGTH: Final = 4096
EARLIEST, LATEST_TIME = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
DEADLINE_MARGIN: Final = 2.0
"""Seconds of the request's time that remain after a wait."""
RETRY_SECONDS: Final = 2
"""Pause for clients whose request could not wait: too many others do."""


@describe_events
class EventViewSet(ManagementViewSet):
    def list(self, request: Request) -> HttpResponseBase:
        require_parameters(request, [each.name for each in PARAMETERS if each.location == "query"])
        is_stream = _wants_stream(request)
        limit = self._number("limit", default=DEFAULT_LIMIT, minimum=1, maximum=MAX_LIMIT)
        wait = self._number("wait", default=0, minimum=0, maximum=MAX_WAIT_SECONDS)
        if is_stream and ("limit" in request.GET or "wait" in request.GET):
            raise BadRequest("limit and wait are not for streams (Accept: text/event-stream)")
        start = self._start()
        feed_filter = self._filter()
        feed = open_feed_for(actor=self.actor, feed_filter=feed_filter)
        cursor = _cursor(feed, start, default=LATEST if is_stream else 0)
        if is_stream:
            return self._stream(feed, cursor)
        if start == LATEST and not wait:
            return _respond(FeedPage([], cursor, has_more=False))
        return self._page(feed, cursor, limit, wait if request.method == "GET" else 0)

    def _page(self, feed: Feed, cursor: int, limit: int, wait: int) -> HttpResponse:
        """Return the page after `cursor`; if it is the end of the feed, after at most `wait` seconds."""
        if not wait:
            return _respond(feed.read(cursor, limit=limit))
        until = monotonic() + wait
        page = feed.read(cursor, limit=limit, seconds=min(wait, SEARCH_SECONDS))
        if page.events or page.has_more:
            return _respond(page)
        slot = publication_watch.reserve_slot()
        if slot is None:
            response = _respond(page)
            response.headers["Retry-After"] = str(RETRY_SECONDS)
            return response
        try:
            left = remaining_seconds()
            if left is not None:
                until = min(until, monotonic() + left - DEADLINE_MARGIN)
            return _respond(wait_for_page(feed, page, limit=limit, until=until, link=client_link(self.request.META)))
        finally:
            slot.release()

    def _stream(self, feed: Feed, cursor: int) -> HttpResponseBase:
        feed.require_cursor(cursor)
        response: HttpResponse | StreamingHttpResponse
        if self.request.method == "HEAD":
            response = HttpResponse(content_type=MEDIA_TYPE)
        else:
            slot = publication_watch.reserve_slot()
            if slot is None:
                raise Busy("Too many requests of this server wait for events; try again")
            stream = EventStream(
                feed,
                cursor,
                link=client_link(self.request.META),
                slot=slot,
                require_permitted=lambda: self._require_permitted(feed),
            )
            response = StreamingHttpResponse(stream, content_type=MEDIA_TYPE)
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Accel-Buffering"] = "no"
        return response

    def _require_permitted(self, feed: Feed) -> None:
        """Raise a `CatalogError` if the token is not accepted any more, or the caller has lost the permission."""
        authenticate_request(self.request, is_reading=True)
        if not feed.is_allowed():
            raise Forbidden(f"{self.actor.name} may no longer read these events")

    def _filter(self) -> FeedFilter:
        """Parse the filters of the query. Raises `BadRequest`, `MalformedProjectId`."""
        warehouse_text = self._text("warehouseId")
        warehouse = None if warehouse_text is None else parse_id(warehouse_text)
        if warehouse_text is not None and warehouse is None:
            raise BadRequest("warehouseId: must be a UUID")
        project = self._text("projectId")
        if project is None and warehouse is None:
            project = named_project_id(self.request.META)
        namespace = self._text("namespace", MAX_NAMESPACE_LENGTH)
        if namespace is not None and warehouse is None:
            raise BadRequest("namespace: needs warehouseId")
        levels = None if namespace is None else split_levels(namespace)
        if levels is not None and not all(levels):
            raise BadRequest("namespace: must be levels joined by %1F, none of them empty")
        payload = self._text("payload") or Payload.FULL.value
        if payload not in list(Payload):
            raise BadRequest(f"payload: must be one of {', '.join(Payload)}")
        types = sorted(set(self.request.GET.getlist("type")))
        for each in types:
            if each not in EVENT_TYPES:
                raise BadRequest(f"type: {each[:100]!r} is not a type of events: {TYPES_DOCUMENT} lists them")
        return FeedFilter(
            project=None if project is None else require_project_id(project),
            warehouse=warehouse,
            namespace=levels,
            types=tuple(types),
            object_id=self._text("objectId"),
            payload=Payload(payload),
        )

    def _start(self) -> int | str | datetime | None:
        """Parse where to start: a cursor, `LATEST`, a time, or None for the default. Raises `BadRequest`."""
        after, since = self._text("after"), self._text("since")
        if after is not None and since is not None:
            raise BadRequest("Only one of after and since is allowed")
        continued = self.request.META.get("HTTP_LAST_EVENT_ID")
        if continued:
            return _read_cursor("Last-Event-ID", continued)
        if since is not None:
            return _read_time(since)
        if after is None or after == LATEST:
            return after
        return _read_cursor("after", after)

    def _text(self, name: str, maximum: int = MAX_FILTER_LENGTH) -> str | None:
        given = self.request.GET.getlist(name)
        if len(given) > 1:
            raise BadRequest(f"{name}: must be given once")
        if not given:
            return None
        text = given[0]
        if not 1 <= len(text) <= maximum or "\x00" in text or text != text.encode("utf-8", "replace").decode():
            raise BadRequest(f"{name}: must be a text of 1 to {maximum} characters")
        return text

    def _number(self, name: str, *, default: int, minimum: int, maximum: int) -> int:
        given = self._text(name)
        if given is None:
            return default
        if not re.fullmatch(r"[0-9]{1,9}", given) or not minimum <= int(given) <= maximum:
            raise BadRequest(f"{name}: must be a number from {minimum} to {maximum}")
        return int(given)


def _wants_stream(request: Request) -> bool:
    """Return whether the client accepts a stream and no JSON."""
    accepted = {each.partition(";")[0].strip().lower() for each in request.META.get("HTTP_ACCEPT", "").split(",")}
    return MEDIA_TYPE in accepted and "application/json" not in accepted


def _cursor(feed: Feed, start: int | str | datetime | None, *, default: int | str) -> int:
    """Return the cursor from which to read."""
    if start is None:
        start = default
    if isinstance(start, datetime):
        return feed.cursor_at(start)
    if isinstance(start, str):
        return feed.newest_cursor()
    return start


def _read_cursor(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,19}", text) or int(text) > MAX_CURSOR:
        raise BadRequest(f"{name}: must be a cursor from `next`: a number from 0 to {MAX_CURSOR}, or {LATEST}")
    return int(text)


def _read_time(text: str) -> datetime:
    try:
        at = parse_datetime(text)
    except (ValueError, OverflowError):
        at = None
    if at is None or at.tzinfo is None or not EARLIEST <= at <= LATEST_TIME:
        raise BadRequest("since: must be a time with a zone, such as 2026-01-31T00:00:00Z (+ is %2B in a query)")
    return at.astimezone(UTC)


def _respond(page: FeedPage) -> HttpResponse:
    events = [{**each.attributes, "data": JsonText(each.data)} for each in page.events]
    body = write_json({"events": events, "next": str(page.cursor), "has-more": page.has_more})
    return HttpResponse(body, content_type="application/json")
