"""The profile: own attributes, roles, sessions and access tokens."""

from __future__ import annotations

import json
import logging
import re
from html import unescape

import pytest
from django.apps import apps

from management.models import ConsoleSession
from management.sign_in.session_store import SessionStore
from tenancy.actor import INTERNAL
from tenancy.models import AccessToken, Project, Role
from tenancy.services.role_members import Members, add_role_members
from tenancy.services.users import update_user
from tests.console.accounts.conftest import HOSTILE, Kind, SignIn, is_escaped
from tests.console.sign_in.browser import Browser, Page
from tests.console.sign_in.code_provider import CodeProvider
from tests.console.sign_in.conftest import *  # noqa: F403 - fixtures
from tests.console.sign_in.conftest import SetVariables, sign_in_at
from tests.console.sign_in.session_fixtures import is_signed_in
from tests.harness.audit_rows import rows
from tests.management.warehouse_request_fixtures import use_settings

pytestmark = pytest.mark.django_db

PROFILE = "/ui/profile/"
TOKEN = re.compile(r"ik[ps]_[0-9A-Za-z]{22}_[0-9A-Za-z]{49}")


def token_in(page: Page) -> str:
    found = set(TOKEN.findall(page.text))
    assert len(found) == 1, page.text
    return str(found.pop())


def create(browser: Browser, **fields: str) -> Page:
    return browser.post(
        PROFILE, {"action": "create-token", "name": "laptop", "scopes": "catalog", "days": "30"} | fields
    )


@pytest.mark.parametrize("kind", Kind)
def test_every_user_has_a_profile(sign_in: SignIn, kind: Kind) -> None:
    page = sign_in(kind).get(PROFILE)
    assert page.status == 200
    assert f'data-copy="{kind.value}"' in page.text
    assert "this session" in page.text
    assert page.header("Cache-Control") == "private, no-store"
    assert 'href="/ui/profile/"' in sign_in(kind).get("/ui/").text


def test_hostile_names_are_text(sign_in: SignIn, project: Project, hostile_role: Role) -> None:
    browser = sign_in(Kind.LEAD)
    browser.headers["user_agent"] = HOSTILE
    update_user(actor=INTERNAL, user_id=Kind.LEAD, name=HOSTILE, email=HOSTILE, user_type="human")
    members = Members(user_ids=[Kind.LEAD])
    add_role_members(actor=INTERNAL, project=project, role_id=hostile_role.pk, members=members)
    create(browser, name=HOSTILE)
    assert is_escaped(browser.get(PROFILE))


def test_a_token_is_shown_once_and_found_nowhere_else(sign_in: SignIn, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    browser = sign_in(Kind.GUEST)
    page = create(browser)
    assert (page.status, page.header("Cache-Control")) == (201, "private, no-store")
    assert page.header("Content-Encoding") == "identity"
    token = token_in(page)
    assert f'data-copy="{token}"' in page.text
    secret = token.rpartition("_")[2]
    later = [browser.get(PROFILE), browser.get("/ui/"), browser.get("/ui/audit/")]
    assert [each.status for each in later[:2]] == [200, 200]
    assert not any(secret in each.text for each in later)
    stored = [repr(row) for model in apps.get_models() for row in model._default_manager.values_list()]
    stored += [repr(SessionStore().decode(each.session_data)) for each in ConsoleSession.objects.all()]
    logged = [json.dumps(each.__dict__, default=str) for each in caplog.records]
    assert [text[:200] for text in stored + logged if secret in text] == []
    assert all(secret not in value for value in browser.cookies.values())


def test_create_rotate_and_revoke(sign_in: SignIn) -> None:
    browser = sign_in(Kind.ENGINEER)
    create(browser)
    (row,) = AccessToken.objects.all()
    assert (row.user_id, row.name, row.scopes, (row.expires_at - row.created_at).days) == (
        Kind.ENGINEER, "laptop", "catalog", 30,
    )  # fmt: skip
    rotated = browser.post(PROFILE, {"action": "rotate-token", "token_id": str(row.pk)})
    assert rotated.status == 201
    token_in(rotated)
    new = AccessToken.objects.exclude(pk=row.pk).get()
    assert "replaced" in browser.get(PROFILE).text
    again = browser.post(PROFILE, {"action": "rotate-token", "token_id": str(row.pk)})
    assert (again.status, "was rotated already" in again.text) == (409, True)
    question = browser.get(f"/ui/token/{new.pk}/revoke/")
    assert f"It begins with {new.prefix}." in question.text
    assert AccessToken.objects.get(pk=new.pk).revoked_at is None
    revoked = browser.post(f"/ui/token/{new.pk}/revoke/", {"action": "delete"})
    assert (revoked.status, revoked.location) == (302, PROFILE)
    assert AccessToken.objects.get(pk=new.pk).revoked_at is not None
    assert f"The token laptop ({new.prefix}) is revoked." in browser.get(PROFILE).text
    assert {each.event for each in rows() if each.event.startswith("access-token")} == {
        "access-token.created", "access-token.rotated", "access-token.revoked",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": " "}, "token name"),
        ({"scopes": "everything"}, "Must be one or more of"),
        ({"days": "0"}, "The lifetime of a token"),
        ({"days": "9" * 9}, "Must be a number of days"),
        ({"days": "\N{SUPERSCRIPT TWO}"}, "Must be a number of days"),
    ],
)
def test_errors_keep_what_was_entered(sign_in: SignIn, fields: dict[str, str], message: str) -> None:
    page = create(sign_in(Kind.GUEST), **{"name": "kept & shown"} | fields)
    assert page.status == 400
    assert message in unescape(page.text)
    assert ('value="kept &amp; shown"' in page.text) == ("name" not in fields)
    assert AccessToken.objects.count() == 0


