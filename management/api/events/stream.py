"""Server-Sent Events: the feed as a response without end (https://html.spec.whatwg.org/multipage/server-sent-events.html).

The id of each event is its position, with which a client continues (`Last-Event-ID`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final

from django.db import DatabaseError, InterfaceError

from events.cloud_events import CloudEvent
from events.selectors.feed import Feed, FeedPage
from events.selectors.feed_waits import follow
from events.selectors.publication_watch import WaitSlot
from icekeeper.kernel.errors.types import CatalogError
from icekeeper.kernel.http.client_link import ClientLink
from tenancy.audit.occurrences import write_records_of_stream

MEDIA_TYPE: Final = "text/event-stream"
RETRY_MS: Final = 2000
"""Pause after which a client sends the next request."""

logger = logging.getLogger("icekeeper.events")


class EventStream:
    """The body of a response; `close` releases the slot. `require_permitted` raises when the caller may not read on."""

    def __init__(
        self, feed: Feed, cursor: int, *, link: ClientLink, slot: WaitSlot, require_permitted: Callable[[], object]
    ) -> None:
        self._require_permitted, self._slot = require_permitted, slot
        self._cursor = cursor
        self._pages = follow(feed, cursor, link=link, is_permitted=self._is_permitted)

    def __iter__(self) -> Iterator[bytes]:
        yield f"retry: {RETRY_MS}\nid: {self._cursor}\n\n".encode()
        try:
            for page in self._pages:
                yield write_page(page)
        except (CatalogError, DatabaseError, InterfaceError) as error:
            logger.warning("a stream of events ended: %s", error)

    def close(self) -> None:
        self._pages.close()
        self._slot.release()

    def _is_permitted(self) -> bool:
        try:
            self._require_permitted()
        except CatalogError as error:
            logger.info("a stream of events ended: %s", error.message)
            write_records_of_stream()
            return False
        return True


def write_page(page: FeedPage) -> bytes:
    """Return the events; without any, a comment, and the cursor, which clients keep without an event."""
    if not page.events:
        return f": keep-alive\nid: {page.cursor}\n\n".encode()
    return b"".join([_write_event(each) for each in page.events])


def _write_event(event: CloudEvent) -> bytes:
    # JSON that this server writes has no line breaks.
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.position, event.type.encode(), event.structured)
