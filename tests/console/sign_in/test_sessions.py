"""Sessions of the console: how they end, what is stored of them, and who lists and ends them."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from uuid import uuid4

import pytest
from django.conf import settings
from django.contrib.sessions.backends.base import UpdateError

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import Forbidden
from management.models import ConsoleSession, PasswordAttempt, SignInAddress
from management.sign_in.session_store import SessionStore
from management.sign_in.sessions import (
    SessionNotFound,
    delete_ended_sessions,
    end_all_sessions,
    end_session,
    list_sessions_for,
)
from tenancy.actor import INTERNAL, Actor
from tenancy.authz import port
from tenancy.models import AccessToken, User
from tenancy.services.users import block_user, delete_user, unblock_user
from tests.console.sign_in.browser import Browser
from tests.console.sign_in.code_provider import CodeProvider
from tests.console.sign_in.conftest import SetVariables, sign_in_at
from tests.console.sign_in.session_fixtures import is_signed_in, move, new_code, sign_in_once
from tests.harness.audit_rows import rows
from tests.management.warehouse_request_fixtures import use_settings
from tests.token_fixtures import new_token

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

ALICE, BOB = Actor(user_id="local~alice"), Actor(user_id="local~bob")


def sign_in_with_token(browser: Browser, token: str) -> int:
    return browser.post("/ui/sign-in/token/", {"token": token}).status


def test_a_session_expires_without_requests(browser: Browser) -> None:
    sign_in_once(browser)
    move("last_seen_at", 3590)
    assert is_signed_in(browser)
    move("last_seen_at", 3590)
    assert is_signed_in(browser), "the request before was recorded"
    move("last_seen_at", 3601)
    assert not is_signed_in(browser)
    assert "icekeeper_session" not in browser.cookies


def test_a_session_expires_after_its_lifetime(browser: Browser) -> None:
    sign_in_once(browser)
    move("expire_date", 8 * 3600 - 60)
    assert is_signed_in(browser)
    move("expire_date", 61)
    assert not is_signed_in(browser)


def test_a_request_is_one_statement_and_writes_once_a_minute(browser: Browser) -> None:
    sign_in_once(browser)
    assert browser.get("/ui/sign-in/").statements == 1
    move("last_seen_at", 61)
    assert [browser.get("/ui/sign-in/").statements for _ in range(3)] == [2, 1, 1]


def test_other_pages_run_no_statement_for_a_session(browser: Browser) -> None:
    sign_in_once(browser)
    assert browser.get("/swagger-ui").statements == 0
    assert browser.get("/api-docs/management/v1/openapi.json").statements == 0
    assert browser.get("/health/live").statements == 0
    assert Browser().get("/ui/sign-in/").statements == 0


def test_a_blocked_user_is_signed_out(browser: Browser) -> None:
    sign_in_once(browser)
    assert is_signed_in(browser)
    User.objects.filter(pk="local~alice").update(is_active=False)
    assert not is_signed_in(browser)
    User.objects.filter(pk="local~alice").update(is_active=True)


def test_block_and_delete_end_sessions_for_good(browser: Browser) -> None:
    sign_in_once(browser)
    code = new_code()
    block_user(actor=INTERNAL, user_id="local~alice")
    unblock_user(actor=INTERNAL, user_id="local~alice")
    assert not is_signed_in(browser)
    assert browser.get(f"/ui/sign-in/once/?code={code}").status == 403
    sign_in_once(browser)
    delete_user(actor=INTERNAL, user_id="local~alice")
    assert not is_signed_in(browser)
    assert ConsoleSession.objects.count() == 0


@pytest.mark.usefixtures("access_tokens")
def test_the_session_of_a_token_ends_with_the_token(browser: Browser) -> None:
    assert sign_in_with_token(browser, new_token()) == 302
    row = ConsoleSession.objects.get()
    assert (row.user_id, row.method) == ("local~alice", "token")
    assert browser.get("/ui/sign-in/").statements == 1
    AccessToken.objects.filter(pk=row.access_token_id).update(expires_at=now())
    assert not is_signed_in(browser)
    assert sign_in_with_token(browser, new_token()) == 302
    AccessToken.objects.update(revoked_at=now())
    assert not is_signed_in(browser)


def test_sessions_end_when_their_way_in_is_closed(
    browser: Browser, variables: SetVariables, provider: CodeProvider
) -> None:
    variables(**provider.settings)
    sign_in_at(browser, provider)
    by_token = Browser()
    assert sign_in_with_token(by_token, new_token()) == 302
    variables(ICEKEEPER__ACCESS_TOKENS="true")
    assert not is_signed_in(browser)
    assert is_signed_in(by_token)
    variables(ICEKEEPER__ACCESS_TOKENS="false")
    assert not is_signed_in(by_token)


def test_a_foreign_key_or_changed_data_is_no_session(browser: Browser) -> None:
    sign_in_once(browser)
    key = browser.cookies["icekeeper_session"]
    row = ConsoleSession.objects.get()
    for forged in (row.session_key, key[:-1], key.upper(), "x" * 5000, "é", "", str(row.pk)):
        other = Browser()
        other.cookies["icekeeper_session"] = forged
        assert not is_signed_in(other)
    ConsoleSession.objects.update(session_data=json.dumps({"identity": {"user_id": "local~root"}}))
    assert not is_signed_in(browser), "the data are signed"


def test_data_of_another_session_is_no_session(browser: Browser) -> None:
    sign_in_once(browser)
    other = Browser()
    sign_in_once(other, "local~bob")
    alice, bob = (ConsoleSession.objects.get(user_id=f"local~{name}") for name in ("alice", "bob"))
    ConsoleSession.objects.filter(pk=bob.pk).update(session_data=alice.session_data)
    assert not is_signed_in(other), "the identity is that of the row's user"


def test_neither_rows_nor_logs_have_a_secret(
    browser: Browser, guarded: CodeProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    sign_in_at(browser, guarded)
    by_token, by_code = Browser(), Browser()
    token, code = new_token(), new_code()
    assert sign_in_with_token(by_token, token) == 302
    assert by_code.get(f"/ui/sign-in/once/?code={code}").status == 200
    assert by_code.post("/ui/sign-in/once/", {"code": code}).status == 302
    bad_token = token[:-3] + "xyz"
    assert sign_in_with_token(Browser(), bad_token) == 403
    secrets = [token, bad_token, code, *(each.cookies["icekeeper_session"] for each in (browser, by_token, by_code))]
    secrets += [form[name] for form in guarded.received for name in ("code", "code_verifier")]
    stored = [repr(row) for model in (ConsoleSession, SignInAddress) for row in model.objects.values_list()]
    stored += [repr(SessionStore().decode(row.session_data)) for row in ConsoleSession.objects.all()]
    stored += [repr(row) for row in rows()]
    logged = [json.dumps(record.__dict__, default=str) for record in caplog.records if "django.db" not in record.name]
    found = [(secret, text[:300]) for secret in secrets for text in stored + logged if secret in text]
    assert found == []


def test_a_session_that_is_deleted_during_a_request(
    browser: Browser, guarded: CodeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in_at(browser, guarded)

    def ended(_store: SessionStore, **_: object) -> None:
        raise UpdateError

    with monkeypatch.context() as patch:
        patch.setattr(SessionStore, "save", ended)
        assert browser.get("/ui/sign-in/with/oidc/").location == "/ui/sign-in/"
    assert "icekeeper_session" not in browser.cookies


def test_a_deleted_session_is_not_saved_again(browser: Browser) -> None:
    sign_in_once(browser)
    store = SessionStore(browser.cookies["icekeeper_session"])
    store["more"] = 1
    ConsoleSession.objects.all().delete()
    with pytest.raises(UpdateError):
        store.save()
    assert ConsoleSession.objects.count() == 0


def test_list_and_end_own_sessions(browser: Browser) -> None:
    sign_in_once(browser)
    other = Browser(user_agent="é\x00 <script>" + "x" * 500, x_forwarded_for="198.51.100.1, 203.0.113.9")
    sign_in_once(other)
    sign_in_once(Browser(), "local~bob")
    current = ConsoleSession.objects.get(user_agent="Test Browser", user_id="local~alice")
    newest, oldest = list_sessions_for(actor=ALICE, current=current)
    assert (oldest.id, oldest.is_current, oldest.user_agent, oldest.method) == (
        current.pk, True, "Test Browser", "address",
    )  # fmt: skip
    assert (newest.is_current, newest.address, len(newest.user_agent)) == (False, "203.0.113.9", 256)
    end_session(actor=ALICE, session_id=newest.id)
    assert not is_signed_in(other)
    assert is_signed_in(browser)
    assert [row.object_id for row in rows(event="session.revoked")] == [str(newest.id)]
    sign_in_once(other)
    unused, of_bob = new_code(), new_code("local~bob")
    assert end_all_sessions(actor=ALICE, keep=current) == 1
    assert is_signed_in(browser)
    assert other.post("/ui/sign-in/once/", {"code": unused}).status == 403
    assert other.get(f"/ui/sign-in/once/?code={of_bob}").status == 200
    assert end_all_sessions(actor=ALICE) == 1
    assert [each.user_id for each in ConsoleSession.objects.all()] == ["local~bob"]


def test_a_user_has_a_limited_number_of_sessions(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("management.sign_in.sessions.MAX_SESSIONS", 3)
    sign_in_once(browser, "local~bob")
    browsers = [Browser() for _ in range(5)]
    for each in browsers:
        sign_in_once(each)
    assert [is_signed_in(each) for each in browsers] == [False, False, True, True, True]
    assert len(list_sessions_for(actor=ALICE)) == 3
    assert is_signed_in(browser), "sessions of others stay"


def test_sessions_of_others_need_the_permission_to_block(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    use_settings(monkeypatch, authz_backend="builtin")
    port.authorizer.cache_clear()
    sign_in_once(browser)
    sign_in_once(Browser(), "local~bob")
    (own,) = list_sessions_for(actor=ALICE)
    for call in (
        lambda: list_sessions_for(actor=BOB, user_id="local~alice"),
        lambda: end_all_sessions(actor=BOB, user_id="local~alice"),
    ):
        with pytest.raises(Forbidden):
            call()
    for session_id in (own.id, uuid4()):
        with pytest.raises(SessionNotFound, match="Session does not exist"):
            end_session(actor=BOB, session_id=session_id)
    assert is_signed_in(browser)
    assert end_all_sessions(actor=INTERNAL, user_id="local~alice") == 1
    port.authorizer.cache_clear()


def test_ended_rows_are_deleted(browser: Browser) -> None:
    sign_in_once(browser)
    sign_in_once(Browser(), "local~bob")
    expired, code = new_code("local~old"), new_code("local~new")
    at = now()
    SignInAddress.objects.filter(user_id__in=["local~old", "local~bob"]).update(expires_at=at - timedelta(seconds=1))
    PasswordAttempt.objects.create(key="old", attempts=9, started_at=at - timedelta(days=2))
    ConsoleSession.objects.filter(user_id="local~bob").update(last_seen_at=at - timedelta(hours=2))
    assert delete_ended_sessions(actor=INTERNAL) == 1
    assert is_signed_in(browser)
    assert [row.user_id for row in ConsoleSession.objects.all()] == ["local~alice"]
    assert [row.user_id for row in SignInAddress.objects.unused()] == ["local~new"]
    assert [row.user_id for row in SignInAddress.objects.exclude(used_at=None)] == ["local~alice"], "until it expires"
    assert PasswordAttempt.objects.count() == 0
    assert expired != code


def test_settings_of_sessions() -> None:
    job = next(job for job in settings.PERIODIC_JOBS if job.name == "ended-sessions")
    assert job.resolve() is delete_ended_sessions
