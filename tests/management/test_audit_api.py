"""GET /management/v1/audit and /audit/export: filters, pages, permissions, hostile queries."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from icekeeper.kernel.http.paging import write_page_token
from management.api.audit import views as audit_views
from tenancy.actor import INTERNAL, Actor
from tenancy.audit.chain import seal_records
from tenancy.audit.collector import collector
from tenancy.audit.occurrences import record_denial
from tenancy.authz.actions import Can
from tenancy.changes.kinds import Change
from tenancy.models import AuditRecord, Project
from tenancy.models.audit_record import AuditRecordQuerySet
from tenancy.selectors import audit_records
from tenancy.selectors.projects import get_project
from tenancy.services.roles import create_role
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.recorded_changes import record
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import refuse, use_settings
from tests.token_fixtures import TokenClient

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

BOB = Actor(user_id="oidc~bob")
REQUEST_ID = "0198e0f4-3f6e-7c31-8c7d-9b7b8f2a1d44"
NOWHERE = "0198e0f4-3f6e-7c31-8c7d-000000000000"
T0 = datetime(2026, 1, 31, tzinfo=UTC)
api = ApiClient("/management/v1/audit")


@pytest.fixture
def seven(bootstrapped: None) -> list[str]:
    """Create seven records in two projects, an hour apart, and return their ids, the oldest first."""
    AuditRecord.objects.all().delete()
    Project.objects.create(id="lab", name="Lab", name_key="lab")
    for number in range(7):
        record(
            Change.ROLE_CREATED, actor=BOB, subject=number, project="lab" if number % 2 else None, named=f"r{number}"
        )
        AuditRecord.objects.filter(object_id=str(number)).update(at=T0 + timedelta(hours=number))
    return [str(row.pk) for row in AuditRecord.objects.order_by("at")]


def numbers(query: str = "", *, client: ApiClient = api, **headers: str) -> list[str]:
    """Return the object ids of the listed role events."""
    response = client.get(f"?event=role.created&{query}", **headers)
    assert response.status == 200, response.body
    return [row["object-id"] for row in response.json()["records"]]


def exported(query: str = "", **headers: str) -> list[dict[str, Any]]:
    response = api.get(f"/export?{query}", **headers)
    assert response.status == 200, response.body
    assert response.headers["Content-Type"] == "application/x-ndjson"
    return [json.loads(line) for line in response.body.splitlines()]


# --- the list --------------------------------------------------------------------------------------------------------


def test_the_newest_rows_are_first(seven: list[str]) -> None:
    assert numbers() == ["6", "5", "4", "3", "2", "1", "0"]
    first = api.get().json()["records"][0]
    assert (first["event"], first["action"], first["actor"]) == ("audit.listed", "read_audit", "anonymous")
    row = api.get("?event=role.created").json()["records"][1]
    assert row == {
        "id": seven[5], "position": None, "at": "2026-01-31T05:00:00.000000+00:00", "last-at": None, "count": 1,
        "event": "role.created", "action": None, "outcome": "allowed", "reason": None,
        "privilege-source": "authorizer", "actor": "oidc~bob", "assumed-role": None, "access-token": None,
        "object-type": "role", "object-id": "5", "object-uuid": None, "project-id": "lab", "request-id": None,
        "address": None,
        "forwarded-for": None, "user-agent": None, "details": {"named": "r5"}, "previous-hash": None, "hash": None,
    }  # fmt: skip


def test_pages_follow_each_other(seven: list[str]) -> None:
    found, pages = list[str](), 0
    token: str | None = ""
    while token is not None:
        page = api.get(f"?event=role.created&pageSize=3&pageToken={token}").json()
        found += [row["object-id"] for row in page["records"]]
        token, pages = page.get("next-page-token"), pages + 1
        record(Change.ROLE_CREATED, actor=BOB, subject=f"new {pages}")
    assert (found, pages) == (["6", "5", "4", "3", "2", "1", "0"], 3)


def test_rows_of_the_same_time_are_listed_once(seven: list[str]) -> None:
    AuditRecord.objects.filter(event="role.created").update(at=T0)
    found: list[str] = []
    token: str | None = ""
    while token is not None:
        page = api.get(f"?event=role.created&pageSize=2&pageToken={token}").json()
        found += [row["id"] for row in page["records"]]
        token = page.get("next-page-token")
    assert found == seven[::-1]


def test_sealed_and_unsealed_rows_are_listed_in_one_order(seven: list[str]) -> None:
    """They are found by different indexes."""
    seal_records(actor=INTERNAL)
    AuditRecord.objects.filter(object_id__in=["0", "2", "5"]).update(position=None)
    assert numbers() == ["6", "5", "4", "3", "2", "1", "0"]
    assert numbers("from=2026-01-31T02:00:00Z&to=2026-01-31T06:00:00Z") == ["5", "4", "3", "2"]
    found = list[str]()
    token: str | None = ""
    while token is not None:
        page = api.get(f"?event=role.created&pageSize=2&pageToken={token}").json()
        found += [row["object-id"] for row in page["records"]]
        token = page.get("next-page-token")
    assert found == ["6", "5", "4", "3", "2", "1", "0"]


def test_rows_that_are_sealed_while_they_are_listed_are_listed_once(
    seven: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = AuditRecordQuerySet.sealed

    def seal_and_read(rows: AuditRecordQuerySet) -> AuditRecordQuerySet:
        monkeypatch.setattr(AuditRecordQuerySet, "sealed", sealed)
        assert seal_records(actor=INTERNAL) >= 7
        return sealed(rows)

    monkeypatch.setattr(AuditRecordQuerySet, "sealed", seal_and_read)
    assert numbers() == ["6", "5", "4", "3", "2", "1", "0"]
    assert AuditRecordQuerySet.sealed is sealed


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("projectId=lab", ["5", "3", "1"]),
        ("objectId=3", ["3"]),
        ("objectId=3&projectId=lab&actor=oidc~bob&objectType=role&outcome=allowed", ["3"]),
        ("objectId=2&projectId=lab", []),
        ("objectType=table", []),
        ("actor=oidc~alice", []),
        ("actor=OIDC~BOB", []),
        ("actor=%25", []),
        ("actor=oidc~bob%27%20OR%201=1--", []),
        ("outcome=denied", []),
        (f"role={NOWHERE}", []),
        (f"accessToken={NOWHERE}", []),
        (f"requestId={NOWHERE}", []),
        ("action=drop", []),
        ("from=2026-01-31T05:00:00Z", ["6", "5"]),
        ("to=2026-01-31T01:00:00Z", ["0"]),
        ("from=2026-01-31T02:00:00%2B01:00&to=2026-01-31T03:00:00Z", ["2", "1"]),
        ("from=2026-01-31T03:00:00Z&to=2026-01-31T03:00:00Z", []),
    ],
)
def test_filters(seven: list[str], query: str, expected: list[str]) -> None:
    assert numbers(query) == expected


def test_filters_by_request_role_and_actor(callers: NamedCallers, bootstrapped: None) -> None:
    role = create_role(actor=INTERNAL, project=get_project(None), name="staff")
    callers.user("anna")
    anna = CallerClient("/management/v1", "anna")
    headers = {"x-request-id": REQUEST_ID, "x-assume-role": str(role.pk)}
    assert anna.post("/project", {"project-name": "p"}, **headers).status == 201
    for query in (f"requestId={REQUEST_ID}", f"role={role.pk}", "actor=oidc~anna"):
        found = anna.get(f"/audit?event=project.created&{query}").json()["records"]
        assert [(row["request-id"], row["assumed-role"]) for row in found] == [(REQUEST_ID, str(role.pk))]


def test_filters_by_token(alice: TokenClient) -> None:
    assert alice.post("/service-account", {"name": "robot"}).status == 201
    [row] = alice.get("/audit?event=service-account.created").json()["records"]
    assert row["access-token"] is not None
    assert (
        len(alice.get(f"/audit?event=service-account.created&accessToken={row['access-token']}").json()["records"]) == 1
    )


# --- permissions -----------------------------------------------------------------------------------------------------


def test_the_permission_is_checked_on_the_server_or_the_project(
    seven: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for asked, headers in (("", {}), ("?projectId=lab", {}), ("", {"x-project-id": "lab"}), ("?projectId=deleted", {})):
        for route in ("", "/export"):
            refusing = refuse(monkeypatch)
            expected = "project" if "lab" in f"{asked}{headers}" else "server"
            assert api.get(f"{route}{asked}", **headers).refused(403, f"{expected.title()}ActionForbidden")
            assert refusing.asked == [(Can.READ_AUDIT, expected)], (route, asked)
    refuse(monkeypatch, Can.READ_AUDIT)
    assert numbers("projectId=lab") == ["5", "3", "1"]
    assert numbers(**{"x-project-id": "lab"}) == ["5", "3", "1"]
    assert numbers("projectId=lab", **{"x-project-id": "other"}) == ["5", "3", "1"]


def test_reads_are_audited(seven: list[str]) -> None:
    assert numbers("projectId=lab&objectId=3") == ["3"]
    assert exported("after=3&limit=7&outcome=denied") == []
    listed, export = AuditRecord.objects.filter(event__startswith="audit.").order_by("at")
    assert (listed.event, listed.object_type, listed.object_id) == ("audit.listed", "project", "lab")
    assert json.loads(listed.details) == {"project": "lab", "event": "role.created", "object_id": "3"}
    assert (export.event, export.object_type) == ("audit.exported", "server")
    assert json.loads(export.details) == {"outcome": "denied", "after": 3, "limit": 7}


def test_denied_reads_are_audited(callers: NamedCallers, seven: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    callers.user("anna")
    refuse(monkeypatch)
    CallerClient("/management/v1", "anna").get("/audit")
    [row] = AuditRecord.objects.filter(event="access.denied")
    assert (row.actor, row.outcome) == ("oidc~anna", "denied")


# --- hostile queries -------------------------------------------------------------------------------------------------

LONG = "x" * 256
BAD_QUERIES = [
    "actor=", f"actor={LONG}", "actor=a&actor=b", f"event={LONG}", "outcome=perhaps", "outcome=ALLOWED",
    "role=staff", f"role={NOWHERE.replace('-', '')}", f"role=%7B{NOWHERE}%7D", "accessToken=1", "requestId=1",
    "from=yesterday", "from=2026-01-31", "from=2026-01-31T00:00:00", "from=2026-13-31T00:00:00Z",
    "to=0001-01-01T00:00:00%2B23:59", "to=9999-12-31T23:59:59-23:59",
    "from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z",
    "objectId=%ED%A0%80%00", "projectId=", "actor=%00",
    "foo=1", "object-id=3", "objectid=3", "object_id=3", "pagesize=1", "=", "%00=1", f"{LONG}=1",
]  # fmt: skip


@pytest.mark.parametrize("query", BAD_QUERIES)
@pytest.mark.parametrize("route", ["", "/export"])
def test_bad_filters(seven: list[str], route: str, query: str, everything: Callable[[], Fingerprint]) -> None:
    before, rows = everything(), AuditRecord.objects.count()
    assert api.get(f"{route}?{query}").refused(400, "BadRequestException")
    assert (everything(), AuditRecord.objects.count()) == (before, rows)


@pytest.mark.parametrize("project", ["a%2Fb", "%27", "%E2%98%83", "x" * 129, ".."])
def test_bad_projects(seven: list[str], project: str) -> None:
    assert api.get(f"?projectId={project}").refused(400, "MalformedProjectID")
    assert api.get("", **{"x-project-id": "a/b"}).refused(400, "MalformedProjectID")


@pytest.mark.parametrize(
    "query",
    [
        "after=-1", "after=x", "after=1.5", f"after={2**63}", "after=1e3", "after=%D9%A3", "limit=0", "limit=10001",
        "limit=",
    ],
)  # fmt: skip
def test_bad_bounds_of_an_export(seven: list[str], query: str) -> None:
    assert api.get(f"/export?{query}").refused(400, "BadRequestException")


def test_errors_name_unknown_parameters(seven: list[str]) -> None:
    assert api.get("?objectId=3&object-id=3").refused(
        400, "BadRequestException", "'object-id' is not a parameter of this operation"
    )
    for target in ("?after=1", "?limit=1", "/export?pageSize=1", "/export?pageToken="):
        assert api.get(target).refused(400, "BadRequestException", "is not a parameter of this operation"), target


def test_bad_page_tokens(seven: list[str]) -> None:
    token = api.get("?event=role.created&pageSize=1").json()["next-page-token"]
    assert numbers(f"pageToken={token}&pageSize=1") == ["5"]
    for filters in ("event=role.deleted", "", "event=role.created&actor=x"):
        assert api.get(f"?{filters}&pageToken={token}").refused(400, "InvalidPaginationToken")
    kind = json.loads(urlsafe_b64decode(token + "==="))[1]
    zoned = f"0001-01-01T00:00:00+23:00 {NOWHERE}"
    for key in ("", "x", f"2026-01-31T00:00:00+00:00 {NOWHERE[:-1]}", f"x {NOWHERE}", zoned, NOWHERE):
        forged = write_page_token(kind, key)
        assert api.get(f"?event=role.created&pageToken={quote(forged)}").refused(400, "InvalidPaginationToken"), key
    assert api.get("?pageSize=0").refused(400, "BadRequestException")


def test_texts_of_callers_are_returned_unchanged(bootstrapped: None) -> None:
    hostile = "\u202e'\"; DROP\n\u2028☃\ud83d\ude00</script>".encode("utf-16", "surrogatepass").decode("utf-16")
    record_denial(actor=Actor(user_id=hostile), action=hostile, object_type="table", object_id=hostile)
    collector.write_pending()
    seal_records(actor=INTERNAL)
    [row] = api.get(f"?objectId={quote(hostile)}").json()["records"]
    assert (row["actor"], row["action"], row["object-id"]) == (hostile, hostile, hostile)
    [line] = exported(f"actor={quote(hostile)}")
    assert line["object-id"] == hostile


# --- the export ------------------------------------------------------------------------------------------------------


def test_an_export_continues_after_the_last_row(seven: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_records, "CHUNK", 2)
    seal_records(actor=INTERNAL)
    found, after = [], 0
    while rows := exported(f"event=role.created&limit=3&after={after}"):
        assert len(rows) <= 3
        found += [row["object-id"] for row in rows]
        after = rows[-1]["position"]
        record(Change.ROLE_DELETED, actor=BOB, subject="x")
    assert found == ["0", "1", "2", "3", "4", "5", "6"]
    assert [row["object-id"] for row in exported("projectId=lab&to=2026-01-31T04:00:00Z")] == ["1", "3"]


def test_unsealed_records_are_not_exported(seven: list[str]) -> None:
    assert exported("event=role.created") == []
    seal_records(actor=INTERNAL)
    rows = exported("event=role.created")
    assert [row["id"] for row in rows] == seven
    assert [row["previous-hash"] for row in rows[1:]] == [row["hash"] for row in rows[:-1]]


def test_an_export_ends_in_time(seven: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_records, "CHUNK", 2)
    seal_records(actor=INTERNAL)
    times = iter([0.0, 1.0, 31.0])
    monkeypatch.setattr(audit_records, "monotonic", lambda: next(times))
    assert [row["object-id"] for row in exported("event=role.created")] == ["0", "1", "2", "3"]


def test_an_export_has_bounds(seven: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_views, "DEFAULT_EXPORT_SIZE", 2)
    seal_records(actor=INTERNAL)
    assert len(exported()) == 2
    assert len(exported("limit=10000")) == 7


def test_it_is_read_in_maintenance_mode_too(seven: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = AuditRecord.objects.count()
    use_settings(monkeypatch, maintenance_mode="read-only")
    assert numbers("objectId=3") == ["3"]
    assert AuditRecord.objects.count() == rows
