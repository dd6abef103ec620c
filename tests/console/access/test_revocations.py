"""Revocation of several grants from the page of a principal's grants."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from uuid import uuid4

import pytest

from icekeeper.kernel.clock import now
from tenancy.models import Grant
from tests.console.access.conftest import SignIn
from tests.console.access.lake import HOSTILE, Lake
from tests.harness.statement_counts import counting

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

GRANTS, REVOKE = "/ui/access/", "/ui/access/revoke/"


def of_guest() -> set[str]:
    return set(Grant.objects.filter(user_id="local~guest").values_list("privilege", flat=True))


def values(text: str) -> list[str]:
    return [unescape(each) for each in re.findall(r'name="revoke" value="([^"]*)"', text)]


def test_marked_grants_are_revoked_after_a_preview(lake: Lake, sign_in: SignIn) -> None:
    lake.give("select", "sales", "local~guest")
    lake.give("describe", "lines", "local~guest")
    lake.give("modify", "plans", "local~guest", expires_at=now() + timedelta(days=2))
    client = sign_in("steward")
    who = {"who": "user:local~guest", "project": lake.warehouse.project_id}
    shown = values(client.get(GRANTS, who).content.decode())
    assert len(shown) == 3
    assert [
        each.partition(" ")[0] for each in values(client.get(GRANTS, {**who, "expiring": "1"}).content.decode())
    ] == ["modify"]
    marked = {**who, "revoke": shown[:2]}
    with counting() as counted:
        response = client.post(REVOKE, marked)
    text = response.content.decode()
    assert counted["statements"] <= 20
    assert HOSTILE not in text
    first, second = (" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in text.split("<tr>")[2:4])
    assert "select" in first
    assert "read" in first or "select" in first.rpartition("sales")[2]
    assert second.startswith("describe")
    assert of_guest() == {"select", "describe", "modify"}, "a preview changes nothing"
    digests = re.findall(r'name="digest" value="(\w+)"', text)
    saved = client.post(REVOKE, {**marked, "digest": digests, "action": "save"})
    assert saved.status_code == 302
    assert of_guest() == {"modify"}
    assert "2 grants are revoked." in client.get(saved.headers["Location"]).content.decode()
    again = client.post(REVOKE, {**marked, "digest": digests, "action": "save"})
    assert "2 grants were not revoked" in client.get(again.headers["Location"]).content.decode()


def test_forged_revocations_change_nothing(lake: Lake, sign_in: SignIn) -> None:
    lake.give("select", "sales", "local~guest")
    key = f"select namespace:{lake.warehouse.pk}:{lake.sales.pk}"
    sent = {"who": "user:local~guest", "project": lake.warehouse.project_id, "revoke": [key], "action": "save"}
    assert sign_in("steward").post(REVOKE, sent).status_code == 302, "without the digest of the preview"
    assert sign_in("jun").post(REVOKE, sent).status_code in {302, 404}
    lake.give("describe", "project", "local~engineer")
    assert sign_in("engineer").post(REVOKE, sent).status_code == 302
    assert sign_in("engineer").post(REVOKE, {**sent, "action": "preview"}).status_code == 403
    assert of_guest() == {"select"}
    steward = sign_in("steward")
    for wrong, status in (("x", 404), ("select table:x", 404), ("se lect server", 404), ("* warehouse:x", 400)):
        assert steward.post(REVOKE, {**sent, "revoke": [wrong]}).status_code == status, wrong
    assert steward.post(REVOKE, {**sent, "project": "unknown"}).status_code == 404
    assert steward.get(REVOKE).status_code == 302


def test_revocations_do_not_reveal_hidden_objects(lake: Lake, sign_in: SignIn) -> None:
    """Whether an object exists changes neither the preview nor the save, for one's own grants and for others'."""
    jun, at = sign_in("jun"), lake.warehouse.pk
    pairs = (
        (f"select table:{at}:{lake.plans.uuid}", f"select table:{at}:{uuid4()}"),
        (f"select namespace:{at}:{lake.secret.pk}", f"select namespace:{at}:{uuid4()}"),
        (f"select warehouse:{at}", f"select warehouse:{uuid4()}"),
    )

    def send(who: str, revoke: str, action: str) -> tuple[int, list[str]]:
        sent = {"who": f"user:local~{who}", "project": lake.warehouse.project_id, "revoke": revoke, "action": action}
        response = jun.post(REVOKE, sent, follow=True)
        text = response.content.decode()
        return response.status_code, re.findall(r"1 grant was not revoked[^<]*|No such object", text)

    for existing, missing in pairs:
        for who, status in (("jun", 404), ("guest", 403)):
            assert send(who, existing, "preview") == send(who, missing, "preview"), existing
            assert send(who, existing, "preview")[0] == status
    for existing, missing in pairs[:2]:
        saved = send("jun", existing, "save")
        assert saved == send("jun", missing, "save")
        assert len(saved[1]) == 1
