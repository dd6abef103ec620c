"""The audit trail: a list, newest first, and an export as JSON lines in the order of the hash chain."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from django.http import StreamingHttpResponse
from django.utils.dateparse import parse_datetime
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import listing_key
from icekeeper.kernel.ids import parse_id
from management.api.audit.schema import (
    DEFAULT_EXPORT_SIZE,
    EXPORT_PARAMETERS,
    LIST_PARAMETERS,
    MAX_EXPORT_SIZE,
    NDJSON,
    describe_audit,
)
from management.api.audit.serializers import AuditListResponse
from management.api.base import ManagementViewSet, require_parameters
from management.audit_files import audit_documents, audit_lines, with_own_ids
from tenancy.models import AuditRecord
from tenancy.selectors.audit_records import AuditFilters, export_audit_records_for, list_audit_records_for
from tenancy.selectors.projects import named_project_id, require_project_id

MAX_POSITION: Final = 2**62
MAX_FILTER_LENGTH: Final = 255
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


@describe_audit
class AuditViewSet(ManagementViewSet):
    def list(self, request: Request) -> Response:
        require_parameters(request, [each.name for each in LIST_PARAMETERS])
        filters = self._filters()
        page = self.page(listing_key("audit", filters))
        records, token = list_audit_records_for(actor=self.actor, filters=with_own_ids(filters), page=page)
        return self.respond_page(AuditListResponse, "records", (audit_documents(records), token))

    def export(self, request: Request) -> StreamingHttpResponse:
        require_parameters(request, [each.name for each in EXPORT_PARAMETERS])
        filters = with_own_ids(self._filters())
        after = self._number("after", default=0, minimum=0, maximum=MAX_POSITION)
        limit = self._number("limit", default=DEFAULT_EXPORT_SIZE, minimum=1, maximum=MAX_EXPORT_SIZE)
        chunks = export_audit_records_for(actor=self.actor, filters=filters, after=after, limit=limit)
        return StreamingHttpResponse((audit_lines(rows).encode() for rows in chunks), content_type=NDJSON)

    def _filters(self) -> AuditFilters:
        """Parse the filters of the query. Raises `BadRequest`, `MalformedProjectId`."""
        project = self._text("projectId") or named_project_id(self.request.META)
        outcome = self._text("outcome")
        if outcome is not None and outcome not in AuditRecord.Outcome.values:
            raise BadRequest(f"outcome: must be one of {', '.join(AuditRecord.Outcome.values)}")
        start, end = self._time("from"), self._time("to")
        if start is not None and end is not None and start > end:
            raise BadRequest("from: must not be later than to")
        return AuditFilters(
            project=require_project_id(project) if project is not None else None,
            actor=self._text("actor"),
            assumed_role=self._id("role"),
            access_token_id=self._id("accessToken"),
            event=self._text("event"),
            action=self._text("action"),
            outcome=outcome,
            object_type=self._text("objectType"),
            object_id=self._text("objectId"),
            request_id=self._id("requestId"),
            start=start,
            end=end,
        )

    def _text(self, name: str) -> str | None:
        given = self.request.GET.getlist(name)
        if len(given) > 1:
            raise BadRequest(f"{name}: must be given once")
        if not given:
            return None
        if not given[0] or len(given[0]) > MAX_FILTER_LENGTH or not _is_storable(given[0]):
            raise BadRequest(f"{name}: must be a text of 1 to {MAX_FILTER_LENGTH} characters")
        return given[0]

    def _number(self, name: str, *, default: int, minimum: int, maximum: int) -> int:
        given = self._text(name)
        if given is None:
            return default
        if not re.fullmatch(r"[0-9]{1,19}", given) or not minimum <= int(given) <= maximum:
            raise BadRequest(f"{name}: must be a number from {minimum} to {maximum}")
        return int(given)

    def _id(self, name: str) -> UUID | None:
        given = self._text(name)
        parsed = None if given is None else parse_id(given)
        if given is not None and parsed is None:
            raise BadRequest(f"{name}: must be a UUID")
        return parsed

    def _time(self, name: str) -> datetime | None:
        given = self._text(name)
        if given is None:
            return None
        try:
            at = parse_datetime(given)
        except (ValueError, OverflowError):
            at = None
        if at is None or at.tzinfo is None or not EARLIEST <= at <= LATEST:
            raise BadRequest(f"{name}: must be a time with a zone, such as 2026-01-31T00:00:00Z (+ is %2B in a query)")
        return at.astimezone(UTC)


def _is_storable(text: str) -> bool:
    """Whether databases accept the text: no NUL character, no unpaired surrogates."""
    return "\x00" not in text and text == text.encode("utf-8", "replace").decode()
