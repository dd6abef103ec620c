"""OpenAPI descriptions of the operations on event sinks and their dead letters."""

from __future__ import annotations

from functools import partial
from typing import Final

from drf_spectacular.types import OpenApiTypes

from events.services.sinks import MAX_SINKS
from icekeeper.kernel.http.openapi import empty_response
from management.api.event_sinks.serializers import (
    CreateEventSinkRequest,
    DeadLetterCountResponse,
    DeadLetterDetailsResponse,
    DeadLetterListResponse,
    DeadLettersRequest,
    EventSinkListResponse,
    EventSinkPositionResponse,
    EventSinkResponse,
    StartPosition,
    UpdateEventSinkRequest,
)
from management.api.schema import BAD_PAGE, PAGE, TOO_LARGE, describe, operation, path_parameter

_operation = partial(operation, tag="event-sinks")

SINK_ID: Final = path_parameter("sink_id", "The sink's id")
POSITION: Final = path_parameter("position", "The position of the event", OpenApiTypes.INT)
NO_SINK: Final = "`EventSinkNotFound`"
BAD_SINK: Final = (
    "`InvalidEventSinkConfiguration`: the message names the members; `EndpointNotPermitted`: an address that the "
    "server may not connect to"
)
_SECRETS: Final = "`SecretStoreNotConfigured`"
_RIGHT: Final = "Requires the permission `manage_event_sinks` on the server."

describe_event_sinks = describe(
    list=_operation(
        "list_event_sinks",
        "List event sinks with the progress of their deliveries",
        description=f"By name. Secrets are not returned. {_RIGHT}",
        success={200: EventSinkListResponse},
    ),
    create=_operation(
        "create_event_sink",
        "Create an event sink",
        description=f"A worker begins to deliver within seconds. {_RIGHT}",
        request=CreateEventSinkRequest,
        success={201: EventSinkResponse},
        errors={
            400: BAD_SINK,
            409: f"`EventSinkNameAlreadyExists`; `TooManyEventSinks`: there are {MAX_SINKS}",
            412: _SECRETS,
            413: TOO_LARGE,
        },
    ),
    retrieve=_operation(
        "get_event_sink",
        "Get an event sink with the progress of its deliveries",
        description=f"Secrets are not returned. {_RIGHT}",
        parameters=[SINK_ID],
        success={200: EventSinkResponse},
        errors={404: NO_SINK},
    ),
    update=_operation(
        "update_event_sink",
        "Update an event sink",
        description="Replaces name, configuration, filter and payload; deliveries continue from the same position. "
        f"Unknown members are ignored, so that the response of a GET can be changed and sent. {_RIGHT}",
        parameters=[SINK_ID],
        request=UpdateEventSinkRequest,
        success={200: EventSinkResponse},
        errors={
            400: BAD_SINK,
            404: NO_SINK,
            409: "`EventSinkChanged`: it has another version; `EventSinkNameAlreadyExists`; `EventSinkOfSettings`: "
            "environment variables of the server configure it",
            412: _SECRETS,
            413: TOO_LARGE,
        },
    ),
    destroy=_operation(
        "delete_event_sink",
        "Delete an event sink and its dead letters",
        description=f"One of the server's settings is created again when the server starts. {_RIGHT}",
        parameters=[SINK_ID],
        success=empty_response("Deleted"),
        errors={404: NO_SINK},
    ),
    pause=_operation(
        "pause_event_sink",
        "Pause the deliveries to an event sink",
        parameters=[SINK_ID],
        request=None,
        success=empty_response("Paused, or was paused"),
        errors={404: NO_SINK},
    ),
    resume=_operation(
        "resume_event_sink",
        "Resume the deliveries to an event sink",
        description="A sink that waits after failures is tried at once.",
        parameters=[SINK_ID],
        request=None,
        success=empty_response("Resumed, or was not paused"),
        errors={404: NO_SINK},
    ),
    replay=_operation(
        "replay_event_sink",
        "Deliver events again from a position or time",
        description="A later position skips events. Of the events that are kept.",
        parameters=[SINK_ID],
        request=StartPosition,
        success={200: EventSinkPositionResponse},
        errors={404: NO_SINK},
    ),
    skip=_operation(
        "skip_event",
        "Skip the next event of an event sink",
        description="The event, which the receiver does not accept, becomes a dead letter, and deliveries continue "
        "after it.",
        parameters=[SINK_ID],
        request=None,
        success={200: DeadLetterDetailsResponse},
        errors={404: NO_SINK, 409: "`NoEventToSkip`: everything was delivered, or the event was meanwhile"},
    ),
    test=_operation(
        "test_event_sink",
        "Send a test event to an event sink",
        description="Of the type `testEventSink`, at once, also if the sink is paused.",
        parameters=[SINK_ID],
        request=None,
        success=empty_response("The receiver accepted it"),
        errors={404: NO_SINK, 502: "`EventNotDelivered`: the message has the reason"},
    ),
)

describe_dead_letters = describe(
    list=_operation(
        "list_dead_letters",
        "List the dead letters of an event sink",
        description="Events that the receiver rejected, or that were skipped, by position.",
        parameters=[SINK_ID, *PAGE],
        success={200: DeadLetterListResponse},
        errors={400: BAD_PAGE, 404: NO_SINK},
    ),
    retrieve=_operation(
        "get_dead_letter",
        "Get a dead letter with its event",
        parameters=[SINK_ID, POSITION],
        success={200: DeadLetterDetailsResponse},
        errors={404: f"{NO_SINK}, `DeadLetterNotFound`"},
    ),
    redeliver=_operation(
        "redeliver_dead_letters",
        "Send dead letters to their receiver again",
        description="A worker sends them within seconds, and deletes those that are accepted. Positions without a "
        "dead letter are ignored.",
        parameters=[SINK_ID],
        request=DeadLettersRequest,
        success={200: DeadLetterCountResponse},
        errors={404: NO_SINK, 413: TOO_LARGE},
    ),
    delete_several=_operation(
        "delete_dead_letters",
        "Delete dead letters",
        description="Positions without a dead letter are ignored.",
        parameters=[SINK_ID],
        request=DeadLettersRequest,
        success={200: DeadLetterCountResponse},
        errors={404: NO_SINK, 413: TOO_LARGE},
    ),
)
