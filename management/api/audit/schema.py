"""OpenAPI descriptions of the operations on the audit trail."""

from __future__ import annotations

from functools import partial
from typing import Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse

from management.api.audit.serializers import AuditListResponse, AuditRecordResponse
from management.api.schema import BAD_PAGE, PAGE, PROJECT_HEADER, describe, operation
from tenancy.models import AuditRecord

_operation = partial(operation, tag="audit")
NDJSON: Final = "application/x-ndjson"
DEFAULT_EXPORT_SIZE: Final = 1_000
MAX_EXPORT_SIZE: Final = 10_000
NOT_ALLOWED: Final = "`ForbiddenException`: the permission to read the audit trail of the requested project, "
"else of the server, is missing"
BAD_PROJECT: Final = "`MalformedProjectID`"

FILTERS: Final = [
    OpenApiParameter(
        "projectId",
        OpenApiTypes.STR,
        description="Only records of this project; takes precedence over the header `x-project-id`",
    ),
    OpenApiParameter("actor", OpenApiTypes.STR, description="A user's id, `anonymous` or `internal`"),
    OpenApiParameter("role", OpenApiTypes.UUID, description="The role that was assumed"),
    OpenApiParameter("accessToken", OpenApiTypes.UUID, description="The id of an access token of this server"),
    OpenApiParameter("event", OpenApiTypes.STR, description="Such as `warehouse.created` or `access.denied`"),
    OpenApiParameter("action", OpenApiTypes.STR, description="The permission that was checked, such as `drop`"),
    OpenApiParameter(
        "outcome", OpenApiTypes.STR, enum=AuditRecord.Outcome.values, description="The result of the action"
    ),
    OpenApiParameter("objectType", OpenApiTypes.STR, description="Such as `warehouse`"),
    OpenApiParameter(
        "objectId",
        OpenApiTypes.STR,
        description="The `object-id` of records; for an existing table, view or generic table also its UUID",
    ),
    OpenApiParameter(
        "requestId",
        OpenApiTypes.UUID,
        description="`X-Request-Id` of the response if that is a UUID, else `request_uuid` of its log lines",
    ),
    OpenApiParameter("from", OpenApiTypes.DATETIME, description="At or after this time, with a time zone"),
    OpenApiParameter("to", OpenApiTypes.DATETIME, description="Before this time, with a time zone"),
]
LIST_PARAMETERS: Final = [*FILTERS, *PAGE]
EXPORT_PARAMETERS: Final = [
    *FILTERS,
    OpenApiParameter("after", OpenApiTypes.INT, description="Only records after this position; default: 0"),
    OpenApiParameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": MAX_EXPORT_SIZE},
        description=f"Maximum number of records; default: {DEFAULT_EXPORT_SIZE}. A response may have fewer although "
        "more exist",
    ),
]

describe_audit = describe(
    list=_operation(
        "list_audit_records",
        "List audit records, newest first",
        description="The request itself is audited. Uses of tokens and repeated denials appear with a delay of some "
        "seconds, several in one record. Unknown parameters are an error.",
        parameters=[*LIST_PARAMETERS, PROJECT_HEADER],
        success={200: AuditListResponse},
        errors={400: f"{BAD_PAGE}, {BAD_PROJECT}", 403: NOT_ALLOWED},
    ),
    export=_operation(
        "export_audit_records",
        "List audit records as JSON lines in hash chain order",
        description="Only sealed records, each an object as in the list, one per line. To continue, also after an "
        "incomplete response, send the last `position` as `after`; an empty response means that there are no more "
        "records yet. No record is missing or repeated, whatever is written meanwhile. Unknown parameters are an "
        "error.",
        parameters=[*EXPORT_PARAMETERS, PROJECT_HEADER],
        success={(200, NDJSON): OpenApiResponse(AuditRecordResponse, "JSON lines, one such object each")},
        errors={
            400: BAD_PROJECT,
            403: NOT_ALLOWED,
            410: "`AuditRecordsDeleted`: records after `after` were deleted; the message has the position "
            "to continue from",
        },
    ),
)
