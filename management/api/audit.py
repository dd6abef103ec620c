"""The audit trail: listed, newest first, and exported as JSON lines, in the order of its hash chain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.dateparse import parse_datetime
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.objects.names import own_ids_of
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import listing_key
from icekeeper.kernel.http.serializers import KebabSerializer, Text, operation_responses
from icekeeper.kernel.ids import parse_id
from management.api.base import ManagementView, require_parameters
from management.api.schema import BAD_PAGE, PAGE, PROJECT_HEADER
from management.selectors.audit_documents import audit_documents, audit_lines
from tenancy.models import AuditRecord
from tenancy.selectors.audit_records import AuditFilters, export_audit_records_for, list_audit_records_for
from tenancy.selectors.projects import named_project_id, require_project_id

TAGS: Final = ["audit"]
NDJSON: Final = "application/x-ndjson"
MOST_EXPORTED: Final = 10_000
USUALLY_EXPORTED: Final = 1_000
LAST_POSITION: Final = 2**62
LONGEST_FILTER: Final = 255
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)

_PROJECT = OpenApiParameter(
    "projectId", OpenApiTypes.STR, description="Only what is in this project; before the header `x-project-id`"
)
FILTERS: Final = [
    _PROJECT,
    OpenApiParameter("actor", OpenApiTypes.STR, description="A user's id, `anonymous` or `internal`"),
    OpenApiParameter("role", OpenApiTypes.UUID, description="The role that was assumed"),
    OpenApiParameter("accessToken", OpenApiTypes.UUID, description="The id of the token of this server that came"),
    OpenApiParameter("event", OpenApiTypes.STR, description="Such as `warehouse.created` or `access.denied`"),
    OpenApiParameter("action", OpenApiTypes.STR, description="The right that was asked for, such as `drop`"),
    OpenApiParameter("outcome", OpenApiTypes.STR, enum=AuditRecord.Outcome.values, description="What came of it"),
    OpenApiParameter("objectType", OpenApiTypes.STR, description="Such as `warehouse`"),
    OpenApiParameter(
        "objectId",
        OpenApiTypes.STR,
        description="As the rows have it in `object-id`; of a table, view or generic table that is there also its UUID",
    ),
    OpenApiParameter(
        "requestId",
        OpenApiTypes.UUID,
        description="`X-Request-Id` of the response if that is a UUID, else `request_uuid` of its log lines",
    ),
    OpenApiParameter("from", OpenApiTypes.DATETIME, description="Not before this time, which has a zone"),
    OpenApiParameter("to", OpenApiTypes.DATETIME, description="Before this time"),
]
NOT_ALLOWED: Final = "`ForbiddenException`: the permission to read the audit trail of the requested project, "
"else of the server, is missing"
BAD_PROJECT: Final = "`MalformedProjectID`"
LISTED: Final = [*FILTERS, *PAGE]
EXPORTED: Final = [
    *FILTERS,
    OpenApiParameter("after", OpenApiTypes.INT, description="The position to go on behind; default: 0"),
    OpenApiParameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": MOST_EXPORTED},
        description=f"Rows at most; default: {USUALLY_EXPORTED}. There may be fewer though there are more",
    ),
]


class AuditRecordResponse(KebabSerializer):
    id = serializers.UUIDField()
    position = serializers.IntegerField(
        allow_null=True, help_text="Its place in the hash chain; null for the few seconds until it is sealed"
    )
    at = serializers.DateTimeField()
    last_at = serializers.DateTimeField(allow_null=True, help_text="Of several the last one")
    count = serializers.IntegerField(help_text="How many equal occurrences it stands for")
    event = Text()
    action = Text(allow_null=True, help_text="The right that was asked for; of a denial without one, the operation")
    outcome = serializers.ChoiceField(AuditRecord.Outcome.values)
    reason = Text(allow_null=True, help_text="The actual reason of a denial")
    privilege_source = serializers.ChoiceField(
        AuditRecord.PrivilegeSource.values,
        allow_null=True,
        help_text="The source of the permission that the action needed",
    )
    actor = Text(help_text="A user's id, `anonymous`, `internal` for commands of the server, `*` for several")
    assumed_role = serializers.UUIDField(allow_null=True)
    access_token = serializers.UUIDField(allow_null=True, help_text="The id of the token of this server that came")
    object_type = Text(allow_null=True)
    object_id = Text(allow_null=True)
    object_uuid = serializers.UUIDField(
        allow_null=True,
        help_text="The UUID that clients see, of a table, view or generic table that is there or can be restored",
    )
    project_id = Text(allow_null=True)
    request_id = serializers.UUIDField(allow_null=True)
    address = Text(allow_null=True, help_text="The other end of the connection: a client's, or a proxy's")
    forwarded_for = Text(
        allow_null=True, help_text="`x-forwarded-for` as it came: true as far as those who wrote it are"
    )
    user_agent = Text(allow_null=True)
    details = serializers.DictField(help_text="Further facts of the event")
    previous_hash = Text(allow_null=True)
    hash = Text(allow_null=True, help_text="SHA-256 of the hash before and of all this but `object-uuid`")


class AuditListResponse(KebabSerializer):
    records = AuditRecordResponse(many=True)
    next_page_token = Text(required=False, help_text="Left out on the last page")


class AuditBaseView(ManagementView):
    def filters(self) -> AuditFilters:
        """Of the query. Raises `BadRequest`, `MalformedProjectId`."""
        project = self.text("projectId") or named_project_id(self.request.META)
        outcome = self.text("outcome")
        if outcome is not None and outcome not in AuditRecord.Outcome.values:
            raise BadRequest(f"outcome: must be one of {', '.join(AuditRecord.Outcome.values)}")
        start, end = self._time("from"), self._time("to")
        if start is not None and end is not None and start > end:
            raise BadRequest("from: must not be later than to")
        return AuditFilters(
            project=require_project_id(project) if project is not None else None,
            actor=self.text("actor"),
            assumed_role=self._id("role"),
            access_token_id=self._id("accessToken"),
            event=self.text("event"),
            action=self.text("action"),
            outcome=outcome,
            object_type=self.text("objectType"),
            object_id=self.text("objectId"),
            request_id=self._id("requestId"),
            start=start,
            end=end,
        )

    def text(self, name: str) -> str | None:
        given = self.request.GET.getlist(name)
        if len(given) > 1:
            raise BadRequest(f"{name}: must be given once")
        if not given:
            return None
        if not given[0] or len(given[0]) > LONGEST_FILTER or not _is_storable(given[0]):
            raise BadRequest(f"{name}: must be a text of 1 to {LONGEST_FILTER} characters")
        return given[0]

    def number(self, name: str, *, usual: int, least: int, most: int) -> int:
        given = self.text(name)
        if given is None:
            return usual
        if not re.fullmatch(r"[0-9]{1,19}", given) or not least <= int(given) <= most:
            raise BadRequest(f"{name}: must be a number from {least} to {most}")
        return int(given)

    def _id(self, name: str) -> UUID | None:
        given = self.text(name)
        if given is None:
            return None
        parsed = parse_id(given)
        if parsed is None:
            raise BadRequest(f"{name}: must be a UUID")
        return parsed

    def _time(self, name: str) -> datetime | None:
        given = self.text(name)
        if given is None:
            return None
        try:
            at = parse_datetime(given)
        except (ValueError, OverflowError):
            at = None
        if at is None or at.tzinfo is None or not EARLIEST <= at <= LATEST:
            raise BadRequest(f"{name}: must be a time with a zone, such as 2026-01-31T00:00:00Z (+ is %2B in a query)")
        return at.astimezone(UTC)


class AuditView(AuditBaseView):
    @extend_schema(
        operation_id="list_audit_records",
        tags=TAGS,
        summary="List audit records, newest first",
        description="The request itself is audited. Uses of tokens and repeated denials appear with a delay of some "
        "seconds, several in one record. Unknown parameters are an error.",
        parameters=[*LISTED, PROJECT_HEADER],
        responses=operation_responses({200: AuditListResponse}, {400: f"{BAD_PAGE}, {BAD_PROJECT}", 403: NOT_ALLOWED}),
    )
    def get(self, request: Request) -> Response:
        require_parameters(request, [each.name for each in LISTED])
        filters = self.filters()
        page = self.page(listing_key("audit", filters))
        records, next_token = list_audit_records_for(actor=self.actor, filters=_with_own_ids(filters), page=page)
        answer: dict[str, Any] = {"records": audit_documents(records)}
        if next_token is not None:
            answer["next-page-token"] = next_token
        return Response(answer)


class AuditExportView(AuditBaseView):
    @extend_schema(
        operation_id="export_audit_records",
        tags=TAGS,
        summary="List audit records as JSON lines in hash chain order",
        description="Only sealed records, each an object as in the list, one per line. To continue, also after an "
        "incomplete response, send the last `position` as `after`; an empty response means that there are no more "
        "records yet. No record is missing or repeated, whatever is written meanwhile. Unknown parameters are an "
        "error.",
        parameters=[*EXPORTED, PROJECT_HEADER],
        responses=operation_responses(
            {(200, NDJSON): OpenApiResponse(AuditRecordResponse, "JSON lines, one such object each")},  # type: ignore[dict-item]
            {
                400: BAD_PROJECT,
                403: NOT_ALLOWED,
                410: "`AuditRecordsDeleted`: records after `after` were deleted; the message has the position "
                "to continue from",
            },
        ),
    )
    def get(self, request: Request) -> HttpResponseBase:
        require_parameters(request, [each.name for each in EXPORTED])
        filters = _with_own_ids(self.filters())
        after = self.number("after", usual=0, least=0, most=LAST_POSITION)
        limit = self.number("limit", usual=USUALLY_EXPORTED, least=1, most=MOST_EXPORTED)
        chunks = export_audit_records_for(actor=self.actor, filters=filters, after=after, limit=limit)
        return StreamingHttpResponse(_lines(chunks), content_type=NDJSON)


def _lines(chunks: Iterable[list[AuditRecord]]) -> Iterator[bytes]:
    for rows in chunks:
        yield audit_lines(rows).encode()


def _with_own_ids(filters: AuditFilters) -> AuditFilters:
    """What is asked of a table, view or generic table by the UUID that clients see is asked by its own id, too."""
    uuid = parse_id(filters.object_id) if filters.object_id is not None else None
    if uuid is None:
        return filters
    return replace(filters, own_ids=tuple(map(str, own_ids_of(uuid, project_id=filters.project))))


def _is_storable(text: str) -> bool:
    """Whether a database takes it: no NUL, and no halves of surrogate pairs."""
    return "\x00" not in text and text == text.encode("utf-8", "replace").decode()
