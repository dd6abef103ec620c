"""Audit trail: rows of other projects are hidden, and gaps are reported."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from icekeeper.kernel.clock import now
from tenancy.actor import INTERNAL
from tenancy.audit.chain import delete_old_records, seal_records
from tenancy.changes.kinds import Change
from tenancy.models import AuditRecord, Securable
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import get_server
from tenancy.services.projects import create_project, delete_project
from tests.authz.conftest import user
from tests.authz.tree_fixtures import give
from tests.harness.audit_rows import BOB, audit_settings
from tests.harness.named_callers import CallerClient, NamedCallers
from tests.harness.recorded_changes import record
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

api = ApiClient("/management/v1/audit")


def reported(client: CallerClient, path: str) -> list[str]:
    response = client.get(path)
    assert response.status == 200, response.body
    return [row["object-id"] for row in response.json()["records"] if row["event"] == "role.created"]


def test_the_trail_of_an_older_project_with_the_same_id_is_the_servers(callers: NamedCallers, builtin: object) -> None:
    for name in ("late", "root"):
        callers.user(name)
    create_project(actor=INTERNAL, name="Secret merger", project_id="sales")
    record(Change.ROLE_CREATED, actor=BOB, subject="old", project="sales", named="merger-with-acme")
    delete_project(actor=INTERNAL, project_id="sales")
    create_project(actor=INTERNAL, name="New", project_id="sales")
    record(Change.ROLE_CREATED, actor=BOB, subject="new", project="sales", named="staff")
    seal_records(actor=INTERNAL)
    give("project_admin", ObjectRef(Securable.Type.PROJECT, "sales"), user("late"))
    give("admin", ObjectRef(Securable.Type.SERVER, get_server().server_id), user("root"))
    late, root = CallerClient("/management/v1", "late"), CallerClient("/management/v1", "root")
    assert reported(late, "/audit?projectId=sales") == ["new"]
    assert reported(root, "/audit?projectId=sales") == ["new", "old"]
    lines = [json.loads(line) for line in late.get("/audit/export?projectId=sales").body.splitlines()]
    assert [line["event"] for line in lines] == ["project.created", "role.created"]
    assert late.get("/audit").status == 403
    delete_project(actor=INTERNAL, project_id="sales")
    assert late.get("/audit?projectId=sales").status == 403


def test_an_export_does_not_pass_over_a_gap(bootstrapped: None, monkeypatch: pytest.MonkeyPatch) -> None:
    AuditRecord.objects.all().delete()
    for number in range(4):
        record(Change.ROLE_CREATED, actor=BOB, subject=number, project=None, named="r")
    AuditRecord.objects.exclude(object_id="3").update(at=now() - timedelta(days=3))
    seal_records(actor=INTERNAL)
    use_settings(monkeypatch, audit=audit_settings(retention=86_400))
    assert delete_old_records(actor=INTERNAL) == 3
    before = AuditRecord.objects.filter(event="role.created").count()
    for after in (1, 2):
        response = api.get(f"/export?after={after}")
        assert (response.status, response.json()["error"]["type"]) == (410, "AuditRecordsDeleted")
        assert f"Rows {after + 1} to 3 were deleted" in response.json()["error"]["message"]
        with pytest.raises(CommandError, match=f"Rows {after + 1} to 3 were deleted"):
            call_command("export_audit", "--after", str(after), stdout=StringIO(), stderr=StringIO())
    for after in (0, 3):
        [first, *_] = api.get(f"/export?after={after}").body.splitlines()
        assert json.loads(first)["position"] == 4
    assert AuditRecord.objects.filter(event="role.created").count() == before == 1
