"""Reads of the feed that wait for events: one page (long poll), or pages without end (streams)."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Final

from events.selectors.feed import Feed, FeedPage
from events.selectors.publication_watch import publication_watch
from icekeeper.kernel.http.client_link import ClientLink
from icekeeper.kernel.threads import release_thread_slot

MAX_STREAM_SECONDS: Final = 600.0
"""A stream ends after this time; its client continues with a new request."""
KEEP_ALIVE_SECONDS: Final = 15.0
"""Pause after which something is sent anyway: proxies close connections that are silent for long, often 60 seconds."""
RECHECK_SECONDS: Final = 5.0
"""Interval in which the permission of a waiting caller is checked again."""
STREAM_PAGE: Final = 200
STREAM_PAGE_BYTES: Final = 2**20
"""Events that a stream sends at once, and bytes of their data: a slow client keeps them in memory."""
SEARCH_SECONDS: Final = 1.0
"""A request that may wait compares old events with its filter for at most this long."""


def wait_for_page(feed: Feed, page: FeedPage, *, limit: int, until: float, link: ClientLink) -> FeedPage:
    """Return the first page with events after the empty `page`, which is the end of the feed; an empty one at `until`.

    `until` is on the monotonic clock. The page is also empty when the client has disconnected, the server stops, or the
    caller has lost the permission. The caller has reserved a slot of `publication_watch`.
    """
    checked_at = time.monotonic()
    while publication_watch.wait(page.cursor, until=until, has_ended=link.has_ended):
        if time.monotonic() - checked_at > RECHECK_SECONDS:
            if not feed.is_allowed():
                break
            checked_at = time.monotonic()
        page = feed.read(page.cursor, limit=limit)
        if page.events or page.has_more:
            break
    return page


def follow(feed: Feed, cursor: int, *, link: ClientLink, is_permitted: Callable[[], bool]) -> Generator[FeedPage]:
    """Yield pages after `cursor` as events are published, and one without events after `KEEP_ALIVE_SECONDS`.

    Ends after `MAX_STREAM_SECONDS`, when `is_permitted` returns False, when the client has disconnected and when the
    server stops. What was yielded is sent before the next page is read: raises what `link.drain` raises. The caller has
    reserved a slot of `publication_watch`.
    """
    now = time.monotonic()
    ends_at, recheck_at, silent_until = now + MAX_STREAM_SECONDS, now + RECHECK_SECONDS, now + KEEP_ALIVE_SECONDS
    while (now := time.monotonic()) < ends_at and not link.has_ended():
        if now >= recheck_at:
            if not is_permitted():
                return
            recheck_at = now + RECHECK_SECONDS
        page = feed.read(cursor, limit=STREAM_PAGE, seconds=SEARCH_SECONDS, max_bytes=STREAM_PAGE_BYTES)
        if page.events or now >= silent_until:
            yield page
            silent_until = time.monotonic() + KEEP_ALIVE_SECONDS
            with release_thread_slot():
                link.drain()
        cursor = page.cursor
        if not page.has_more:
            until = min(ends_at, recheck_at, silent_until)
            publication_watch.wait(cursor, until=until, has_ended=link.has_ended)
