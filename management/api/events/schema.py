"""OpenAPI description of the feed of events."""

from __future__ import annotations

from functools import partial
from typing import Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse

from events.cloud_events import Payload
from management.api.events.serializers import EventPageResponse
from management.api.events.stream import MEDIA_TYPE
from management.api.schema import NO_WAREHOUSE, PROJECT_HEADER, describe, operation
from tenancy.changes.kinds import Change

_operation = partial(operation, tag="events")
DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 1000
MAX_WAIT_SECONDS: Final = 30
LATEST: Final = "latest"
EVENT_TYPES: Final = frozenset(each.value.event_type for each in Change)

PARAMETERS: Final = [
    OpenApiParameter(
        "after",
        OpenApiTypes.STR,
        description="The cursor: `next` of the previous page, or the `position` of an event. `0`, the default: from "
        "the oldest event that is kept. `latest`: only events after now; without `wait` the page has the cursor alone",
    ),
    OpenApiParameter(
        "since",
        OpenApiTypes.DATETIME,
        description="Instead of `after`: events since this time, with a time zone, and a few earlier ones",
    ),
    OpenApiParameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT},
        description=f"Maximum number of events; default: {DEFAULT_LIMIT}",
    ),
    OpenApiParameter(
        "warehouseId", OpenApiTypes.UUID, description="Only events of this warehouse and of the objects in it"
    ),
    OpenApiParameter(
        "projectId",
        OpenApiTypes.STR,
        description="Only events of this project; takes precedence over the header `x-project-id`, which does not "
        "count with `warehouseId`",
    ),
    OpenApiParameter(
        "namespace",
        OpenApiTypes.STR,
        description="Only events of this namespace and of the objects in it, as it is spelled in the catalog: its "
        "levels joined by U+001F (`%1F`). Needs `warehouseId`",
    ),
    OpenApiParameter("type", OpenApiTypes.STR, many=True, description="Only events of these types: `type=a&type=b`"),
    OpenApiParameter("objectId", OpenApiTypes.STR, description="Only events with this `subject`"),
    OpenApiParameter(
        "payload",
        OpenApiTypes.STR,
        enum=list(Payload),
        description="`full`, the default; `summary`: no `data`; `ids`: neither `data` nor names",
    ),
    OpenApiParameter(
        "wait",
        {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_SECONDS},
        description="Long poll: if there is no event, wait for one for this many seconds; default: 0",
    ),
    OpenApiParameter(
        "Last-Event-ID",
        OpenApiTypes.STR,
        OpenApiParameter.HEADER,
        description="The `id` of the last event of a stream, instead of `after`: clients of Server-Sent Events send it",
    ),
]

STREAM_EXAMPLE: Final = (
    "retry: 2000\nid: 41\n\n"
    'id: 42\nevent: dropTable\ndata: {"specversion":"1.0","type":"dropTable",...}\n\n'
    ": keep-alive\nid: 43\n\n"
)

describe_events = describe(
    list=_operation(
        "list_events",
        "List events, or follow them as a stream",
        description="Events of changes, as CloudEvents, in the order in which they were published: no event is missing "
        "or repeated while a client continues with `next`. A page can be empty although there are more events "
        "(`has-more`), because a request compares a limited number of events with filters.\n\n"
        "If retention has deleted events after the cursor, the first event has the type `eventsDeleted`, and the feed "
        "continues after it.\n\n"
        "With `Accept: text/event-stream` the response is a stream (Server-Sent Events) from `after`, `since` or "
        "`Last-Event-ID` on, by default from now on. It ends after ten minutes, or when the token or the permission "
        "ends; clients then continue with `Last-Event-ID`. `limit` and `wait` are not allowed.\n\n"
        "A server process lets a limited number of requests wait. A further long poll gets an empty page with "
        "`Retry-After`, a further stream 503.",
        parameters=[*PARAMETERS, PROJECT_HEADER],
        success={
            (200, "application/json"): OpenApiResponse(EventPageResponse, "OK"),
            (200, MEDIA_TYPE): OpenApiResponse(
                OpenApiTypes.STR,
                "Server-Sent Events: `id` is the position, `event` the type, `data` the CloudEvent in one line",
                examples=[OpenApiExample("stream", value=STREAM_EXAMPLE, media_type=MEDIA_TYPE)],
            ),
        },
        errors={
            400: "`UnknownEventCursor`: the cursor is after the newest event; `MalformedProjectID`",
            403: "`ServerActionForbidden`, `ProjectActionForbidden`, `WarehouseActionForbidden`: the permission to "
            "read events on the warehouse, else the project, else the server is missing",
            404: NO_WAREHOUSE,
            503: "`SlowDownException`: too many requests wait for events",
        },
    ),
)
