"""The console's pages of the audit trail: filters, following, files, and verification of the chain."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import timedelta

import pytest

from icekeeper.kernel.clock import now
from tenancy.actor import INTERNAL
from tenancy.audit import chain
from tenancy.audit.chain import seal_records
from tenancy.models import AuditRecord
from tests.console.conftest import Open
from tests.console.sign_in.browser import Page
from tests.console.test_rights import Ids, grants, ids  # noqa: F401 - fixtures

pytestmark = [pytest.mark.django_db(databases="__all__")]

HOSTILE = "=<img src=x onerror=alert(1)>"


def record(event: str, *, days: int = 0, object_id: str = "x", project: str = "") -> AuditRecord:
    return AuditRecord.objects.create(
        at=now() - timedelta(days=days), event=event, outcome="allowed", actor="oidc~ada", object_type="table",
        object_id=object_id, project_id=project, details=json.dumps({"name": HOSTILE}),
    )  # fmt: skip


def events(page: Page) -> list[str]:
    return re.findall(r'<td class="ik-mono">(test\.\w+)', page.text)


def test_records_are_filtered_followed_and_exported(grants: None, ids: Ids, open_as: Open) -> None:  # noqa: F811
    for days, name in ((3, "test.old"), (1, "test.mid"), (0, "test.new")):
        record(name, days=days, project=ids.project)
    record("test.elsewhere", project="other")
    seal_records(actor=INTERNAL)
    browser, query = open_as("instance"), f"project={ids.project}&actor=oidc~ada"
    page = browser.get(f"/ui/audit/?{query}")
    assert events(page) == ["test.new", "test.mid", "test.old"]
    assert "<img src=x" not in page.text
    start, end = (f"{now() - timedelta(days=days):%Y-%m-%dT%H:%M}" for days in (2, 0.5))
    assert events(browser.get(f"/ui/audit/?{query}&start={start}&end={end}")) == ["test.mid"]
    assert browser.get(f"/ui/audit/?{query}&start=yesterday").status == 400
    assert browser.get("/ui/audit/?start=2026-02-01T00:00&end=2026-01-01T00:00").status == 400
    part = browser.get(f"/ui/audit/?{query}&part=list")
    assert (len(events(part)), "<html" in part.text) == (3, False)
    assert 'data-live-src="?' in browser.get(f"/ui/audit/?{query}&follow=1").text
    assert 'data-live-src=""' in page.text
    lines = browser.get(f"/ui/audit/export/?{query}").text.splitlines()
    assert [json.loads(each)["event"] for each in lines] == ["test.old", "test.mid", "test.new"]
    after = json.loads(lines[0])["position"]
    table = browser.get(f"/ui/audit/export/?{query}&format=csv&after={after}")
    assert "attachment" in table.header("Content-Disposition")
    assert [row["event"] for row in csv.DictReader(io.StringIO(table.text))] == ["test.mid", "test.new"]
    for wrong in ("format=xls", "after=-1", "after=9999999999999999999"):
        assert browser.get(f"/ui/audit/export/?{query}&{wrong}").status == 400, wrong
    assert open_as("engineer").get("/ui/audit/export/").status == 403
    assert AuditRecord.objects.filter(event="audit.exported", actor="oidc~instance").exists()


def test_the_chain_is_verified_in_parts(grants: None, open_as: Open, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    for number in range(5):
        record(f"test.n{number}")
    seal_records(actor=INTERNAL)
    browser = open_as("instance")
    done = browser.post("/ui/audit/verify/")
    assert "as they were sealed" in done.text
    monkeypatch.setattr(chain, "CHUNK", 2)
    monkeypatch.setattr("tenancy.selectors.audit_verification.PART_SECONDS", -1.0)
    waiting = browser.post("/ui/audit/verify/")
    assert "data-auto-continue" in waiting.text
    state = waiting.field("state")
    assert browser.post("/ui/audit/verify/", {"state": state[:-2] + "xx"}).status == 400
    monkeypatch.setattr("tenancy.selectors.audit_verification.PART_SECONDS", 1.0)
    assert "as they were sealed" in browser.post("/ui/audit/verify/", {"state": state}).text
    AuditRecord.objects.filter(event="test.n3").update(actor="oidc~eve")
    broken = browser.post("/ui/audit/verify/")
    position = AuditRecord.objects.get(event="test.n3").position
    assert f"Row {position} (" in broken.text
    assert "is not what was sealed" in broken.text
    for name in ("lead", "engineer", "guest"):
        assert open_as(name).post("/ui/audit/verify/").status == 403
