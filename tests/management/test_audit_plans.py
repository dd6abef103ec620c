"""Query plans of audit trail filters: a filter that matches few of many rows uses its index."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from tenancy.actor import INTERNAL
from tenancy.audit.chain import seal_records
from tenancy.models import AuditRecord
from tenancy.selectors import audit_records
from tenancy.selectors.audit_records import AuditFilters
from tests.harness.wsgi_client import ApiClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

MANY, FEW = 4_000, 3
T0 = datetime(2026, 1, 31, tzinfo=UTC)
ONE, OTHER = UUID(int=1), UUID(int=2)
USUAL = {
    "actor": "oidc~ann", "event": "token.used", "action": "", "outcome": "allowed", "object_type": "user",
    "object_id": "oidc~ann", "project_id": "lab", "access_token_id": ONE, "assumed_role": None, "request_id": ONE,
}  # fmt: skip
RARE = {
    "actor": "oidc~bob", "event": "project.deleted", "action": "drop", "outcome": "denied", "object_type": "project",
    "object_id": "attic", "project_id": "attic", "access_token_id": OTHER, "assumed_role": OTHER, "request_id": OTHER,
}  # fmt: skip


@pytest.fixture
def many(bootstrapped: None) -> None:
    AuditRecord.objects.all().delete()
    count = MANY if connection.vendor == "postgresql" else 10 * FEW  # plans of SQLite do not depend on the rows
    times = (T0 + timedelta(minutes=number) for number in range(count))
    rows = [AuditRecord(at=at, **(RARE if number < FEW else USUAL)) for number, at in enumerate(times)]
    AuditRecord.objects.bulk_create(rows, batch_size=500)
    seal_records(actor=INTERNAL)
    analyze()


def analyze() -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE tenancy_auditrecord")


def plan_of(rows: QuerySet[AuditRecord]) -> str:
    return str(rows.explain())


FOUND_BY: list[tuple[dict[str, Any], str]] = [
    ({"actor": "oidc~bob"}, "by_actor"),
    ({"event": "project.deleted"}, "by_event"),
    ({"action": "drop"}, "by_action"),
    ({"outcome": "denied"}, "refused"),
    ({"object_type": "project"}, "by_type"),
    ({"object_id": "attic"}, "by_object"),
    ({"object_id": "no such", "own_ids": ("attic", "loft")}, "by_object"),
    ({"object_type": "project", "object_id": "attic"}, "by_object|by_type"),
    ({"object_type": "user", "object_id": "attic"}, "by_object"),
    ({"object_type": "user", "actor": "oidc~bob"}, "by_actor"),
    ({"project": "attic"}, "by_project"),
    ({"access_token_id": OTHER}, "by_token"),
    ({"assumed_role": OTHER}, "by_role"),
    ({"request_id": OTHER}, "by_request"),
    ({"start": T0, "end": T0 + timedelta(minutes=FEW)}, "by_time"),
]
"""Filters and the index of each."""

REFUSED_FOUND_BY = [
    ({"event": "token.used"}, "refused_event"),
    ({"actor": "oidc~ann"}, "refused_actor"),
    ({"project": "lab"}, "refused_in"),
]


def test_few_rows_are_found_by_their_index(many: None, subtests: pytest.Subtests) -> None:
    for filters, index in FOUND_BY:
        with subtests.test(filters=filters):
            found = AuditFilters(**filters).found().sealed().order_by("-at", "-id")
            plan = plan_of(found[:101])
            assert any(f"audit_record_{each}" in plan for each in index.split("|")), plan
            assert len(found) == (0 if filters.get("object_type") == USUAL["object_type"] else FEW)


def test_few_refused_rows_are_found_by_their_index(many: None, subtests: pytest.Subtests) -> None:
    """The value is that of one row in 20, all allowed; of the other rows, one in ten was refused."""
    AuditRecord.objects.update(**USUAL)
    others = AuditRecord.objects.exclude(at__minute__in=(0, 20, 40))
    others.update(event="project.deleted", actor="oidc~bob", project_id="attic")
    others.filter(at__minute__in=range(1, 7)).update(outcome="denied")
    analyze()
    for filters, index in REFUSED_FOUND_BY:
        with subtests.test(filters=filters):
            found = AuditFilters(**filters, outcome="denied").found().sealed().order_by("-at", "-id")
            plan = plan_of(found[:101])
            assert f"audit_record_{index}" in plan, plan
            assert list(found) == []


def test_an_export_looks_for_its_rows_once(many: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once per chunk: SQLite sorts all matches of a filter each time."""
    monkeypatch.setattr(audit_records, "CHUNK", 1)
    with CaptureQueriesContext(connection) as captured:
        response = ApiClient("/management/v1/audit").get("/export?event=project.deleted")
    lines = [json.loads(line) for line in response.body.splitlines()]
    assert [line["event"] for line in lines] == ["project.deleted"] * FEW
    assert [line["position"] for line in lines] == [1, 2, 3]
    statements = [each["sql"] for each in captured if "tenancy_auditrecord" in each["sql"] and "SELECT" in each["sql"]]
    assert sum("project.deleted" in each for each in statements) == 1
    assert sum(" IN (" in each for each in statements) == FEW


def test_unsealed_rows_are_found_by_their_index(many: None) -> None:
    """Whatever the filter, as they are in no other index but that of the ids."""
    AuditRecord.objects.create(at=T0, **RARE)
    for filters in ({}, {"actor": "oidc~bob"}, {"object_type": "project", "object_id": "attic"}):
        found = AuditFilters(**filters).found().unsealed().order_by("-at", "-id")
        plan = plan_of(found[:101])
        assert "audit_record_unsealed" in plan, plan
        assert [row.position for row in found] == [None]
