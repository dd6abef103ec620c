"""The access tab: own access, explanations, grants, and their forms."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import escape, unescape

import pytest
from django.test.client import ClientHandler

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import NotFound
from tenancy.actor import INTERNAL, Grantee
from tenancy.authz import port
from tenancy.authz.port import AuthorizationBackendError
from tenancy.models import Grant, Securable
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.services.grants import Difference, GrantSpec, apply_grants
from tenancy.services.projects import create_project
from tenancy.services.roles import create_role
from tests.console.access.conftest import SignIn
from tests.console.access.lake import HOSTILE, Lake
from tests.harness.statement_counts import counting

pytestmark = pytest.mark.django_db
OBJECTS = ("server", "project", "warehouse", "sales", "lines", "analysts")


def grants_on(lake: Lake, name: str) -> set[tuple[str, str, datetime | None]]:
    rows = Grant.objects.filter(securable_id=securable_id(*lake.ref[name]))
    return {(row.privilege, row.user_id or str(row.role_id), row.expires_at) for row in rows}


# --- who sees what -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OBJECTS)
def test_a_project_admin_sees_the_access_of_every_object(lake: Lake, sign_in: SignIn, name: str) -> None:
    response = sign_in("steward").get(lake.url(name))
    text = response.content.decode()
    assert response.status_code == 200
    assert "Your access" in text
    assert HOSTILE not in text
    assert HOSTILE.replace("{{ 7|add:7 }}", "14") not in unescape(text)


@pytest.mark.parametrize(
    ("user", "name", "status"),
    [
        ("guest", "server", 200), ("guest", "project", 404), ("guest", "warehouse", 404), ("guest", "sales", 404),
        ("guest", "lines", 404), ("guest", "analysts", 404), ("engineer", "lines", 200), ("engineer", "plans", 404),
        ("engineer", "sales", 200), ("engineer", "secret", 404), ("admin", "lines", 200),
    ],
)  # fmt: skip
def test_statuses_are_those_of_the_apis(lake: Lake, sign_in: SignIn, user: str, name: str, status: int) -> None:
    client = sign_in(user)
    assert client.get(lake.url(name)).status_code == status
    without_tab = client.get(lake.form(name))
    assert without_tab.status_code == status
    if status in {403, 404}:
        assert "plans" not in without_tab.content.decode()


def test_hidden_and_unknown_objects_have_the_same_page(lake: Lake, sign_in: SignIn) -> None:
    client = sign_in("engineer")
    hidden = client.get(lake.form("plans"))
    unknown = client.get(lake.form("plans").replace(str(lake.plans.uuid), "0197f3c2-0000-7000-8000-000000000000"))
    texts = [re.sub(r'csrfmiddlewaretoken" value="\w+"', "", each.content.decode()) for each in (hidden, unknown)]
    assert hidden.status_code == unknown.status_code == 404
    assert texts[0].split("Request id")[0] == texts[1].split("Request id")[0]


def test_without_permission_to_read_grants_only_the_own_access_is_shown(lake: Lake, sign_in: SignIn) -> None:
    text = sign_in("engineer").get(lake.url("lines")).content.decode()
    assert "Your access" in text
    assert "write data" in text
    assert 'id="grants"' not in text
    assert 'name="who"' not in text
    assert "local~steward" not in text


def test_who_manages_grants_without_seeing_the_object_gets_a_page_without_names(lake: Lake, sign_in: SignIn) -> None:
    lake.give("manage_grants", "secret", "local~guest")
    client = sign_in("guest")
    assert client.get(lake.url("plans")).status_code == 404
    response = client.get(lake.form("plans"))
    text = response.content.decode()
    assert response.status_code == 200
    assert 'id="grants"' in text
    assert "plans" not in text
    assert "secret" not in text
    sent = {"grantee": "user:local~engineer", "privilege": "describe"}
    done = client.post(lake.form("plans", "grant"), sent)
    assert done.status_code == 302
    assert done.headers["Location"].startswith(lake.form("plans"))
    assert ("describe", "local~engineer", None) in grants_on(lake, "plans")
    assert "plans" not in client.get(lake.form("plans")).content.decode()


def test_expired_grants_are_not_listed(lake: Lake, sign_in: SignIn) -> None:
    lake.give("select", "lines", "local~guest", expires_at=now() + timedelta(days=3))
    client = sign_in("steward")
    assert "local~guest" in client.get(lake.url("lines")).content.decode()
    Grant.objects.filter(user_id="local~guest").update(expires_at=now() - timedelta(seconds=1))
    assert "local~guest" not in client.get(lake.url("lines")).content.decode()
    assert (
        client.get(lake.form("lines", "explain"), {"who": "user:local~guest", "action": "read_data"}).status_code == 200
    )


# --- explanations ------------------------------------------------------------------------------------------------


def test_an_explanation_shows_the_chain_through_nested_roles(lake: Lake, sign_in: SignIn) -> None:
    query = {"who": "user:local~jun", "action": "read_data"}
    text = unescape(sign_in("steward").get(lake.form("lines", "explain"), query).content.decode())
    chain = text[text.index('<ol class="ik-chain"') :].partition("</ol>")[0]
    found = [chain.index(each) for each in ("Jun ", "bi-emea", "analysts ", "select", "sales ", "lines ")]
    assert found == sorted(found)
    assert "through orders " in chain, "the namespace between"
    assert "because the role <b>analysts" in text
    assert "on the namespace <b>sales" in text
    assert "Allowed" in text


def test_a_denial_shows_the_grants_that_would_allow_it(lake: Lake, sign_in: SignIn) -> None:
    query = {"who": "user:local~jun", "action": "write_data"}
    text = sign_in("steward").get(lake.form("lines", "explain"), query).content.decode()
    assert "Denied" in text
    assert "no grant</span>" in text
    assert "more grants on objects above" in text
    assert "Any one of these grants would allow it:" in text
    assert "<code>modify</code>" in text
    (form,) = re.findall(r'"([^"]*grantee=user%3Alocal~jun&amp;privilege=modify#grants)">on this table', text)
    page = sign_in("steward").get(unescape(form)).content.decode()
    assert '<option value="modify" selected' in page
    assert 'value="user:local~jun"' in page


def test_steps_on_objects_whose_grants_are_not_readable_are_withheld(lake: Lake, sign_in: SignIn) -> None:
    lake.give("ownership", "lines", "local~engineer")
    query = {"who": "user:local~jun", "action": "read_data"}
    text = sign_in("engineer").get(lake.form("lines", "explain"), query).content.decode()
    text = text[text.index('class="ik-explanation"') :].partition("</section>")[0]
    assert "Allowed" in text
    assert "not visible to you" in text
    assert "analysts" not in text
    assert "bi-emea" not in text


def test_everyone_may_have_their_own_access_explained(lake: Lake, sign_in: SignIn) -> None:
    text = sign_in("engineer").get(lake.form("lines", "explain"), {"action": "write_data"}).content.decode()
    assert "Allowed" in text
    assert "<code>modify</code>" in text
    ignored = sign_in("engineer").get(lake.form("lines", "explain"), {"action": "write_data", "who": "user:local~jun"})
    assert "Jun" not in ignored.content.decode()


def test_an_instance_admin_sees_that_no_grant_is_the_reason(lake: Lake, sign_in: SignIn) -> None:
    text = sign_in("admin").get(lake.form("lines", "explain"), {"action": "drop"}).content.decode()
    assert "Instance admins have this permission without a grant." in text
    assert "ik-chain" not in text


@pytest.mark.parametrize("view", ["", "?view=matrix"])
def test_a_viewer_without_a_grant_form_sees_why(lake: Lake, sign_in: SignIn, view: str) -> None:
    reason, cure = (
        "Instance admins can read grants, but not change them.",
        "you need manage_grants or ownership on this",
    )
    of_admin = sign_in("admin").get(lake.url("lines") + view).content.decode()
    assert reason in of_admin
    assert cure in of_admin
    assert "New grant" not in of_admin
    assert "admin or operator on this server" in sign_in("admin").get(lake.url("server") + view).content.decode()
    of_steward = sign_in("steward").get(lake.url("lines") + view).content.decode()
    assert cure not in of_steward


@pytest.mark.parametrize("who", ["user:local~missing", "role:0197f3c2-0000-7000-8000-000000000000", "x", "role:1"])
def test_unknown_principals_are_errors_of_the_form(lake: Lake, sign_in: SignIn, who: str) -> None:
    response = sign_in("steward").get(lake.form("lines", "explain"), {"who": who, "action": "drop"})
    assert response.status_code == 200
    assert 'role="alert"' in response.content.decode()


def test_a_backend_that_stops_responding_leaves_the_rest_of_the_page(
    lake: Lake, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = sign_in("steward")

    def fail(**_: object) -> None:
        raise AuthorizationBackendError("down")

    monkeypatch.setattr("management.admin.access.tab.explain_for", fail)
    response = client.get(lake.form("lines", "explain"), {"action": "drop"})
    assert response.status_code == 200
    assert "The authorization backend does not respond." in response.content.decode()


def test_a_change_that_is_not_delivered_yet_is_shown(
    lake: Lake, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = sign_in("steward")
    monkeypatch.setattr("tenancy.selectors.explanations.is_allowed", lambda *_: False)
    text = client.get(lake.form("lines", "explain"), {"who": "user:local~jun", "action": "read_data"}).content.decode()
    assert "Denied" in text
    assert "still being delivered" in text


# --- the picker --------------------------------------------------------------------------------------------------


def test_suggestions_have_roles_and_users_and_escape_their_names(lake: Lake, sign_in: SignIn) -> None:
    text = (
        sign_in("steward").get("/ui/principals/", {"q": "jun", "project": lake.warehouse.project_id}).content.decode()
    )
    assert 'data-value="user:local~jun"' in text
    assert escape(HOSTILE) in text
    assert HOSTILE not in text
    roles = sign_in("steward").get("/ui/principals/", {"q": "bi-emea", "project": lake.warehouse.project_id})
    assert f'data-value="role:{lake.bi.pk}"' in roles.content.decode()
    by_id = sign_in("steward").get("/ui/principals/", {"q": str(lake.bi.pk), "project": lake.warehouse.project_id})
    assert "bi-emea" in by_id.content.decode()


@pytest.mark.parametrize("query", [{"q": "bi-emea"}, {"q": "bi-emea", "project": "missing"}, {"q": "b\x00i"}])
def test_roles_are_not_suggested_without_the_permission_to_search_them(
    lake: Lake, sign_in: SignIn, query: dict[str, str]
) -> None:
    response = sign_in("guest").get("/ui/principals/", query)
    assert response.status_code == 200
    assert "role:" not in response.content.decode()


def test_roles_of_all_visible_projects_are_suggested(lake: Lake, sign_in: SignIn) -> None:
    """On pages of objects that are in no project. Roles of the same name have the names of their projects."""
    roles = {}
    for number in range(8):
        project = create_project(actor=INTERNAL, name=f"project {number} {HOSTILE}", project_id=f"p{number}")
        role = create_role(actor=INTERNAL, project=project, name=f"loaders {HOSTILE}")
        roles[project.pk] = role.pk
        if number != 3:
            give_in_project("project_admin", project.pk, "local~steward")
    steward, query = sign_in("steward"), {"q": "LOADERS"}
    with counting() as counted:
        text = steward.get("/ui/principals/", query).content.decode()
    found = {each for each in roles.values() if f'data-value="role:{each}"' in text}
    assert found == {each for project, each in roles.items() if project != "p3"}
    assert escape(f"project 7 {HOSTILE}") in text
    assert HOSTILE not in text
    assert "More match" not in text
    for project_id, role_id in roles.items():
        by_id = steward.get("/ui/principals/", {"q": str(role_id)}).content.decode()
        assert (f"role:{role_id}" in by_id) == (project_id != "p3")
    assert f"role:{roles['p7']}" in steward.get("/ui/principals/", {"q": "loaders", "project": "p7"}).content.decode()
    of_one = steward.get("/ui/principals/", {"q": "loaders", "project": "p6"}).content.decode()
    assert f"role:{roles['p7']}" not in of_one
    assert "project 6" not in of_one
    assert "role:" not in sign_in("guest").get("/ui/principals/", query).content.decode()
    for number in range(8, 14):
        project = create_project(actor=INTERNAL, name=f"project {number}", project_id=f"p{number}")
        create_role(actor=INTERNAL, project=project, name="loaders")
        give_in_project("project_admin", project.pk, "local~steward")
    with counting() as counted_more:
        text = steward.get("/ui/principals/", query).content.decode()
    assert text.count('data-value="role:') == 10
    assert "More match" in text
    assert counted_more["statements"] <= counted["statements"]


@pytest.mark.parametrize("typed", ["%", "_", "\\", "'", '"', "<b>", "ł", "", " ", "x" * 400, "role:1"])
def test_odd_texts_are_searched_for(lake: Lake, sign_in: SignIn, typed: str) -> None:
    create_project(actor=INTERNAL, name="other", project_id="other")
    give_in_project("project_admin", "other", "local~steward")
    response = sign_in("steward").get("/ui/principals/", {"q": typed})
    assert response.status_code == 200
    assert HOSTILE not in response.content.decode()
    assert str(lake.bi.pk) not in response.content.decode()


def give_in_project(privilege: str, project_id: str, user_id: str) -> None:
    difference = Difference(writes=[GrantSpec(privilege, Grantee(user_id=user_id))])
    ref: ObjectRef = ObjectRef(Securable.Type.PROJECT, project_id)
    apply_grants(actor=INTERNAL, ref=ref, difference=difference, missing=NotFound("missing"))


def test_without_script_the_form_offers_choices_and_is_sent_again(lake: Lake, sign_in: SignIn) -> None:
    client = sign_in("steward")
    first = client.get(
        lake.form("lines", "explain"), {"who-text": "jun", "who": "", "who-shown": "", "action": "read_data"}
    )
    text = first.content.decode()
    assert 'name="who-choice" value="user:local~jun"' in text
    assert "ik-chain-box" not in text
    again = {"who-text": "jun", "who-shown": "jun", "who-choice": "user:local~jun", "action": "read_data"}
    assert "ik-chain-box" in client.get(lake.form("lines", "explain"), again).content.decode()
    changed = {**again, "who-text": "steward"}
    assert "ik-chain-box" not in client.get(lake.form("lines", "explain"), changed).content.decode()


# --- forms -------------------------------------------------------------------------------------------------------


def test_a_grant_with_an_expiry_is_written_and_reported(lake: Lake, sign_in: SignIn) -> None:
    client = sign_in("steward")
    at = (now() + timedelta(days=30)).replace(second=0, microsecond=0)
    sent = {"grantee": "user:local~guest", "privilege": "select", "expires": f"{at:%Y-%m-%dT%H:%M}"}
    done = client.post(lake.form("lines", "grant"), sent)
    assert (done.status_code, done.headers["Location"]) == (302, f"{lake.url('lines')}#grants")
    assert ("select", "local~guest", at.astimezone(UTC)) in grants_on(lake, "lines")
    text = client.get(lake.url("lines")).content.decode()
    assert f"granted to guest, until {at:%Y-%m-%d %H:%M} UTC" in text
    assert HOSTILE not in text


def test_granting_twice_is_a_conflict_unless_the_expiry_is_to_be_replaced(lake: Lake, sign_in: SignIn) -> None:
    client = sign_in("steward")
    sent = {"grantee": f"role:{lake.bi.pk}", "privilege": "select"}
    assert client.post(lake.form("lines", "grant"), sent).status_code == 302
    at = (now() + timedelta(days=1)).replace(second=0, microsecond=0)
    again = {**sent, "expires": f"{at:%Y-%m-%dT%H:%M}"}
    conflict = client.post(lake.form("lines", "grant"), again)
    assert conflict.status_code == 409
    assert "is granted to bi-emea already" in conflict.content.decode()
    assert ("select", str(lake.bi.pk), None) in grants_on(lake, "lines")
    assert client.post(lake.form("lines", "grant"), {**again, "replace": "1"}).status_code == 302
    assert ("select", str(lake.bi.pk), at) in grants_on(lake, "lines")


def test_a_grant_without_a_chosen_principal_leads_to_the_choices(lake: Lake, sign_in: SignIn) -> None:
    client, before = sign_in("steward"), grants_on(lake, "lines")
    sent = {"grantee": "", "grantee-text": "guest", "grantee-shown": "", "privilege": "select"}
    response = client.post(lake.form("lines", "grant"), sent)
    assert response.status_code == 302
    assert grants_on(lake, "lines") == before
    text = client.get(response.headers["Location"].partition("#")[0]).content.decode()
    assert 'name="grantee-choice" value="user:local~guest"' in text
    assert '<option value="select" selected' in text


def test_a_revocation_shows_its_effect_first(lake: Lake, sign_in: SignIn) -> None:
    client = sign_in("steward")
    lake.give("select", "lines", "local~guest")
    sent = {"principal": "user:local~guest", "privilege": "select"}
    assert "Revoke select from guest" in client.get(lake.url("lines")).content.decode()
    shown = client.post(lake.form("lines", "preview"), sent)
    text = shown.content.decode()
    assert "Revoke <code>select</code>" in text
    assert "read data" in text, "what guest would lose"
    assert ("select", "local~guest", None) in grants_on(lake, "lines")
    digest = re.search(r'name="digest" value="(\w+)"', text)
    assert digest is not None
    save = {"revoke": "select user:local~guest", "digest": digest[1]}
    assert client.post(lake.form("lines", "save"), save).status_code == 302
    assert not {each for each in grants_on(lake, "lines") if each[1] == "local~guest"}
    assert client.post(lake.form("lines", "save"), save).status_code == 409


def test_grants_have_who_granted_them_and_are_filtered(lake: Lake, sign_in: SignIn) -> None:
    client = sign_in("steward")
    soon = now() + timedelta(days=3)
    granted = {"grantee": "user:local~guest", "privilege": "select", "expires": f"{soon:%Y-%m-%dT%H:%M}"}
    assert client.post(lake.form("lines", "grant"), granted).status_code == 302
    lake.give("describe", "sales", "local~guest")
    lake.give("describe", "lines", "local~admin")
    Grant.objects.filter(user_id="local~admin").update(granted_by=None)

    def rows(**query: str) -> list[str]:
        text = client.get(lake.url("lines"), query).content.decode().partition("<tbody>")[2].partition("</tbody>")[0]
        found = [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in text.split("<tr>")[1:]]
        return [row for row in found if row.startswith(("admin", "guest"))]

    by_guest, by_admin, inherited = rows()
    assert "\N{EN DASH}" in by_admin
    assert "steward" in by_guest
    assert "the server" in inherited
    assert rows(**{"grants-q": "GUE"}) == [by_guest, inherited]
    assert rows(expiring="1") == [by_guest]
    assert rows(**{"grants-q": "none of them%"}) == []


@pytest.mark.parametrize(
    ("user", "name", "status"),
    [("engineer", "lines", 403), ("guest", "lines", 404), ("guest", "project", 404), ("guest", "server", 403),
     ("steward", "server", 403), ("guest", "analysts", 404), ("admin", "lines", 403)],
)  # fmt: skip
def test_forged_forms_are_denied_by_the_service(lake: Lake, sign_in: SignIn, user: str, name: str, status: int) -> None:
    client, before = sign_in(user), Grant.objects.count()
    privilege = {"project": "describe", "server": "admin", "analysts": "ownership"}.get(name, "select")
    granted = client.post(lake.form(name, "grant"), {"grantee": f"user:local~{user}", "privilege": privilege})
    revoked = client.post(lake.form(name, "save"), {"revoke": f"{privilege} user:local~steward"})
    assert (granted.status_code, revoked.status_code) == (status, status)
    assert Grant.objects.count() == before


def test_forms_that_no_page_has_change_nothing(lake: Lake, sign_in: SignIn) -> None:
    client, before = sign_in("steward"), Grant.objects.count()
    form = lake.form("lines", "grant")
    guest = {"grantee": "user:local~guest"}
    assert client.post(form, {**guest, "privilege": "fly"}).status_code == 400
    assert client.post(form, {**guest, "privilege": ""}).status_code == 400
    assert client.post(form, {**guest, "privilege": "select", "expires": "tomorrow"}).status_code == 400
    assert client.post(form, {**guest, "privilege": "select", "expires": "2020-01-01T00:00"}).status_code == 400
    assert client.post(form, {"grantee": "group:x", "privilege": "select"}).status_code == 400
    for privilege in ("", "\0", "x y"):
        revoked = {"principal": "user:local~guest", "privilege": privilege}
        assert client.post(lake.form("lines", "preview"), revoked).status_code == 400
    assert client.get(form).headers["Location"] == f"{lake.url('lines')}#grants"
    assert sign_in("guest").get(form).status_code == 404
    assert sign_in("guest").get(lake.form("project", "grant")).status_code == 404
    assert client.post("/ui/access/object/table:x/grant/", guest).status_code == 404
    assert client.post(lake.form("warehouse", "managed-access"), {"managed": "x"}).status_code == 400
    assert Grant.objects.count() == before


def test_csrf_tokens_are_required(lake: Lake, sign_in: SignIn) -> None:
    client = sign_in("steward")
    client.handler = ClientHandler(enforce_csrf_checks=True)
    sent = {"grantee": "user:local~guest", "privilege": "select"}
    assert client.post(lake.form("lines", "grant"), sent).status_code == 403


@pytest.mark.parametrize(("user", "status"), [("steward", 302), ("engineer", 403), ("guest", 404)])
def test_managed_access_is_switched_by_who_may(lake: Lake, sign_in: SignIn, user: str, status: int) -> None:
    client = sign_in(user)
    assert client.post(lake.form("sales", "managed-access"), {"managed": "on"}).status_code == status
    row = Securable.objects.get(pk=securable_id(*lake.ref["sales"]))
    assert row.managed_access is (status == 302)
    if status == 302:
        assert "on, from an object above" in client.get(lake.url("orders")).content.decode()
        assert client.post(lake.form("sales", "managed-access"), {"managed": "off"}).status_code == 302


def test_buttons_are_shown_only_to_who_may_use_them(lake: Lake, sign_in: SignIn) -> None:
    lake.give("pass_grants", "lines", "local~jun")
    text = sign_in("jun").get(lake.url("lines")).content.decode()
    assert 'name="privilege" required' in text
    assert '<option value="select"' in text
    assert '<option value="modify"' not in text
    assert "Revoke pass_grants" not in text
    assert "Switch on" not in sign_in("engineer").get(lake.url("sales")).content.decode()


def test_members_of_a_role_are_grants_on_it(lake: Lake, sign_in: SignIn) -> None:
    client = sign_in("steward")
    sent = {"grantee": "user:local~guest", "privilege": "assignee"}
    assert client.post(lake.form("analysts", "grant"), sent).status_code == 302
    text = client.get(lake.url("analysts")).content.decode()
    assert "local~guest" in text
    revoked = {"principal": "user:local~guest", "privilege": "assignee"}
    assert "Revoke <code>assignee</code>" in client.post(lake.form("analysts", "preview"), revoked).content.decode()
    itself = {"grantee": f"role:{lake.analysts.pk}", "privilege": "assignee"}
    assert client.post(lake.form("analysts", "grant"), itself).status_code == 400


def test_the_backend_of_these_tests_is_the_builtin_one(lake: Lake) -> None:
    assert port.authorizer().name == "builtin"
