"""Each route that changes something leaves an audit record and an event; no other request leaves either.

The stories of the OpenAPI documents contain every operation. A route that is neither listed below nor leaves a record
in its story fails, so a new route must be one of both.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings

from management.openapi import documents as openapi
from tenancy.changes.kinds import Change
from tenancy.models import AuditRecord, OutboxEvent
from tests.harness.wsgi_client import Response
from tests.openapi_examples.story import Story

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

CHECKS = "it only checks"
READS = "it only reads"
SIGNS = "it signs a request to a store: an occurrence, which is audited if reads are"

CHANGES_NOTHING = {
    "POST /catalog/v1/oauth/tokens": "a short-lived token is not stored; the sign-in is an occurrence",
    "POST /catalog/v1/aws/s3/sign": "is always rejected: the request names no warehouse",
    "POST /catalog/v1/{prefix}/v1/aws/s3/sign": SIGNS,
    "POST /catalog/v1/{prefix}/namespaces/{namespace}/tables/{table}/sign": SIGNS,
    "POST /catalog/v1/signer/{prefix}/staged/{ticket}/v1/aws/s3/sign": SIGNS,
    "POST /catalog/v1/signer/{prefix}/tabular-id/{tabular_id}/v1/aws/s3/sign": SIGNS,
    "POST /catalog/v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics": "a report of an engine, not a change",
    "POST /management/v1/action/batch-check": CHECKS,
    "POST /management/v1/change-rules/{rule_id}/test": CHECKS,
    "POST /management/v1/permissions/check": CHECKS,
    "POST /management/v1/permissions/explain": CHECKS,
    "POST /management/v1/warehouse-creation-validation": CHECKS,
    "POST /management/v1/warehouse/{warehouse_id}/storage/validate-access": CHECKS,
    "POST /management/v1/warehouse/{warehouse_id}/storage/validate-credential": CHECKS,
    "POST /management/v1/warehouse/{warehouse_id}/storage/validate-profile": CHECKS,
    "POST /management/v1/event-sinks/{sink_id}/test": "the test event is in no outbox, and nothing is changed",
    "POST /management/v1/endpoint-statistics": READS,
    "POST /management/v1/search/role": READS,
    "POST /management/v1/search/user": READS,
    "POST /management/v1/warehouse/{warehouse_id}/search-tabular": READS,
    "POST /management/v1/warehouse/{warehouse_id}/task/list": READS,
    "POST /management/v1/project/task/list": READS,
}
"""Routes with a method that usually changes something."""

IS_SO_ALREADY = "the story asks for what is so already"
WITHOUT_EFFECT = {
    "POST /management/v1/permissions/namespace/{namespace_id}/managed-access": IS_SO_ALREADY,
    "POST /management/v1/server/grants": IS_SO_ALREADY,
    "POST /management/v1/warehouse/{warehouse_id}/grants": IS_SO_ALREADY,
    "POST /management/v1/warehouse/{warehouse_id}/view/{view_id}/grants": IS_SO_ALREADY,
}
"""Routes that share their service with others, which leave records."""

CHANGES = {change.value.audit_event for change in Change}


class ChangingStory(Story):
    """Compare audit records and events after each request."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.changing: set[str] = set()
        self.faults: list[str] = []

    def _send(self, operation_id: str, parameters: dict[str, Any], body: Any) -> Response:
        method, path, _ = self._operations[operation_id]
        before = _counts()
        response = super()._send(operation_id, parameters, body)
        records, events = (after - earlier for after, earlier in zip(_counts(), before, strict=True))
        what = f"{method} {path} ({response.status}) left {records} audit records and {events} events"
        if response.status >= 400 or method in {"GET", "HEAD"}:
            if records or events:
                self.faults.append(what)
        elif events:
            self.changing.add(f"{method} {path}")
            if not records:
                self.faults.append(what)
        elif records:
            self.faults.append(what)
        return response


def _counts() -> tuple[int, int]:
    return AuditRecord.objects.filter(event__in=CHANGES).count(), OutboxEvent.objects.count()


@pytest.mark.parametrize("name", openapi.APIS)
def test_each_writing_route_records_its_changes(name: str, play_story: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings.ICEKEEPER.audit, "data_changes", "all")
    story = play_story(name, ChangingStory)
    assert not story.faults
    routes = {f"{method} {path}" for method, path, _ in story._operations.values() if method not in {"GET", "HEAD"}}
    listed = CHANGES_NOTHING.keys() | WITHOUT_EFFECT.keys()
    assert routes - story.changing == routes & listed
