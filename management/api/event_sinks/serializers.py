"""Requests and responses about event sinks and their dead letters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_field
from rest_framework import serializers

from events.cloud_events import Payload
from events.models import DeadLetter, EventSink
from events.outbox import EventFilter
from events.selectors.sinks import SinkState, SinkStatus
from events.services.sink_filters import MAX_FILTER_VALUES
from events.services.sinks import SinkSettings, Start
from icekeeper.kernel.errors.types import BadRequest
from management.api.event_sinks.configuration_shapes import CONFIGURATION_SHAPES
from management.api.serializers import (
    LAST_PAGE,
    Choice,
    Flag,
    IdText,
    KebabSerializer,
    Number,
    ResponseSerializer,
    StrictSerializer,
    Text,
    read_uuid,
)
from management.api.tasks.serializers import Document

MAX_POSITION: Final = 2**62
MAX_POSITIONS: Final = 1000
"""Dead letters of one request."""
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)

_CONFIGURATION = PolymorphicProxySerializer("EventSinkConfiguration", CONFIGURATION_SHAPES, "type")
PAYLOADS: Final = [each.value for each in Payload]
_NAME: Final = "Unique on the server"
_PAYLOAD: Final = "`full`: events with data; `summary`: without data; `ids`: without data and names"
_FILTER: Final = "The events that the sink gets: those with one value of each kind that has values"


@extend_schema_field(_CONFIGURATION)
class ConfigurationDocument(Document):
    """The configuration of a sink, which `events.sinks.definition` validates."""


class EventSinkFilter(StrictSerializer):
    projects = serializers.ListField(
        child=Text(), required=False, max_length=MAX_FILTER_VALUES, help_text="Ids of projects; empty or absent: all"
    )
    warehouses = serializers.ListField(
        child=IdText(),
        required=False,
        max_length=MAX_FILTER_VALUES,
        help_text="Ids of warehouses; empty or absent: all",
    )
    namespaces = serializers.ListField(
        child=serializers.ListField(child=Text()),
        required=False,
        max_length=MAX_FILTER_VALUES,
        help_text="Lists of levels: events of the namespace and of everything in it; empty or absent: all",
    )
    types = serializers.ListField(
        child=Text(),
        required=False,
        max_length=MAX_FILTER_VALUES,
        help_text="Types of events such as `updateTable`; empty or absent: all",
    )


class StartPosition(StrictSerializer):
    """Exactly one of the members."""

    position = Number(
        required=False, min_value=0, max_value=MAX_POSITION, help_text="After the event with this `position`"
    )
    time = serializers.DateTimeField(required=False, help_text="With the events since this time, and few earlier ones")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        start = Choice(
            ["earliest", "latest"], required=False, help_text="With the oldest event that is kept, or with the next one"
        )
        return {**super().get_fields(), "from": start}  # which cannot be the name of an attribute


class CreateEventSinkRequest(StrictSerializer):
    name = Text(help_text=_NAME)
    configuration = ConfigurationDocument()
    filter = EventSinkFilter(required=False, help_text=_FILTER)
    payload = Choice(PAYLOADS, default=Payload.FULL.value, help_text=f"{_PAYLOAD}; default: full")
    start = StartPosition(required=False, help_text="Where deliveries begin; default: with the next event")
    is_paused = Flag(default=False, help_text="Whether deliveries wait until the sink is resumed; default: false")


class UpdateEventSinkRequest(KebabSerializer):
    # Ignores other members, so that the response of a GET can be changed and sent back; none is optional.
    name = Text(help_text=_NAME)
    configuration = ConfigurationDocument(
        help_text="The whole configuration, of the same type. Secrets that it does not have stay as they are, unless "
        "it changes where they are sent"
    )
    filter = EventSinkFilter(help_text=_FILTER)
    payload = Choice(PAYLOADS, help_text=_PAYLOAD)
    version = Number(min_value=1, max_value=2**31 - 1, help_text="The version that the caller read")


class DeadLettersRequest(StrictSerializer):
    positions = serializers.ListField(
        child=Number(min_value=0, max_value=MAX_POSITION),
        required=False,
        allow_null=True,
        max_length=MAX_POSITIONS,
        help_text="Positions of the events; default: all dead letters of the sink",
    )


class EventSinkFilterResponse(ResponseSerializer):
    projects = serializers.ListField(child=Text(), required=False)
    warehouses = serializers.ListField(child=serializers.UUIDField(), required=False)
    namespaces = serializers.ListField(child=serializers.ListField(child=Text()), required=False)
    types = serializers.ListField(child=Text(), required=False)


class EventSinkDelivery(ResponseSerializer):
    status = serializers.ChoiceField(
        [each.value for each in SinkStatus],
        help_text="`up-to-date`, `delivering`: there are events to deliver; `failing`: the last delivery failed and is "
        "repeated; `paused`; `stopped`: no worker delivers",
    )
    position = serializers.IntegerField(help_text="Events up to this position were delivered or skipped")
    lag = serializers.IntegerField(help_text="Number of positions after it, also of events that the filter excludes")
    lag_seconds = serializers.FloatField(help_text="Age of the oldest event after it; 0 without one")
    delivered = serializers.IntegerField(help_text="Number of events that were delivered, with repetitions")
    failures = serializers.IntegerField(help_text="Failed deliveries since the last success")
    dead_letters = serializers.IntegerField(
        help_text="Number of events that the receiver rejected, or that were skipped"
    )
    retry_at = serializers.DateTimeField(required=False, help_text="After a failure: the time of the next delivery")
    last_error = Text(required=False)
    last_error_at = serializers.DateTimeField(required=False)
    last_delivery_at = serializers.DateTimeField(required=False)

    def render_position(self, state: SinkState) -> int:
        return state.sink.position

    def render_delivered(self, state: SinkState) -> int:
        return state.sink.delivered

    def render_failures(self, state: SinkState) -> int:
        return state.sink.failures

    def render_retry_at(self, state: SinkState) -> datetime | None:
        return state.sink.retry_at

    def render_last_error(self, state: SinkState) -> str | None:
        return state.sink.last_error or None

    def render_last_error_at(self, state: SinkState) -> datetime | None:
        return state.sink.last_error_at

    def render_last_delivery_at(self, state: SinkState) -> datetime | None:
        return state.sink.last_delivery_at


class EventSinkResponse(ResponseSerializer):
    id = serializers.UUIDField()
    name = Text()
    type = serializers.ChoiceField(EventSink.Type.values)
    configuration = _CONFIGURATION
    filter = EventSinkFilterResponse(help_text=_FILTER)
    payload = serializers.ChoiceField(PAYLOADS, help_text=_PAYLOAD)
    version = serializers.IntegerField(help_text="Counts the updates")
    is_from_settings = serializers.BooleanField(help_text="Whether environment variables of the server configure it")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    delivery = EventSinkDelivery()

    def to_representation(self, instance: SinkState) -> dict[str, Any]:
        return super().to_representation(_members_of(instance))


class EventSinkListResponse(ResponseSerializer):
    event_sinks = EventSinkResponse(many=True, help_text="By name")


class EventSinkPositionResponse(ResponseSerializer):
    position = serializers.IntegerField(help_text="Deliveries begin after this position")


class DeadLetterResponse(ResponseSerializer):
    position = serializers.IntegerField(help_text="The position of the event")
    event_id = serializers.UUIDField()
    type = Text()
    object_key = Text(help_text="Type and internal id of the object")
    error = Text(help_text="Why it was rejected or skipped")
    at = serializers.DateTimeField(help_text="When it was rejected or skipped the last time")
    is_redelivered = serializers.BooleanField(help_text="Whether it is about to be sent again")


class DeadLetterDetailsResponse(DeadLetterResponse):
    event = serializers.DictField(help_text="The CloudEvent as it was sent")

    def render_event(self, letter: DeadLetter) -> dict[str, Any]:
        return letter.document()


class DeadLetterListResponse(ResponseSerializer):
    dead_letters = DeadLetterResponse(many=True, help_text="By position")
    next_page_token = Text(required=False, help_text=LAST_PAGE)


class DeadLetterCountResponse(ResponseSerializer):
    count = serializers.IntegerField(help_text="Number of dead letters")


def read_settings(body: dict[str, Any]) -> SinkSettings:
    """Return the settings in a checked request. Raises `BadRequest` for malformed ids."""
    given = body.get("filter", {})
    warehouses = [
        read_uuid(each, f"filter.warehouses[{index}]") for index, each in enumerate(given.get("warehouses", ()))
    ]
    event_filter = EventFilter(
        projects=tuple(given.get("projects", ())),
        warehouses=tuple(warehouses),
        namespaces=tuple(tuple(levels) for levels in given.get("namespaces", ())),
        types=tuple(given.get("types", ())),
    )
    return SinkSettings(
        name=body["name"],
        configuration=body["configuration"],
        event_filter=event_filter,
        payload=Payload(body["payload"]),
    )


def read_start(given: dict[str, Any], where: str = "") -> Start:
    """Return where deliveries begin. Raises `BadRequest` unless there is exactly one member."""
    if len(given) != 1:
        raise BadRequest(f"{where}exactly one of position, time and from is required")
    start: Start = next(iter(given.values()))
    if isinstance(start, datetime) and not EARLIEST <= start <= LATEST:
        raise BadRequest(f"{where}time: must be from {EARLIEST:%Y} to {LATEST:%Y}")
    return start


def _members_of(state: SinkState) -> dict[str, Any]:
    sink = state.sink
    return {
        "id": sink.pk,
        "name": sink.name,
        "type": sink.type,
        "configuration": state.configuration,
        "filter": sink.filter,
        "payload": sink.payload,
        "version": sink.version,
        "is_from_settings": sink.is_from_settings,
        "created_at": sink.created_at,
        "updated_at": sink.updated_at,
        "delivery": state,
    }
