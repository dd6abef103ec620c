"""Services that create, update and delete sinks, and control their deliveries.

Each change ends the lease of the worker that delivers: it records nothing any more, and a worker continues within
seconds with the new configuration.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal
from urllib.parse import urlsplit
from uuid import UUID

from django.db import IntegrityError
from django.db.models import QuerySet

from events.cloud_events import CloudEvent, Payload, cloud_event_of, connection_test_event
from events.delivery.opening import open_sink_of
from events.models import MAX_NAME_LENGTH, DeadLetter, EventSink, dead_letter_of, stored_filter
from events.outbox import EventFilter, position_at, read_batch
from events.publication import State, read_state
from events.selectors.sinks import read_definition_of, require_sink_management, sink_not_found
from events.services.sink_filters import require_valid_filter
from events.sinks.definition import InvalidConfiguration, SinkDefinition, read_definition
from events.sinks.opening import require_permitted_addresses
from events.sinks.port import DeliveryError
from events.sinks.server_configuration import sinks_of_settings
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import database_time, lock_row
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Conflict
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import require_trimmed_name
from icekeeper.kernel.threads import release_thread_slot
from storage.errors import StoreUnavailable
from storage.secrets.port import SecretUnreadable
from storage.secrets.stores import NewSecret, delete_secret, new_secret
from tenancy.actor import Actor
from tenancy.audit.recording import actor_name
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import ChangeTransaction, change
from tenancy.models import OutboxState
from tenancy.selectors.projects import server_id

logger = logging.getLogger("icekeeper.events")

MAX_SINKS: Final = 64
"""Sinks of a server: each takes a connection and a thread of a worker."""


class SinkNameExists(Conflict):
    wire_type = "EventSinkNameAlreadyExists"


class SinkChanged(Conflict):
    """The sink was updated after the caller read it."""

    wire_type = "EventSinkChanged"


class TooManySinks(Conflict):
    wire_type = "TooManyEventSinks"


class SinkOfSettings(Conflict):
    """The configuration of the sink is in the settings of the server."""

    wire_type = "EventSinkOfSettings"


class NoEventToSkip(Conflict):
    """Everything was delivered, or the event was delivered meanwhile."""

    wire_type = "NoEventToSkip"


class EventNotDelivered(CatalogError):
    """The receiver did not accept the test event."""

    status, wire_type = 502, "EventNotDelivered"


class InvalidSinkConfiguration(BadRequest):
    wire_type = "InvalidEventSinkConfiguration"


@dataclass(frozen=True, kw_only=True)
class SinkSettings:
    """What an administrator sets: the document of the configuration has secrets, too."""

    name: str
    configuration: dict[str, Any]
    event_filter: EventFilter = field(default_factory=EventFilter)
    payload: Payload = Payload.FULL


Start = Literal["earliest", "latest"] | datetime | int
"""Where deliveries begin: at an end of the events that are kept, at a time, or after a position."""


def start_position(start: Start, state: State) -> int:
    """Return the position after which deliveries begin. Raises `BadRequest` for one that no kept event has."""
    if start == "latest":
        return state.published
    if start == "earliest":
        return state.deleted
    if isinstance(start, datetime):
        return position_at("default", start, after=state.deleted, through=state.published)
    if not isinstance(start, int) or not state.deleted <= start <= state.published:
        kept = f"from {state.deleted} to {state.published}, the events that are kept"
        raise BadRequest(f"position: must be {kept}", field="position")
    return start


def create_sink(*, actor: Actor, wanted: SinkSettings, start: Start = "latest", is_paused: bool = False) -> EventSink:
    """Create a sink; a worker begins to deliver within seconds.

    Raises `Forbidden`, `BadRequest`, `InvalidSinkConfiguration`, `SinkNameExists`, `TooManySinks`,
    `EndpointNotPermitted`, and the errors of secret stores.
    """
    require_sink_management(actor)
    name = _checked_name(wanted.name)
    require_valid_filter(wanted.event_filter)
    position = start_position(start, read_state())
    definition = _read_definition(wanted.configuration)
    with _storing(definition) as secret, _unique_name(name), change(actor) as tx:
        _require_another_sink_allowed()
        sink = EventSink(
            name=name, type=definition.kind, configuration=definition.stored_configuration(),
            secret_names=definition.secrets.names, filter=stored_filter(wanted.event_filter),
            payload=wanted.payload.value, position=position, is_paused=is_paused, leased_until=database_time(),
        )  # fmt: skip
        if secret is not None:
            secret.store()
            sink.secret_id = secret.id
        sink.save(force_insert=True)
        _record(tx, Change.EVENT_SINK_CREATED, sink, **_described(sink), after_position=position)
    return sink


def update_sink(*, actor: Actor, sink_id: UUID, version: int, wanted: SinkSettings) -> EventSink:
    """Replace the settings of a sink, which has the given version. Its position stays.

    Secrets that the configuration does not have are kept. Raises as `create_sink`, `SinkNotFound`, `SinkChanged`,
    `SinkOfSettings`.
    """
    require_sink_management(actor)
    seen = _require_version(_require_own(_find(sink_id)), version)
    name = _checked_name(wanted.name)
    require_valid_filter(wanted.event_filter, known=seen.event_filter())
    definition = _read_definition(wanted.configuration, _stored_definition(seen))
    if definition.kind != seen.type:
        raise InvalidSinkConfiguration(f"type: the sink has the type {seen.type}; create another one")
    with _storing(definition) as secret, _unique_name(name), change(actor) as tx:
        sink = _require_version(_lock(sink_id), version)
        former = sink.secret_id
        sink.name, sink.configuration = name, definition.stored_configuration()
        sink.filter, sink.payload = stored_filter(wanted.event_filter), wanted.payload.value
        sink.secret_id, sink.secret_names = None, definition.secrets.names
        if secret is not None:
            secret.store()
            sink.secret_id = secret.id
        sink.version += 1
        sink.updated_at = now()
        if former is not None:
            delete_secret(former)
        _save(sink, retry_at=None, failures=0)
        _record(tx, Change.EVENT_SINK_UPDATED, sink, **_described(sink))
    return sink


def delete_sink(*, actor: Actor, sink_id: UUID) -> None:
    """Delete a sink with its dead letters. One of the settings is created again when a worker with them starts.

    Raises `Forbidden`, `SinkNotFound`.
    """
    require_sink_management(actor)
    with change(actor) as tx:
        sink = _lock(sink_id)
        sink.delete()
        if sink.secret_id is not None:
            delete_secret(sink.secret_id)
        sink.pk = sink_id
        _record(tx, Change.EVENT_SINK_DELETED, sink, position=sink.position)


def pause_sink(*, actor: Actor, sink_id: UUID) -> None:
    """Stop the deliveries until `resume_sink`; nothing changes if they are stopped. Raises as `delete_sink`."""
    _set_paused(actor, sink_id, is_paused=True)


def resume_sink(*, actor: Actor, sink_id: UUID) -> None:
    """Continue the deliveries at once, also those of a sink that waits after failures. Raises as `delete_sink`."""
    _set_paused(actor, sink_id, is_paused=False)


def replay_sink(*, actor: Actor, sink_id: UUID, start: Start) -> int:
    """Deliver again, or skip, from `start` on; return the position after which deliveries begin.

    Raises as `delete_sink`, and `BadRequest` for a position that no kept event has.
    """
    require_sink_management(actor)
    position = start_position(start, read_state())
    with change(actor) as tx:
        sink = _lock(sink_id)
        former, sink.position = sink.position, position
        _save(sink, retry_at=None, failures=0)
        _record(tx, Change.EVENT_SINK_REPLAYED, sink, from_position=former, to_position=position)
    return position


def skip_event(*, actor: Actor, sink_id: UUID) -> DeadLetter:
    """Convert the next event of a sink, which the receiver does not accept, to a dead letter.

    Raises as `delete_sink`, and `NoEventToSkip` (409).
    """
    require_sink_management(actor)
    seen = _find(sink_id)
    event = _next_event(seen)
    with change(actor) as tx:
        sink = _lock(sink_id)
        if sink.version != seen.version or not seen.position <= sink.position < event.position:
            raise NoEventToSkip(f"Event sink {sink.name} was changed, or the event was delivered: try again")
        reason = f"Skipped by {actor_name(actor)}." + (f" Last error: {sink.last_error}" if sink.failures else "")
        letter = dead_letter_of(sink.pk, event, reason)
        DeadLetter.objects.filter(sink=sink.pk, position=event.position).delete()
        letter.save(force_insert=True)
        sink.position = event.position
        _save(sink, retry_at=None, failures=0)
        _record(tx, Change.EVENT_SKIPPED, sink, position=event.position, event=event.id)
    return letter


def _next_event(sink: EventSink) -> CloudEvent:
    """Return the next event that the sink gets, as it is delivered. Raises `NoEventToSkip`."""
    state, payload = read_state(), Payload(sink.payload)
    position = max(sink.position, state.deleted)
    while position < state.published:
        events, position = read_batch(
            "default", after=position, through=state.published, event_filter=sink.event_filter(), payload=payload,
            limit=1,
        )  # fmt: skip
        if events:
            return cloud_event_of(events[0], server_id=server_id(), payload=payload)
    raise NoEventToSkip(f"Event sink {sink.name} has no event to deliver")


def redeliver_dead_letters(*, actor: Actor, sink_id: UUID, positions: Sequence[int] | None = None) -> int:
    """Send dead letters again, all or those of `positions`; return their number. Raises as `delete_sink`."""
    require_sink_management(actor)
    with change(actor) as tx:
        sink = _lock(sink_id)
        count = _letters(sink, positions).update(is_redelivered=True)
        if count:
            _save(sink, retry_at=None)
            _record(tx, Change.DEAD_LETTERS_REDELIVERED, sink, number=count)
    return count


def delete_dead_letters(*, actor: Actor, sink_id: UUID, positions: Sequence[int] | None = None) -> int:
    """Delete dead letters, all or those of `positions`; return their number. Raises as `delete_sink`."""
    require_sink_management(actor)
    with change(actor) as tx:
        sink = _lock(sink_id)
        count, _ = _letters(sink, positions).delete()
        if count:
            _record(tx, Change.DEAD_LETTERS_DELETED, sink, number=count)
    return count


def send_test_event(*, actor: Actor, sink_id: UUID) -> None:
    """Send an event of the type `testEventSink` now, which is in no outbox.

    Raises as `delete_sink`, and `EventNotDelivered` (502) with the reason.
    """
    require_sink_management(actor)
    sink = _find(sink_id)
    try:
        connection = open_sink_of(sink)
        try:
            with release_thread_slot():
                errors = connection.send([connection_test_event(new_id(), server_id=server_id())])
        finally:
            connection.close()
    except DeliveryError as error:
        raise EventNotDelivered(f"The test event was not delivered: {error}") from None
    if errors:
        raise EventNotDelivered(f"The test event was not delivered: {errors[0]}")


def create_sinks_of_settings() -> None:
    """Create the rows of sinks of the settings that have none; deliveries begin with the next event.

    A sink of the API with such a name keeps it, and the one of the settings gets none: an error is logged.
    """
    for name, definition in sinks_of_settings().items():
        row, is_new = EventSink.objects.get_or_create(
            name=name,
            defaults={
                "type": definition.kind,
                "is_from_settings": True,
                "position": read_state().published,
            },
        )
        if is_new:
            logger.info("events are delivered from now on", extra={"sink": name, "position": row.position})
        elif not row.is_from_settings:
            logger.error("a sink of the API has the name of one of the settings", extra={"sink": name})


def _set_paused(actor: Actor, sink_id: UUID, *, is_paused: bool) -> None:
    require_sink_management(actor)
    with change(actor) as tx:
        sink = _lock(sink_id)
        if sink.is_paused == is_paused and (is_paused or not sink.failures):
            return
        has_changed, sink.is_paused = sink.is_paused != is_paused, is_paused
        _save(sink, retry_at=None)
        if has_changed:
            _record(tx, Change.EVENT_SINK_PAUSED if is_paused else Change.EVENT_SINK_RESUMED, sink)


def _save(sink: EventSink, **progress: Any) -> None:
    """Save a locked sink, and end the lease of its worker; a worker can claim the sink at once."""
    for name, value in progress.items():
        setattr(sink, name, value)
    sink.lease += 1
    sink.leased_until = database_time()
    sink.save()


def _record(tx: ChangeTransaction, kind: Change, sink: EventSink, **details: Any) -> None:
    tx.record(kind, subject=sink.pk, named=sink.name, **details)


def _described(sink: EventSink) -> dict[str, Any]:
    """Return what audit record and event have: no secrets, and no path of a URL, which is one with some receivers."""
    shown = dict(sink.configuration)
    if "url" in shown:
        parts = urlsplit(shown["url"])
        shown["url"] = f"{parts.scheme}://{parts.netloc}"
    return {"sink_type": sink.type, "configuration": shown, "filter": sink.filter, "payload": sink.payload}


def _find(sink_id: UUID) -> EventSink:
    sink = EventSink.objects.filter(pk=sink_id).first()
    if sink is None:
        raise sink_not_found(sink_id)
    return sink


def _lock(sink_id: UUID) -> EventSink:
    sink = lock_row(EventSink, "id = %s", [sink_id], mode="UPDATE")
    if sink is None:
        raise sink_not_found(sink_id)
    return sink


def _require_own(sink: EventSink) -> EventSink:
    if sink.is_from_settings:
        raise SinkOfSettings(f"Event sink {sink.name} is configured by the environment of the server")
    return sink


def _require_version(sink: EventSink, version: int) -> EventSink:
    if sink.version != version:
        raise SinkChanged(f"Event sink {sink.name} was changed by another request: it has the version {sink.version}")
    return sink


def _require_another_sink_allowed() -> None:
    """Raise `TooManySinks`; concurrent requests wait here for each other."""
    lock_row(OutboxState, "id = %s", [OutboxState.ONLY])
    if EventSink.objects.count() >= MAX_SINKS:
        raise TooManySinks(f"A server has at most {MAX_SINKS} event sinks")


def _checked_name(name: str) -> str:
    if len(name) > MAX_NAME_LENGTH:
        raise BadRequest(f"name: longer than {MAX_NAME_LENGTH} characters", field="name")
    return require_trimmed_name(name, "name")


def _letters(sink: EventSink, positions: Sequence[int] | None) -> QuerySet[DeadLetter]:
    letters = DeadLetter.objects.filter(sink=sink.pk)
    return letters if positions is None else letters.filter(position__in=positions)


def _read_definition(document: dict[str, Any], stored: SinkDefinition | None = None) -> SinkDefinition:
    try:
        definition = read_definition(document, stored)
        require_permitted_addresses(definition.configuration)
    except InvalidConfiguration as error:
        member = next(iter(error.errors)).partition(".")[0]
        raise InvalidSinkConfiguration(str(error), field=member if len(error.errors) == 1 else None) from None
    except StoreUnavailable as error:  # the name of a host cannot be resolved
        raise InvalidSinkConfiguration(error.message) from None
    return definition


def _stored_definition(sink: EventSink) -> SinkDefinition | None:
    """Return the stored configuration; None if it cannot be read, so that a complete update repairs it."""
    try:
        return read_definition_of(sink)
    except (InvalidConfiguration, SecretUnreadable):
        return None


def _storing(definition: SinkDefinition) -> AbstractContextManager[NewSecret | None]:
    secrets = definition.stored_secrets()
    return new_secret(secrets) if secrets else nullcontext()


@contextmanager
def _unique_name(name: str) -> Iterator[None]:
    try:
        yield
    except IntegrityError:  # of the only unique column besides the id
        raise SinkNameExists(f"An event sink with the name {name} exists", field="name") from None
