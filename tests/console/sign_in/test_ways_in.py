"""The sign-in page, access tokens, local accounts and one-time addresses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth import hashers
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models import F
from django.test import override_settings

from management.models import ConsoleSession, PasswordAttempt, SignInAddress
from management.sign_in.local_accounts import set_password
from tenancy import maintenance
from tenancy.actor import INTERNAL
from tenancy.authn.requests import verified_tokens
from tenancy.models import User
from tests.console.sign_in.browser import Browser
from tests.console.sign_in.code_provider import CodeProvider
from tests.console.sign_in.conftest import SetVariables
from tests.console.sign_in.session_fixtures import code_of, is_signed_in, new_code, sign_in_once
from tests.harness.audit_rows import rows
from tests.token_fixtures import new_token

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"
TOKEN_FORM, PASSWORD_FORM, ONCE = "/ui/sign-in/token/", "/ui/sign-in/password/", "/ui/sign-in/once/"


@pytest.fixture
def local_account(variables: SetVariables) -> Iterator[None]:
    """The account `local~admin`, with a hash that is fast to compute."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        variables(ICEKEEPER__CONSOLE__LOCAL_ACCOUNTS="true", ICEKEEPER__ACCESS_TOKENS="true")
        call("set_password", "local~admin", create_user=True, password=PASSWORD)
        yield


def call(command: str, *arguments: str, password: str | None = None, **options: object) -> str:
    printed = StringIO()
    with pytest.MonkeyPatch.context() as patch:
        if password is not None:
            patch.setattr("sys.stdin", StringIO(f"{password}\n"))
            options["stdin"] = True
        call_command(command, *arguments, stdout=printed, stderr=StringIO(), **options)
    return printed.getvalue()


def sign_in(browser: Browser, name: str, password: str) -> int:
    return browser.post(PASSWORD_FORM, {"name": name, "password": password}).status


def test_the_page_has_the_ways_that_are_open(browser: Browser, variables: SetVariables, provider: CodeProvider) -> None:
    off = browser.get("/ui/sign-in/")
    assert "Authentication is off" in off.text
    assert "<form" not in off.text
    variables(**provider.settings)
    page = browser.get("/ui/sign-in/?next=/ui/catalog/")
    assert "Authentication is off" not in page.text
    assert 'href="/ui/sign-in/with/oidc/?next=%2Fui%2Fcatalog%2F"' in page.text
    assert page.field("next") == "/ui/catalog/"
    assert TOKEN_FORM in page.text
    assert PASSWORD_FORM not in page.text
    assert "60 minutes" in page.text
    assert "8 hours" in page.text
    assert "no-store" in page.header("Cache-Control")
    variables(**provider.settings, ICEKEEPER__ACCESS_TOKENS="false", ICEKEEPER__CONSOLE__LOCAL_ACCOUNTS="true")
    page = browser.get("/ui/sign-in/")
    assert TOKEN_FORM not in page.text
    assert PASSWORD_FORM in page.text


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example.com", "/\\evil.example.com", "https://evil.example.com/ui/", "/ui//evil.example.com",
        "/ui/../evil", "/ui/%2e%2e/evil", "/ui/%5cevil", "/ui/\tevil", "javascript:alert(1)", "/uix", "/health",
        "/ui/\r\nSet-Cookie: a=b", "//ui/", "ui/", "\\ui/", "/ui/" + "x" * 5000, "/ui/%0d%0aa", "/ui/%2f%2fevil",
        "http:/ui/", "\x00/ui/", " //evil.example.com", "/ui/./x", "%2Fui%2F",
    ],
)  # fmt: skip
def test_no_destination_outside_of_the_console(browser: Browser, target: str) -> None:
    assert browser.get(f"/ui/sign-in/?next={quote(target, safe='')}").status in {200, 400}
    code = new_code()
    page = browser.post(ONCE, {"code": code, "next": target})
    assert page.location == "/ui/"
    signed_in = browser.get(f"/ui/sign-in/?next={quote(target, safe='')}")
    assert signed_in.location in {"/ui/", ""}, "empty for a query with NUL, which is rejected"


