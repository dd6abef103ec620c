"""Users who are blocked, or get a password, while they sign in: no session of before outlives the change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.hashers import MD5PasswordHasher, make_password
from django.db import connections
from django.test import override_settings

from management.models import ConsoleSession, SignInAddress
from management.sign_in import sessions
from management.sign_in.local_accounts import set_password
from management.sign_in.session_store import SessionStore
from tenancy.actor import INTERNAL
from tenancy.models import User
from tenancy.services.registration import register_caller
from tenancy.services.users import block_user, create_local_user, unblock_user
from tests.console.sign_in.browser import Browser
from tests.console.sign_in.conftest import SetVariables
from tests.console.sign_in.session_fixtures import is_signed_in, new_code
from tests.harness.audit_rows import the_row

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.both_databases]

ALICE, OLD, NEW = "local~alice", "correct horse battery", "another horse battery"
MD5, SHA1 = "django.contrib.auth.hashers.MD5PasswordHasher", "django.contrib.auth.hashers.PBKDF2SHA1PasswordHasher"

WAIT_SECONDS = 0.5
"""So long a change waits for the lock of a sign-in before the test continues."""


@pytest.fixture
def local_account(variables: SetVariables) -> Iterator[None]:
    with override_settings(PASSWORD_HASHERS=[MD5]):
        variables(ICEKEEPER__CONSOLE__LOCAL_ACCOUNTS="true")
        create_local_user(actor=INTERNAL, user_id=ALICE)
        set_password(actor=INTERNAL, user_id=ALICE, password=OLD)
        yield


def by_password(browser: Browser) -> int:
    return browser.post("/ui/sign-in/password/", {"name": ALICE, "password": OLD}).status


def by_address(browser: Browser) -> int:
    return browser.post("/ui/sign-in/once/", {"code": new_code(ALICE)}).status


def block() -> None:
    block_user(actor=INTERNAL, user_id=ALICE)


def replace_password() -> None:
    set_password(actor=INTERNAL, user_id=ALICE, password=NEW)


CASES = pytest.mark.parametrize("change", [block, replace_password])
WAYS = pytest.mark.parametrize("way", [by_password, by_address])


@CASES
@WAYS
@pytest.mark.usefixtures("local_account")
def test_a_change_before_the_session(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, way: Callable[[Browser], int], change: Callable[[], None]
) -> None:
    """The password or address is verified, then the change happens, then the session would begin."""

    def register_after_change(**arguments: object) -> None:
        change()
        register_caller(**arguments)

    monkeypatch.setattr(sessions, "register_caller", register_after_change)
    assert way(browser) == 403
    assert not is_signed_in(browser)
    assert ConsoleSession.objects.count() == 0
    assert SignInAddress.objects.count() == 0
    refused = the_row(event="sign-in.refused")
    if (way, change) == (by_address, replace_password):
        assert (refused.actor, refused.reason) == ("anonymous", "AddressRejected"), "its row is deleted"
    else:
        assert (refused.actor, refused.reason) == (ALICE, "AuthenticationFailed")
    unblock_user(actor=INTERNAL, user_id=ALICE)
    assert not is_signed_in(browser)


@CASES
@WAYS
@pytest.mark.usefixtures("local_account")
def test_a_change_after_the_session(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, way: Callable[[Browser], int], change: Callable[[], None]
) -> None:
    """The change waits for the transaction of the sign-in, and then deletes its session."""
    has_changed, start = threading.Event(), SessionStore.start

    def change_concurrently() -> None:
        try:
            change()
            has_changed.set()
        finally:
            connections.close_all()

    other = threading.Thread(target=change_concurrently)

    def start_and_wait(store: SessionStore, *arguments: object, **columns: object) -> None:
        start(store, *arguments, **columns)
        other.start()
        assert not has_changed.wait(WAIT_SECONDS), "the change did not wait for the lock"

    monkeypatch.setattr(SessionStore, "start", start_and_wait)
    assert way(browser) == 302
    other.join(30)
    assert has_changed.is_set()
    assert ConsoleSession.objects.count() == 0
    unblock_user(actor=INTERNAL, user_id=ALICE)
    assert not is_signed_in(browser)


@pytest.mark.usefixtures("local_account")
def test_a_stronger_hash_of_an_old_password_replaces_no_new_one(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verification computes a stronger hash; meanwhile the user gets another password."""
    verify = MD5PasswordHasher.verify

    def verify_and_replace(hasher: MD5PasswordHasher, password: str, encoded: str) -> bool:
        is_correct = verify(hasher, password, encoded)
        monkeypatch.setattr(MD5PasswordHasher, "verify", verify)
        replace_password()
        return is_correct

    with override_settings(PASSWORD_HASHERS=[SHA1, MD5]):
        monkeypatch.setattr(MD5PasswordHasher, "verify", verify_and_replace)
        assert by_password(browser) == 403
        assert ConsoleSession.objects.count() == 0
        assert User.objects.get(pk=ALICE).check_password(NEW)


@pytest.mark.usefixtures("local_account")
def test_a_stronger_hash_is_stored(browser: Browser) -> None:
    with override_settings(PASSWORD_HASHERS=[SHA1, MD5]):
        assert User.objects.get(pk=ALICE).password.startswith("md5$")
        assert by_password(browser) == 302
        assert User.objects.get(pk=ALICE).password.startswith("pbkdf2_sha1$")
        assert by_password(browser) == 302
    User.objects.filter(pk=ALICE).update(password=make_password(None))
    assert by_password(browser) == 403
