"""Events from the newest to the oldest, for the console; programs read the feed."""

from __future__ import annotations

from typing import NamedTuple

from django.conf import settings

from events.cloud_events import CloudEvent, Payload, StoredEvent, cloud_event_of
from events.outbox import read_batch, read_newest
from events.publication import read_state
from events.selectors.feed import FeedFilter, authorize_feed, creation_of
from icekeeper.kernel.errors.types import NotFound
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_event_read
from tenancy.selectors.projects import server_id


class RecentEvents(NamedTuple):
    """Events without data, newest first; earlier ones are at or before the position `earlier`, None without any."""

    events: list[StoredEvent]
    earlier: int | None


def list_recent_events_for(
    *, actor: Actor, feed_filter: FeedFilter, through: int | None = None, limit: int
) -> RecentEvents:
    """Return the newest matching events, of those through a position. The read is audited as that of the feed.

    Also events that are not published yet. With filters that no index has, a page can have fewer events than `limit`
    before the last one. Raises `NoSuchWarehouse` (404), `Forbidden` (403).
    """
    first = _open(actor, feed_filter)
    alias = settings.READ_DATABASE
    state = read_state(alias)
    newest = max(state.newest, state.published)
    last = newest if through is None else min(through, newest)
    after = max(first, state.deleted)
    events, reached = read_newest(
        alias, after=after, through=last, event_filter=feed_filter.event_filter(), limit=limit
    )
    return RecentEvents(events, reached if reached > after else None)


def get_event_for(*, actor: Actor, feed_filter: FeedFilter, position: int) -> CloudEvent:
    """Return one event with its data. Raises `NoSuchWarehouse`, `NotFound` (404), `Forbidden` (403)."""
    first = _open(actor, feed_filter)
    alias = settings.READ_DATABASE
    events, _ = read_batch(
        alias,
        after=max(first, position - 1),
        through=position,
        event_filter=feed_filter.event_filter(),
        payload=Payload.FULL,
        limit=1,
    )
    if not events:
        raise NotFound(f"There is no event with the position {position}")
    return cloud_event_of(events[0], server_id=server_id())


def _open(actor: Actor, feed_filter: FeedFilter) -> int:
    """Require the permission, record the read, and return the position after which the caller may read events."""
    securable, project, has_earlier = authorize_feed(actor, feed_filter)
    record_event_read(
        actor=actor,
        object_type=securable.type.value,
        object_id=securable.id,
        project=project,
        filters=feed_filter.given(),
    )
    return creation_of(project) if has_earlier and project else 0