@pytest.mark.usefixtures("access_tokens")
def test_tokens_that_do_not_sign_in(browser: Browser) -> None:
    short = f"ika_{new_token()}"
    for text in ("", "x", "é" * 50, short, new_token()[:-1], "a" * 60_000, "\ud800\x00"):
        page = browser.post(TOKEN_FORM, {"token": text})
        assert page.status == 403, text[:20]
        assert "The sign-in was not accepted" in page.text
        assert 'value=""' not in page.text or text not in page.text[page.text.index("<form") :] or not text
    assert not is_signed_in(browser)
    assert {row.reason for row in rows(event="sign-in.refused")} == {"AuthenticationFailed"}


@pytest.mark.usefixtures("access_tokens")
@pytest.mark.parametrize(
    ("scopes", "missing"),
    [
        (["catalog"], "management:read"),
        (["catalog:read"], "management:read"),
        (["management"], "catalog:read"),
        (["management:read"], "catalog:read"),
    ],
)
def test_a_token_needs_both_scopes_to_read(browser: Browser, scopes: list[str], missing: str) -> None:
    page = browser.post(TOKEN_FORM, {"token": new_token(scopes=scopes)})
    assert page.status == 403
    assert f"lacks a scope that the console needs: {missing}." in page.text
    assert not is_signed_in(browser)
    assert [row.reason for row in rows(event="sign-in.refused")] == ["InsufficientScope"]


