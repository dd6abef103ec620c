"""The feed of events: pages in the order of positions, for callers with the permission to read events.

The position of the last event is the cursor. A page can be empty before the end of the feed, as filters without an
index compare a limited number of events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

from django.conf import settings

from events.cloud_events import CloudEvent, Payload, cloud_event_of, gap_event
from events.outbox import EventFilter, position_at, read_batch
from events.publication import State, read_state
from icekeeper.kernel.db.sql import fetch_all
from icekeeper.kernel.errors.types import BadRequest
from storage.errors import no_such_warehouse
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.audit.occurrences import record_event_read
from tenancy.authz.actions import Can
from tenancy.authz.permissions import action_forbidden, is_allowed, require_permission
from tenancy.models import Project, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import server_id, server_ref

SCAN_SECONDS: Final = 0.01
"""A page without events continues its search for this long before it is returned."""

_CREATION: Final = """
SELECT max(position) FROM tenancy_outboxevent WHERE object_key = %s AND type = 'createProject'
"""


class UnknownCursor(BadRequest):
    """The cursor is after the newest event: of another server, or of a later state of the database."""

    wire_type = "UnknownEventCursor"


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedFilter:
    """Which events of which object: of a warehouse, else of a project, else of the server. Without values all."""

    project: str | None = None
    warehouse: UUID | None = None
    namespace: tuple[str, ...] | None = None
    types: tuple[str, ...] = ()
    object_id: str | None = None
    payload: Payload = Payload.FULL

    def given(self) -> dict[str, Any]:
        """Return the filters that are set, for the audit trail."""
        named = {
            "project": self.project,
            "warehouse": None if self.warehouse is None else str(self.warehouse),
            "namespace": None if self.namespace is None else list(self.namespace),
            "types": list(self.types) or None,
            "object_id": self.object_id,
            "payload": self.payload.value,
        }
        return {name: value for name, value in named.items() if value is not None}

    def event_filter(self) -> EventFilter:
        """Return the filter of the outbox. That of a warehouse finds its events alone: the project is checked."""
        return EventFilter(
            projects=(self.project,) if self.project is not None and self.warehouse is None else (),
            warehouses=() if self.warehouse is None else (self.warehouse,),
            namespaces=() if self.namespace is None else (self.namespace,),
            types=self.types,
            objects=() if self.object_id is None else (self.object_id,),
        )


class FeedPage(NamedTuple):
    """Events, the cursor after them, and whether there are more to compare with the filter at once."""

    events: list[CloudEvent]
    cursor: int
    has_more: bool


def open_feed_for(*, actor: Actor, feed_filter: FeedFilter) -> Feed:
    """Require the permission to read the events, record the read, and return the feed.

    Raises `NoSuchWarehouse` (404) for a missing or hidden warehouse, and `Forbidden` (403).
    """
    securable, project, has_earlier = authorize_feed(actor, feed_filter)
    record_event_read(
        actor=actor,
        object_type=securable.type.value,
        object_id=securable.id,
        project=project,
        filters=feed_filter.given(),
    )
    return Feed(actor, securable, feed_filter, first_position=creation_of(project) if has_earlier and project else 0)


class Feed:
    """The events that `actor` may read by the permission on `securable`, from `first_position` on."""

    def __init__(self, actor: Actor, securable: ObjectRef, feed_filter: FeedFilter, *, first_position: int) -> None:
        self._actor, self._securable = actor, securable
        self._filter, self._payload = feed_filter.event_filter(), feed_filter.payload
        self._first_position = first_position
        self._alias: str = settings.READ_DATABASE

    def is_allowed(self) -> bool:
        """Return whether the caller still has the permission; a denial is not audited."""
        return is_allowed(self._actor, Can.READ_EVENTS, *self._securable)

    def newest_cursor(self) -> int:
        """Return the cursor after all events that are published."""
        return read_state(self._alias).published

    def cursor_at(self, time: datetime) -> int:
        """Return a cursor before all events since `time`, and a few earlier ones. About 25 short statements."""
        state = read_state(self._alias)
        return position_at(self._alias, time, after=state.deleted, through=state.published)

    def require_cursor(self, cursor: int) -> None:
        """Raises `UnknownCursor` (400) for one that no event can have had yet."""
        newest = _newest(read_state(self._alias))
        if cursor > newest and self._alias != "default":
            newest = _newest(read_state())  # a replica may lag behind
        if cursor > newest:
            raise UnknownCursor(
                f"after: {cursor} is after the newest event ({newest}), so it is not a cursor of this server, or the "
                "database was restored. Continue with after=0 (the oldest event) or after=latest"
            )

    def read(self, after: int, *, limit: int, seconds: float = SCAN_SECONDS, max_bytes: int | None = None) -> FeedPage:
        """Return at most `limit` events after the cursor `after`; 0 is the oldest event that is kept.

        The first one reports events that were deleted before they could be read, if there are any. While none are
        found the search continues for `seconds`. Two statements for state and events, one for the state afterwards.
        `max_bytes` is as for `read_batch`. Raises `UnknownCursor`.
        """
        ends_at = monotonic() + seconds
        while True:
            page = self._read_page(after, limit, max_bytes)
            if page.events or not page.has_more or monotonic() >= ends_at:
                return page
            after = page.cursor

    def _read_page(self, after: int, limit: int, max_bytes: int | None) -> FeedPage:
        state = read_state(self._alias)
        if after > _newest(state):
            self.require_cursor(after)
        start = max(after, self._first_position) if after else max(self._first_position, state.deleted)
        while True:
            events, position = [], start
            if start < state.deleted:
                events, position = [_gap(start + 1, state.deleted)], state.deleted
            if position >= state.published or len(events) == limit:
                return FeedPage(events, position, position < state.published)
            batch = read_batch(
                self._alias,
                after=position,
                through=state.published,
                event_filter=self._filter,
                payload=self._payload,
                limit=limit - len(events),
                max_bytes=max_bytes,
            )
            deleted = read_state(self._alias).deleted
            if deleted <= position:
                found = [cloud_event_of(each, server_id=server_id(), payload=self._payload) for each in batch.events]
                return FeedPage(events + found, batch.through, batch.through < state.published)
            # Retention has deleted events before they were read.
            state = state._replace(deleted=deleted, published=max(deleted, state.published))


def authorize_feed(actor: Actor, feed_filter: FeedFilter) -> tuple[ObjectRef, str | None, bool]:
    """Require the permission; return its object, the project, and whether an earlier project of its id is hidden.

    The permission on a project covers events since its creation, as clients choose the ids of projects. Events of a
    deleted project need the permission on the server, as do those of all projects.
    """
    server = server_ref()
    if feed_filter.warehouse is not None:
        missing = no_such_warehouse(feed_filter.warehouse)
        rows = Warehouse.objects.using(settings.READ_DATABASE).filter(pk=feed_filter.warehouse)
        project = rows.values_list("project_id", flat=True).first()
        if project is None or feed_filter.project not in {None, project}:
            raise missing
        warehouse = ObjectRef(Securable.Type.WAREHOUSE, feed_filter.warehouse)
        require_permission(actor, Can.READ_EVENTS, *warehouse, missing=missing)
        return warehouse, project, False
    project = feed_filter.project
    if project is None:
        require_permission(actor, Can.READ_EVENTS, *server)
        return server, project, False
    securable = ObjectRef(Securable.Type.PROJECT, project)
    exists = Project.objects.using(settings.READ_DATABASE).filter(pk=project).exists()
    if not exists:
        if is_allowed(actor, Can.READ_EVENTS, *server):
            return server, project, False
        raise action_forbidden(actor, Can.READ_EVENTS, securable, None)  # as if it existed
    require_permission(actor, Can.READ_EVENTS, *securable)
    return securable, project, not is_allowed(actor, Can.READ_EVENTS, *server)


def creation_of(project: str) -> int:
    """Return the position before the creation of the project; 0 if that event is deleted, as all earlier ones are."""
    rows: Sequence[tuple[int | None]] = fetch_all(settings.READ_DATABASE, _CREATION, [f"project:{project}"])
    position = rows[0][0]
    return 0 if position is None else int(position) - 1


def _gap(first: int, last: int) -> CloudEvent:
    """Return the event that reports deleted events; equal for equal positions."""
    return gap_event(uuid5(server_id(), f"{first}-{last}"), first, last, server_id=server_id())


def _newest(state: State) -> int:
    return max(state.newest, state.published)
