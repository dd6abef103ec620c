"""Shapes of the feed of events, for its description: the responses are written without them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from management.api.serializers import ResponseSerializer, Text


@extend_schema_field({"nullable": True, "description": "What the change was; null for `summary` and `ids`"})
class EventData(serializers.Field[Any, Any, Any, Any]):
    """Any JSON value; most are objects."""


class CloudEventResponse(ResponseSerializer):
    """A [CloudEvent](https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md). Attributes
    that an event does not have are absent."""

    specversion = Text(help_text="`1.0`")
    id = serializers.UUIDField(help_text="Unique; the same each time the event is read or delivered")
    source = Text(  # type: ignore[assignment]  # DRF takes declared fields out of the class
        help_text="`uri:iceberg-catalog-service:` and the id of the server"
    )
    type = Text(help_text="Such as `updateTable`; `eventsDeleted` reports events that retention has deleted")
    datacontenttype = Text(help_text="`application/json`")
    time = serializers.DateTimeField(required=False)
    subject = Text(required=False, help_text="The id of the object that changed")
    project_id = Text(required=False)
    warehouse_id = serializers.UUIDField(required=False)
    tabular_type = serializers.ChoiceField(["table", "view", "generic-table"], required=False)
    tabular_id = Text(required=False, help_text="As `subject`")
    name = Text(required=False, help_text="The name of the object; not with `payload=ids`")
    namespace = Text(required=False, help_text="The levels of its namespace, joined by dots or by U+001F")
    prefix = Text(required=False)
    num_events = serializers.IntegerField(required=False, help_text="Number of events of the same change")
    sequence_number = serializers.IntegerField(required=False, help_text="Position among them, from 0")
    trace_id = Text(required=False, help_text="`X-Request-Id` of the request; empty outside of requests")
    actor = Text(required=False, help_text="Who changed the object, as JSON text")
    objectkey = Text(required=False, help_text="Type and internal id of the object")
    objectsequence = Text(required=False, help_text="Number of the event among those of its object, without gaps")
    position = Text(help_text="Position in the feed, a cursor")
    data = EventData()  # type: ignore[assignment]


class EventPageResponse(ResponseSerializer):
    events = CloudEventResponse(many=True)
    next = Text(help_text="The cursor after these events: `after` of the next request")
    has_more = serializers.BooleanField(help_text="Whether to send the next request at once")