@pytest.mark.usefixtures("access_tokens")
def test_a_session_without_both_scopes_is_not_accepted(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier_version:
        earlier_version.setattr("management.sign_in.views.require_console_scopes", lambda *_, **__: None)
        assert browser.post(TOKEN_FORM, {"token": new_token(scopes=["management"])}).status == 302
    assert not is_signed_in(browser)


@pytest.mark.usefixtures("access_tokens")
def test_a_token_of_a_blocked_user(browser: Browser) -> None:
    token = new_token()
    User.objects.update(is_active=False)
    verified_tokens.clear()
    assert browser.post(TOKEN_FORM, {"token": token}).status == 403
    (refused,) = rows(event="sign-in.refused")
    assert (refused.actor, refused.reason) == ("local~alice", "UserBlocked")


@pytest.mark.usefixtures("access_tokens")
@pytest.mark.parametrize(
    ("scopes", "missing"),
    [
        (["catalog:read", "management:read"], "catalog, management"),
        (["catalog", "management:read"], "management"),
        (["catalog:read", "management"], "catalog"),
    ],
)
def test_a_token_without_both_scopes_changes_nothing(browser: Browser, scopes: list[str], missing: str) -> None:
    assert browser.post(TOKEN_FORM, {"token": new_token(scopes=scopes)}).status == 302
    assert is_signed_in(browser)
    denied = browser.post("/ui/anything/")
    assert denied.status == 403
    assert "read-only" in denied.text
    assert f"without the scope {missing}." in denied.text
    assert [row.reason for row in rows(event="access.denied")] == ["InsufficientScope"]
    assert browser.post("/ui/sign-out/").status == 302
    assert not is_signed_in(browser)


def test_tokens_are_not_accepted_without_authentication(browser: Browser) -> None:
    assert browser.post(TOKEN_FORM, {"token": new_token()}).status == 403


@pytest.mark.usefixtures("local_account")
def test_a_local_account(browser: Browser) -> None:
    assert sign_in(browser, "admin", PASSWORD) == 302
    row = ConsoleSession.objects.get()
    assert (row.user_id, row.method) == ("local~admin", "password")
    assert is_signed_in(browser)
    assert PasswordAttempt.objects.get().attempts == 1, "that of the address is not reset"
    code = new_code("local~admin")
    call("set_password", "local~admin", password="another horse battery")
    assert not is_signed_in(browser)
    assert browser.post(ONCE, {"code": code}).status == 403
    assert sign_in(browser, "local~admin", PASSWORD) == 403
    assert sign_in(browser, "local~admin", "another horse battery") == 302
    assert [row.object_id for row in rows(event="user.password-set")] == ["local~admin"] * 2


@pytest.mark.usefixtures("local_account")
def test_failures_do_not_differ(browser: Browser) -> None:
    new_token("local~alice")  # a user without a password
    User.objects.create(pk="oidc~eve", name="Eve", password=hashers.make_password(PASSWORD))
    pages = {
        browser.post(PASSWORD_FORM, {"name": name, "password": word}).text.replace(" open", "")
        for name, word in (
            ("admin", "wrong"), ("unknown", PASSWORD), ("alice", ""), ("alice", "!"), ("oidc~eve", PASSWORD),
            ("ADMIN", PASSWORD), ("admin\x00", PASSWORD), ("", ""), ("é" * 200, PASSWORD), ("admin", "x" * 60_000),
        )
    }  # fmt: skip
    without_tokens = {page.split("csrfmiddlewaretoken")[0] for page in pages}
    assert len(without_tokens) == 1
    assert not is_signed_in(browser)
    assert all(row.privilege_source == "" for row in rows(event="sign-in.refused"))


@pytest.mark.usefixtures("local_account")
def test_unknown_names_take_the_same_work(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    computed = []
    encode = hashers.MD5PasswordHasher.encode

    def counted(*arguments: Any) -> str:
        computed.append(1)
        return encode(*arguments)

    monkeypatch.setattr(hashers.MD5PasswordHasher, "encode", counted)
    new_token("local~alice")
    work = []
    for name in ("admin", "unknown", "alice"):
        computed.clear()
        assert sign_in(browser, name, "wrong") == 403
        work.append(len(computed))
    assert len(set(work)) == 1, work


@pytest.mark.usefixtures("local_account")
def test_attempts_are_limited(browser: Browser) -> None:
    for _ in range(5):
        assert sign_in(browser, "admin", "wrong") == 403
    assert sign_in(browser, "admin", PASSWORD) == 403
    assert rows(event="sign-in.refused")[-1].reason == "TooManyAttempts"
    assert sign_in(Browser(x_forwarded_for="203.0.113.1"), "admin", PASSWORD) == 403, "a client can send this header"
    for _ in range(6):
        assert sign_in(browser, "unknown", "wrong") == 403
    assert {row.attempts for row in PasswordAttempt.objects.all()} == {6, 7, 13}
    PasswordAttempt.objects.update(started_at=F("started_at") - timedelta(minutes=16))
    assert sign_in(browser, "admin", PASSWORD) == 302


@pytest.mark.usefixtures("local_account")
def test_attempts_of_an_address_are_limited(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sign_in(browser, "admin", PASSWORD) == 302
    for number in range(49):
        assert sign_in(browser, f"name{number}", "wrong") == 403
    stored = PasswordAttempt.objects.count()
    with monkeypatch.context() as patch:
        patch.setattr("management.sign_in.local_accounts.ModelBackend", None)
        for number in range(3):
            assert sign_in(browser, f"other{number}", "wrong") == 403
        assert sign_in(browser, "admin", PASSWORD) == 403
    assert PasswordAttempt.objects.count() == stored
    reasons = [row.reason for row in rows(event="sign-in.refused")]
    assert reasons == ["PasswordRejected"] * 49 + ["TooManyAttempts"]
    assert sign_in(Browser(address="192.0.2.8"), "admin", PASSWORD) == 302
    PasswordAttempt.objects.update(started_at=F("started_at") - timedelta(minutes=16))
    assert sign_in(browser, "admin", PASSWORD) == 302


def test_passwords_are_rejected_when_local_accounts_are_off(browser: Browser) -> None:
    assert sign_in(browser, "admin", PASSWORD) == 403
    assert PasswordAttempt.objects.count() == 0


def test_weak_and_foreign_passwords() -> None:
    for user_id, password in (
        ("local~admin", "short"), ("local~admin", "password1234"), ("local~admin", "123456789012345"),
        ("local~administrator", "administrator"), ("oidc~anna", PASSWORD), ("local~ADMIN", PASSWORD),
    ):  # fmt: skip
        with pytest.raises(CommandError):
            call("set_password", user_id, create_user=True, password=password)
    assert not User.objects.filter(pk="local~admin").exists()
    with pytest.raises(CommandError, match="does not exist"):
        call("set_password", "local~absent", password=PASSWORD)
    with pytest.raises(Exception, match="set_password alone"):
        set_password(actor=INTERNAL.__class__(user_id="local~admin"), user_id="local~admin", password=PASSWORD)


def test_an_address_signs_in_once(browser: Browser) -> None:
    address = call("sign_in_address", user="local~admin", create_user=True, base_url="http://testserver").strip()
    assert address.startswith("http://testserver/ui/sign-in/once/?code=")
    code = code_of(address)
    for _ in range(2):  # a link scanner
        shown = Browser().get(f"{ONCE}?code={code}")
        assert shown.status == 200
        assert "local~admin" in shown.text
    assert browser.post(ONCE, {"code": code}).location == "/ui/"
    assert ConsoleSession.objects.get().user_id == "local~admin"
    other = Browser()
    assert other.post(ONCE, {"code": code}).status == 403
    assert other.get(f"{ONCE}?code={code}").status == 403
    assert not is_signed_in(other)
    assert other.post(ONCE, {"code": code[:-1]}).status == 403
    refused = [(row.reason, row.actor) for row in rows(event="sign-in.refused")]
    assert refused == [("AddressRejected", "local~admin"), ("AddressRejected", "anonymous")]


def test_expired_and_unknown_addresses(browser: Browser) -> None:
    code = new_code()
    SignInAddress.objects.update(expires_at=F("expires_at") - timedelta(minutes=15))
    for each in (code, "", "x", "\ud800", "<script>", "a" * 5000, "%00"):
        page = browser.post(ONCE, {"code": each})
        assert page.status == 403, each[:20]
        assert "<script>" not in page.text
    assert {row.actor for row in rows(event="sign-in.refused")} == {"local~alice", "anonymous"}
    blocked = new_code("local~bob")
    User.objects.filter(pk="local~bob").update(is_active=False)
    assert browser.post(ONCE, {"code": blocked}).status == 403
    assert rows(event="sign-in.refused")[-1].actor == "local~bob"
    assert not is_signed_in(browser)


def test_addresses_of_unknown_users() -> None:
    for user_id in ("local~absent", "x", "oidc~absent"):
        with pytest.raises(CommandError):
            call("sign_in_address", user=user_id)
    assert SignInAddress.objects.count() == 0


def test_sign_in_ends_the_session_before(browser: Browser) -> None:
    sign_in_once(browser)
    key = browser.cookies["icekeeper_session"]
    sign_in_once(browser, "local~bob")
    assert browser.cookies["icekeeper_session"] != key
    assert [row.user_id for row in ConsoleSession.objects.all()] == ["local~bob"]


def test_maintenance_mode_allows_sign_in_and_sign_out_alone(
    browser: Browser, guarded: CodeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = new_code()
    monkeypatch.setattr(maintenance.switch, "is_on", True)
    assert browser.post(ONCE, {"code": code}).status == 302
    seen = ConsoleSession.objects.get().last_seen_at - timedelta(minutes=5)
    ConsoleSession.objects.update(last_seen_at=seen)
    assert is_signed_in(browser)
    assert ConsoleSession.objects.get().last_seen_at == seen
    page = browser.post("/ui/anything/")
    assert page.status == 503
    assert "maintenance" in page.text
    assert browser.post("/ui/sign-out/").status == 302
    began = browser.get("/ui/sign-in/with/oidc/")
    ended = browser.get(f"/ui/callback?{guarded.authorize(began.location)}")
    assert ended.status == 503, "an unknown user is not registered"
    assert not User.objects.filter(pk="oidc~anna").exists()
