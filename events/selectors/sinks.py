"""Sinks and their dead letters, for administrators of sinks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from django.db.models import Count, QuerySet
from django.db.models.functions import Now

from events.models import DeadLetter, EventSink
from events.publication import State, read_state
from events.sinks.definition import SECRET_NAMES, InvalidConfiguration, SinkDefinition
from events.sinks.server_configuration import sinks_of_settings
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import as_datetime, as_uuid, fetch_all
from icekeeper.kernel.errors.types import InvalidPageToken, NotFound
from icekeeper.kernel.http.paging import Page, build_page
from storage.secrets.stores import read_secret
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import is_allowed, require_permission
from tenancy.selectors.projects import server_ref


class SinkNotFound(NotFound):
    wire_type = "EventSinkNotFound"


class DeadLetterNotFound(NotFound):
    wire_type = "DeadLetterNotFound"


class SinkStatus(StrEnum):
    PAUSED = "paused"
    FAILING = "failing"
    """The last delivery failed; it is repeated."""
    STOPPED = "stopped"
    """No worker delivers: none runs, or none has the settings of the sink."""
    DELIVERING = "delivering"
    """There are events to deliver."""
    UP_TO_DATE = "up-to-date"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkState:
    """A sink with its progress. `lag` is the number of positions behind, `lag_seconds` the age of the next event."""

    sink: EventSink
    status: SinkStatus
    configuration: dict[str, Any]
    """As the API shows it: without secrets, but with their names."""
    lag: int
    lag_seconds: float
    dead_letters: int


CLAIM_SECONDS: Final = 15.0
"""Time in which a running worker claims a sink that was changed."""


def sink_not_found(sink_id: object) -> SinkNotFound:
    return SinkNotFound(f"Event sink {sink_id} does not exist")


def dead_letter_not_found(position: object) -> DeadLetterNotFound:
    return DeadLetterNotFound(f"The sink has no dead letter with the position {position}")


def require_sink_management(actor: Actor) -> None:
    """Raise `Forbidden` unless the actor may manage sinks, which get events of all projects."""
    require_permission(actor, Can.MANAGE_EVENT_SINKS, *server_ref())


def list_sinks_for(*, actor: Actor) -> list[SinkState]:
    """Return all sinks by name. Three statements and the check of the permission. Raises `Forbidden`."""
    require_sink_management(actor)
    return _with_states(EventSink.objects.order_by("name"))


def get_sink_for(*, actor: Actor, sink_id: UUID) -> SinkState:
    """Raises `Forbidden`, `SinkNotFound`."""
    require_sink_management(actor)
    found = _with_states(EventSink.objects.filter(pk=sink_id))
    if not found:
        raise sink_not_found(sink_id)
    return found[0]


def list_troubled_sinks_for(*, actor: Actor) -> list[SinkState]:
    """Return the sinks that fail, are stopped or have dead letters, by name; none without the permission."""
    if not is_allowed(actor, Can.MANAGE_EVENT_SINKS, *server_ref()):
        return []
    states = _with_states(EventSink.objects.order_by("name"))
    return [each for each in states if each.dead_letters or each.status in {SinkStatus.FAILING, SinkStatus.STOPPED}]


def list_dead_letters_for(*, actor: Actor, sink_id: UUID, page: Page) -> tuple[list[DeadLetter], str | None]:
    """Return dead letters by position, without their events, and the next page token.

    Raises `Forbidden`, `SinkNotFound`, `InvalidPageToken`.
    """
    require_sink_management(actor)
    _require_sink(sink_id)
    rows = DeadLetter.objects.filter(sink=sink_id).order_by("position").defer("event")
    if page.token:
        rows = rows.filter(position__gt=_read_position(page.after_key()))
    return build_page([(str(row.position), row) for row in rows[: page.sql_limit]], page)


def get_dead_letter_for(*, actor: Actor, sink_id: UUID, position: int) -> DeadLetter:
    """Raises `Forbidden`, `SinkNotFound`, `DeadLetterNotFound`."""
    require_sink_management(actor)
    _require_sink(sink_id)
    letter = DeadLetter.objects.filter(sink=sink_id, position=position).first()
    if letter is None:
        raise dead_letter_not_found(position)
    return letter


def _require_sink(sink_id: UUID) -> None:
    if not EventSink.objects.filter(pk=sink_id).exists():
        raise sink_not_found(sink_id)


def _read_position(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise InvalidPageToken("Invalid page token")
    return int(text)


def read_definition_of(sink: EventSink) -> SinkDefinition:
    """Return the configuration of a sink with its secrets. Raises `InvalidConfiguration`, errors of secret stores."""
    if sink.is_from_settings:
        try:
            return sinks_of_settings()[sink.name]
        except KeyError:
            reason = (
                f"this process has no settings of the sink {sink.name}: set the environment variables of the server"
            )
            raise InvalidConfiguration({"settings": reason}) from None
        except ValueError as error:
            raise InvalidConfiguration({"settings": str(error)}) from None
    secrets = {} if sink.secret_id is None else read_secret(sink.secret_id)
    return SinkDefinition.from_storage(sink.configuration, secrets)


def describe_configuration(sink: EventSink) -> dict[str, Any]:
    """Return the configuration as the API shows it; of a sink of the settings that this process does not have, only
    the type.
    """
    if not sink.is_from_settings:
        return {**sink.configuration, SECRET_NAMES: sink.secret_names}
    try:
        return read_definition_of(sink).describe()
    except InvalidConfiguration:
        return {"type": sink.type, SECRET_NAMES: []}


_NEXT: Final = """
SELECT s.id, (SELECT e.at FROM tenancy_outboxevent AS e WHERE e.position > s.position ORDER BY e.position LIMIT 1)
  FROM events_eventsink AS s WHERE s.id = ANY(%s)
"""


def _with_states(rows: QuerySet[EventSink]) -> list[SinkState]:
    sinks = list(rows.annotate(read_at=Now(), letters=Count("dead_letters")))
    if not sinks:
        return []
    state = read_state()
    next_events = {
        as_uuid(sink_id): as_datetime(at)
        for sink_id, at in fetch_all("default", _NEXT, [[sink.pk for sink in sinks]])
        if at is not None
    }
    return [_state_of(sink, state, next_events.get(sink.pk)) for sink in sinks]


def _state_of(sink: Any, state: State, next_event_at: datetime | None) -> SinkState:
    lag = max(0, max(state.newest, state.published) - sink.position)
    age = (now() - next_event_at).total_seconds() if lag and next_event_at is not None else 0.0
    return SinkState(
        sink=sink,
        status=_status(sink, lag),
        configuration=describe_configuration(sink),
        lag=lag,
        lag_seconds=max(0.0, age),
        dead_letters=sink.letters,
    )


def _status(sink: Any, lag: int) -> SinkStatus:
    if sink.is_paused:
        return SinkStatus.PAUSED
    if sink.leased_until is None or sink.leased_until + timedelta(seconds=CLAIM_SECONDS) < sink.read_at:
        return SinkStatus.STOPPED
    if sink.failures:
        return SinkStatus.FAILING
    return SinkStatus.DELIVERING if lag else SinkStatus.UP_TO_DATE
