"""The matrix of grants, the preview of changes, and saving them in one step or not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext

from icekeeper.kernel.clock import now
from tenancy.actor import INTERNAL, Grantee
from tenancy.models import Grant, Securable
from tenancy.models.securable import securable_id
from tenancy.selectors.grant_previews import digest_of_grants
from tenancy.selectors.projects import get_project
from tenancy.services.grants import apply_assignments
from tenancy.services.projects import create_project
from tenancy.services.role_members import Members, add_role_members
from tenancy.services.roles import create_role
from tests.console.access.conftest import SignIn
from tests.console.access.lake import HOSTILE, Lake

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def cells(response: HttpResponse) -> dict[str, str]:
    """Return the state of each cell of the matrix by its name, without markup."""
    text = response.content.decode()
    found = re.findall(r'class="ik-cell ik-cell--(\w+)[^"]*"[^>]*? title="([^"]*)"', text)
    return {unescape(name): state for state, name in found}


def state(response: HttpResponse, principal: str, privilege: str) -> str:
    ((_, found),) = [
        (name, each)
        for name, each in cells(response).items()
        if name.startswith(principal) and re.search(rf": {privilege} (?!.*: )", name)
    ]
    return found


def held(lake: Lake, name: str = "lines") -> set[tuple[str, str]]:
    rows = Grant.objects.filter(securable_id=securable_id(*lake.ref[name]))
    return {(row.privilege, row.user_id or str(row.role_id)) for row in rows}


def fields(response: HttpResponse) -> dict[str, Any]:
    """Return the fields of the form of a preview, as a browser sends them."""
    text = response.content.decode()
    sent: dict[str, Any] = {"grant": [], "revoke": []}
    for name, value in re.findall(r'<input type="hidden" name="([a-z]+)" value="([^"]*)"', text):
        if name in {"grant", "revoke"}:
            sent[name].append(unescape(value))
        elif name == "digest":
            sent[name] = value
    return sent


def preview(client: Client, lake: Lake, changes: Mapping[str, Any], name: str = "lines") -> Any:
    response = client.post(lake.form(name, "preview"), changes)
    assert response.status_code == 200, response.content.decode()
    return response


# --- the matrix --------------------------------------------------------------------------------------------------


def test_cells_show_where_a_privilege_comes_from(lake: Lake, sign_in: SignIn) -> None:
    lake.give("select", "lines", "local~guest", expires_at=now() + timedelta(days=9))
    lake.give("modify", "lines", "local~admin")
    response = sign_in("steward").get(lake.url("lines"), {"view": "matrix"})
    assert response.status_code == 200
    assert state(response, "guest", "select") == "expiring"
    assert state(response, "guest", "describe") == "implied"
    assert state(response, "guest", "modify") == "none"
    assert state(response, "admin", "modify") == "granted"
    assert state(response, "analysts", "select") == "inherited"
    assert state(response, "bi-emea", "select") == "inherited"
    assert state(response, "Jun", "select") == "inherited"
    assert state(response, "engineer", "modify") == "inherited"
    names = cells(response)
    assert any("inherited from namespace sales" in each and "by the role analysts" in each for each in names)
    text = response.content.decode()
    assert HOSTILE not in text
    assert HOSTILE.replace("{{ 7|add:7 }}", "14") not in unescape(text)


def test_hidden_origins_are_not_named(lake: Lake, sign_in: SignIn) -> None:
    lake.give("manage_grants", "lines", "local~guest")
    lake.give("select", "warehouse", "local~admin")
    Grant.objects.filter(securable_id=securable_id(*lake.ref["sales"])).delete()
    response = sign_in("guest").get(lake.form("lines"), {"view": "matrix"})
    assert response.status_code == 200
    text = unescape(response.content.decode())
    assert "an object that is not visible to you" in text
    assert "sales" not in text
    assert "lines" not in text


def test_cells_can_be_changed_only_by_who_may_grant(lake: Lake, sign_in: SignIn) -> None:
    lake.give("pass_grants", "lines", "local~jun")
    text = sign_in("jun").get(lake.url("lines"), {"view": "matrix"}).content.decode()
    changeable = set(re.findall(r'name="on" value="(\w+) ', text))
    assert changeable == {"select", "describe"}
    assert "Mark cells to grant" in text
    assert "matrix" not in sign_in("engineer").get(lake.url("lines"), {"view": "matrix"}).content.decode()


def test_a_principal_without_access_gets_a_row(lake: Lake, sign_in: SignIn) -> None:
    client = sign_in("steward")
    query = {"view": "matrix", "row": "user:local~guest"}
    assert "guest: select none" in cells(client.get(lake.url("lines"), query))
    by_text = {"view": "matrix", "row-text": "guest", "row": "", "row-shown": ""}
    assert 'name="row-choice" value="user:local~guest"' in client.get(lake.url("lines"), by_text).content.decode()
    assert client.get(lake.url("lines"), {**query, "row": "x"}).status_code == 200


def test_pages_of_the_matrix_have_every_principal_once(
    lake: Lake, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = sign_in("steward")
    whole = cells(client.get(lake.url("lines"), {"view": "matrix"}))
    monkeypatch.setattr("management.admin.access.tab.ROWS_A_PAGE", 2)
    found: list[str] = []
    url = f"{lake.url('lines')}?view=matrix"
    while url:
        response = client.get(url)
        assert response.status_code == 200
        found += cells(response)
        following = re.search(r'href="(\?view=matrix&amp;matrix-after=[^"#]+)', response.content.decode())
        url = f"{lake.url('lines')}{unescape(following[1])}" if following else ""
    assert sorted(found) == sorted(whole)


@pytest.mark.parametrize("name", ["server", "project", "warehouse", "sales", "analysts"])
def test_every_object_has_a_matrix(lake: Lake, sign_in: SignIn, name: str) -> None:
    lake.give("operator", "server", "local~steward")
    lake.give("assignee", "analysts", "local~guest")
    response = sign_in("steward").get(lake.url(name), {"view": "matrix"})
    assert response.status_code == 200
    assert cells(response)
    if name == "analysts":
        assert state(response, "guest", "assignee") == "granted"


def test_a_matrix_runs_a_constant_number_of_statements(lake: Lake, sign_in: SignIn) -> None:
    client = sign_in("steward")
    client.get(lake.url("lines"))
    numbers = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as captured:
            client.get(lake.url("lines"), {"view": "matrix"})
        numbers.append(len(captured))
        for user in ("guest", "admin", "jun"):
            lake.give("select", "lines", f"local~{user}")
    assert numbers[0] == numbers[1] <= 35


# --- previews ----------------------------------------------------------------------------------------------------


def test_a_preview_shows_changes_as_sentences_and_who_gains_and_loses(lake: Lake, sign_in: SignIn) -> None:
    lake.give("select", "lines", "local~guest")
    client, before = sign_in("steward"), held(lake)
    changes = {"on": [f"modify role:{lake.bi.pk}"], "had": ["select user:local~guest"]}
    text = unescape(preview(client, lake, changes).content.decode())
    assert "Grant <code>modify</code> on" in text
    assert "Revoke <code>select</code> on" in text
    effects = text[text.index("Effect on this table") :]
    assert "Jun " in effects
    assert "write data" in effects
    assert "guest" in effects
    assert "read data" in effects
    assert held(lake) == before


def test_a_preview_without_an_effect_shows_that(lake: Lake, sign_in: SignIn) -> None:
    text = preview(sign_in("steward"), lake, {"on": [f"select role:{lake.bi.pk}"]}).content.decode()
    assert "No principal gains or loses permissions on it" in text


def test_a_preview_warns_of_the_loss_of_own_permissions(lake: Lake, sign_in: SignIn) -> None:
    lake.give("ownership", "lines", "local~engineer")
    text = preview(sign_in("engineer"), lake, {"had": ["ownership user:local~engineer"]}).content.decode()
    warning = text[text.index("You would lose your own permissions:") :].partition("</div>")[0]
    assert "ownership" in warning
    assert "read grants" in warning
    assert "write data" not in warning  # by modify on the namespace
    others = preview(sign_in("steward"), lake, {"had": ["ownership user:local~engineer"]}).content.decode()
    assert "You would lose your own permissions:" not in others


def test_a_preview_shows_what_follows_below(lake: Lake, sign_in: SignIn) -> None:
    text = preview(sign_in("steward"), lake, {"on": ["modify user:local~guest"]}, "sales").content.decode()
    assert "On every object below" in text
    assert "<code>describe, select, modify</code>" in text


def test_changes_that_others_saved_meanwhile_are_left_out(lake: Lake, sign_in: SignIn) -> None:
    lake.give("select", "lines", "local~guest")
    changes = {"on": ["select user:local~guest"], "had": ["modify user:local~guest"]}
    text = preview(sign_in("steward"), lake, changes).content.decode()
    assert "Already as you want it" in text
    assert "Nothing is left to change." in text
    assert ">Save<" not in text


def test_a_new_grant_has_a_preview_too(lake: Lake, sign_in: SignIn) -> None:
    client, before = sign_in("steward"), held(lake)
    sent = {"grantee": "user:local~guest", "privilege": "select", "expires": "2099-01-01T00:00"}
    shown = preview(client, lake, sent)
    assert fields(shown)["grant"] == ["select user:local~guest"]
    assert 'name="expires-0" value="2099-01-01T00:00"' in shown.content.decode()
    assert held(lake) == before
    unchosen = client.post(lake.form("lines", "preview"), {**sent, "grantee": "", "grantee-text": "guest"})
    assert "grantee-text=guest" in unchosen.headers["Location"]


def test_an_unchanged_matrix_leads_back(lake: Lake, sign_in: SignIn) -> None:
    lake.give("select", "lines", "local~guest")
    client = sign_in("steward")
    cell = "select user:local~guest"
    for changes in ({}, {"on": [cell], "had": [cell]}):
        response = client.post(lake.form("lines", "preview"), {"view": "matrix", **changes})
        assert response.status_code == 302
        assert response.headers["Location"] == f"{lake.url('lines')}?view=matrix#grants"


@pytest.mark.parametrize(
    "changes",
    [{"on": ["select"]}, {"on": ["select x"]}, {"on": ["\0 user:a~b"]}, {"on": ["fly user:local~guest"]},
     {"on": ["select user:"]}, {"on": [f"select user:local~u{number}" for number in range(101)]}],
)  # fmt: skip
def test_invalid_changes_are_rejected(lake: Lake, sign_in: SignIn, changes: dict[str, list[str]]) -> None:
    assert sign_in("steward").post(lake.form("lines", "preview"), changes).status_code == 400


@pytest.mark.parametrize(("user", "status"), [("engineer", 403), ("guest", 404)])
def test_forged_previews_and_saves_are_denied(lake: Lake, sign_in: SignIn, user: str, status: int) -> None:
    client, before = sign_in(user), held(lake)
    own = f"select user:local~{user}"
    assert client.post(lake.form("lines", "preview"), {"on": [own]}).status_code == status
    assert client.post(lake.form("lines", "save"), {"grant": [own], "digest": "x"}).status_code == status
    digest = digest_of_grants(ref=lake.ref["lines"], grantees={Grantee(user_id=f"local~{user}")})
    assert client.post(lake.form("lines", "save"), {"grant": [own], "digest": digest}).status_code == status
    assert held(lake) == before


def test_who_reads_grants_without_granting_cannot_save(lake: Lake, sign_in: SignIn) -> None:
    client, before = sign_in("admin"), held(lake)
    shown = preview(client, lake, {"on": ["select user:local~admin"]})
    assert client.post(lake.form("lines", "save"), fields(shown)).status_code == 403
    assert held(lake) == before


def test_a_role_of_another_project_cannot_be_previewed(lake: Lake, sign_in: SignIn) -> None:
    other = create_project(actor=INTERNAL, name="other", project_id=None)
    foreign = create_role(actor=INTERNAL, project=other, name="foreign")
    add_role_members(actor=INTERNAL, project=other, role_id=foreign.pk, members=Members(user_ids=["local~jun"]))
    client, value = sign_in("steward"), f"role:{foreign.pk}"
    for sent in ({"on": [f"select {value}"]}, {"grantee": value, "privilege": "select"}):
        response = client.post(lake.form("lines", "preview"), sent)
        assert response.status_code == 400
        assert "Jun " not in response.content.decode()
    absent = preview(client, lake, {"had": [f"select {value}"]}).content.decode()
    assert "Jun " not in absent


def test_members_that_the_viewer_may_not_list_are_withheld(lake: Lake, sign_in: SignIn) -> None:
    """A role of another project, which the viewer does not see, owns `analysts`, and so is a member of it."""
    lake.give("ownership", "lines", "local~engineer")
    other = create_project(actor=INTERNAL, name="other", project_id=None)
    foreign = create_role(actor=INTERNAL, project=other, name="foreign")
    add_role_members(actor=INTERNAL, project=other, role_id=foreign.pk, members=Members(user_ids=["local~guest"]))
    on = Securable.objects.get(pk=securable_id(*lake.ref["analysts"]))
    Grant.objects.create(
        securable=on, path=on.path, role_id=foreign.pk, privilege="ownership", owned_role_id=lake.analysts.pk
    )
    changes = {"on": [f"modify role:{lake.analysts.pk}"]}
    for user, is_listed in (("engineer", False), ("admin", True)):
        text = unescape(preview(sign_in(user), lake, changes).content.decode())
        effects = text[text.index("Effect on this table") :].partition("</table>")[0]
        assert "bi-emea" in effects
        assert "Jun " in effects
        assert ("foreign, and its members, which are not visible to you" in effects) is not is_listed
        assert ("guest" in effects) is is_listed


# --- saving ------------------------------------------------------------------------------------------------------


def test_all_changes_are_saved_with_one_call(lake: Lake, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.give("select", "lines", "local~guest")
    client, calls = sign_in("steward"), []

    def counted(**arguments: Any) -> None:
        calls.append(arguments)
        apply_assignments(**arguments)

    monkeypatch.setattr("management.admin.access.grant_previews.apply_assignments", counted)
    changes = {
        "on": [f"modify role:{lake.bi.pk}", "describe user:local~jun"],
        "had": ["select user:local~guest"],
    }
    sent = fields(preview(client, lake, changes))
    at = (now() + timedelta(days=5)).replace(second=0, microsecond=0)
    response = client.post(lake.form("lines", "save"), {**sent, "expires-1": f"{at:%Y-%m-%dT%H:%M}"})
    assert response.status_code == 302
    assert len(calls) == 1
    assert {("modify", str(lake.bi.pk)), ("describe", "local~jun")} <= held(lake)
    assert ("select", "local~guest") not in held(lake)
    assert Grant.objects.get(user_id="local~jun", privilege="describe").expires_at == at
    assert "3 changes saved on" in client.get(lake.url("lines")).content.decode()


def test_a_change_of_the_same_grants_by_another_user_is_a_conflict(lake: Lake, sign_in: SignIn) -> None:
    client, other = sign_in("steward"), sign_in("steward")
    sent = fields(preview(client, lake, {"on": ["select user:local~guest", "modify user:local~guest"]}))
    theirs = fields(preview(other, lake, {"on": ["select user:local~guest"]}))
    assert other.post(lake.form("lines", "save"), theirs).status_code == 302
    conflict = client.post(lake.form("lines", "save"), sent)
    text = conflict.content.decode()
    assert conflict.status_code == 409
    assert "Another user changed these grants since the preview." in text
    assert "Already as you want it" in text
    assert ("modify", "local~guest") not in held(lake)
    again = fields(conflict)
    assert again["grant"] == ["modify user:local~guest"]
    assert client.post(lake.form("lines", "save"), again).status_code == 302
    assert {("select", "local~guest"), ("modify", "local~guest")} <= held(lake)


def test_an_invalid_expiry_keeps_the_changes(lake: Lake, sign_in: SignIn) -> None:
    client, before = sign_in("steward"), held(lake)
    sent = fields(preview(client, lake, {"on": ["select user:local~guest", "modify user:local~jun"]}))
    for expires, problem in (("tomorrow", "The expiry must be"), ("2020-01-01T00:00", "would have ended already")):
        again = client.post(lake.form("lines", "save"), {**sent, "expires-1": expires})
        assert again.status_code == 400
        assert problem in again.content.decode()
        assert f'name="expires-1" value="{expires}"' in again.content.decode()
        assert fields(again) == sent
    assert held(lake) == before
    form = {"grantee": "user:local~guest", "privilege": "select", "expires": "tomorrow"}
    rejected = client.post(lake.form("lines", "grant"), form)
    assert rejected.status_code == 400
    assert "The expiry must be" in rejected.content.decode()
    assert 'value="tomorrow"' in rejected.content.decode()


def test_another_grant_to_the_same_principal_is_a_conflict(lake: Lake, sign_in: SignIn) -> None:
    client = sign_in("steward")
    sent = fields(preview(client, lake, {"on": ["select user:local~guest"]}))
    lake.give("modify", "lines", "local~guest")  # of the same principal: no entry of the form is without effect
    assert client.post(lake.form("lines", "save"), sent).status_code == 409
    assert ("select", "local~guest") not in held(lake)


def test_what_is_left_out_is_no_conflict(lake: Lake, sign_in: SignIn) -> None:
    lake.give("select", "lines", "local~guest")
    client = sign_in("steward")
    shown = preview(client, lake, {"on": ["select user:local~guest", "modify user:local~admin"]})
    assert fields(shown)["grant"] == ["modify user:local~admin"]
    assert client.post(lake.form("lines", "save"), fields(shown)).status_code == 302
    assert ("modify", "local~admin") in {(each[0], each[1]) for each in held(lake)}


def test_a_change_of_other_principals_is_no_conflict(lake: Lake, sign_in: SignIn) -> None:
    client = sign_in("steward")
    sent = fields(preview(client, lake, {"on": ["select user:local~guest"]}))
    lake.give("select", "lines", "local~jun")
    assert client.post(lake.form("lines", "save"), sent).status_code == 302


@pytest.mark.parametrize("is_revoked", [False, True])
def test_a_change_between_check_and_write_is_a_conflict_that_writes_nothing(
    lake: Lake, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch, is_revoked: bool
) -> None:
    if is_revoked:
        lake.give("select", "lines", "local~guest")
    client = sign_in("steward")
    cell = "select user:local~guest"
    changes = (
        {"had": [cell], "on": ["modify user:local~jun"]} if is_revoked else {"on": [cell, "modify user:local~jun"]}
    )
    sent = fields(preview(client, lake, changes))

    def late(**arguments: Any) -> None:
        lake.give("select", "lines", "local~guest", revoke=is_revoked)
        apply_assignments(**arguments)

    monkeypatch.setattr("management.admin.access.grant_previews.apply_assignments", late)
    assert client.post(lake.form("lines", "save"), sent).status_code == 409
    assert ("modify", "local~jun") not in held(lake)


def test_an_expired_grant_can_be_granted_again(lake: Lake, sign_in: SignIn) -> None:
    lake.give("select", "lines", "local~guest", expires_at=now() + timedelta(days=1))
    Grant.objects.filter(user_id="local~guest").update(expires_at=now() - timedelta(seconds=1))
    client = sign_in("steward")
    assert "guest" not in "".join(cells(client.get(lake.url("lines"), {"view": "matrix"})))
    sent = fields(preview(client, lake, {"on": ["select user:local~guest"]}))
    assert client.post(lake.form("lines", "save"), sent).status_code == 302
    assert Grant.objects.get(user_id="local~guest", privilege="select").expires_at is None


def test_members_of_roles_are_changed_by_the_matrix_of_the_role(lake: Lake, sign_in: SignIn) -> None:
    client = sign_in("steward")
    shown = preview(client, lake, {"on": ["assignee user:local~guest"]}, "analysts")
    assert "Members have all permissions of the role." in shown.content.decode()
    assert client.post(lake.form("analysts", "save"), fields(shown)).status_code == 302
    response = client.get(lake.url("analysts"), {"view": "matrix"})
    assert state(response, "guest", "assignee") == "granted"


def test_members_of_large_roles_are_evaluated_in_part(
    lake: Lake, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_role_members(
        actor=INTERNAL, project=get_project(None), role_id=lake.bi.pk, members=Members(user_ids=["local~guest"])
    )
    monkeypatch.setattr("tenancy.selectors.grant_previews.MAX_PRINCIPALS", 1)
    text = preview(sign_in("steward"), lake, {"on": [f"modify role:{lake.bi.pk}"]}).content.decode()
    assert "were evaluated in part" in text


def test_the_last_administrator_is_kept(lake: Lake, sign_in: SignIn) -> None:
    client = sign_in("steward")
    sent = fields(preview(client, lake, {"had": ["project_admin user:local~steward"]}, "project"))
    response = client.post(lake.form("project", "save"), sent)
    assert response.status_code == 409
    assert ("project_admin", "local~steward") in held(lake, "project")