def test_tokens_of_others_cannot_be_changed(sign_in: SignIn) -> None:
    create(sign_in(Kind.LEAD))
    row = AccessToken.objects.get()
    guest = sign_in(Kind.GUEST)
    assert guest.post(PROFILE, {"action": "rotate-token", "token_id": str(row.pk)}).status == 403
    assert guest.get(f"/ui/token/{row.pk}/revoke/").status == 403
    assert guest.post(f"/ui/token/{row.pk}/revoke/", {"action": "delete"}).status == 403
    row.refresh_from_db()
    assert (row.revoked_at, row.replaced_by_id, AccessToken.objects.count()) == (None, None, 1)


def test_forged_forms(sign_in: SignIn) -> None:
    browser = sign_in(Kind.GUEST)
    assert browser.post(PROFILE, {"action": "create-token", "name": "x"}, csrf=None).status == 403
    assert browser.post(PROFILE, {"action": "create-token", "name": "x"}, origin="https://evil.example").status == 403
    assert browser.post(PROFILE, {"action": "delete-everything"}).status == 400
    assert browser.post(PROFILE, {"action": "rotate-token", "token_id": "x"}).status == 400
    assert AccessToken.objects.count() == 0


def test_sessions_are_ended_one_by_one_and_all(sign_in: SignIn) -> None:
    here, there, elsewhere = (sign_in(Kind.ENGINEER) for _ in range(3))
    other = sign_in(Kind.LEAD)
    page = here.get(PROFILE)
    assert page.text.count("</svg>this session") == 1
    first = ConsoleSession.objects.filter(user_id=Kind.ENGINEER).order_by("created_at")[1]
    assert here.post(PROFILE, {"action": "end-session", "session_id": str(first.pk)}).status == 302
    assert [is_signed_in(each) for each in (here, there, elsewhere, other)] == [True, False, True, True]
    assert here.post(PROFILE, {"action": "end-other-sessions"}).status == 302
    assert "1 other session has ended." in here.get(PROFILE).text
    assert [is_signed_in(each) for each in (here, elsewhere, other)] == [True, False, True]
    foreign = ConsoleSession.objects.get(user_id=Kind.LEAD)
    assert here.post(PROFILE, {"action": "end-session", "session_id": str(foreign.pk)}).status == 404
    assert is_signed_in(other)


def test_roles_of_a_token_of_the_provider(browser: Browser, variables: SetVariables, provider: CodeProvider) -> None:
    variables(**provider.settings, LAKEKEEPER__OPENID_ROLES_CLAIM="roles")
    provider.access_claims["roles"] = ["eng", HOSTILE]
    sign_in_at(browser, provider)
    page = browser.get(PROFILE)
    assert page.status == 200
    assert "The identity provider named at sign-in" in page.text
    assert "<code>eng</code>" in page.text
    assert is_escaped(page)


def test_no_tokens_are_created_where_they_are_not_accepted(sign_in: SignIn, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = sign_in(Kind.GUEST)
    use_settings(monkeypatch, access_tokens=False)
    monkeypatch.setattr("management.admin.accounts.token_lists.accepts_access_tokens", lambda: False)
    page = browser.get(PROFILE)
    assert "Create a token" not in page.text
    assert "does not accept access tokens" in page.text
    assert create(browser).status == 412
    assert AccessToken.objects.count() == 0
