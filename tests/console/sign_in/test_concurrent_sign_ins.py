"""Sign-ins at the same time: a one-time address counts once, and attempts with a password are all counted."""

from __future__ import annotations

import pytest

from management.models import ConsoleSession, PasswordAttempt
from management.sign_in.local_accounts import MAX_ATTEMPTS, _attempt_key, _count_attempt
from tests.console.sign_in.browser import Browser
from tests.console.sign_in.session_fixtures import new_code
from tests.harness.threads import at_once

pytestmark = [pytest.mark.django_db(transaction=True, serialized_rollback=True), pytest.mark.both_databases]


def test_one_of_many_gets_the_session() -> None:
    code = new_code()
    statuses = at_once(*[lambda: Browser().post("/ui/sign-in/once/", {"code": code}).status] * 6)
    assert sorted(statuses) == [302, *[403] * 5]
    assert ConsoleSession.objects.count() == 1


def test_every_attempt_is_counted() -> None:
    key = _attempt_key("local~admin")
    counts = at_once(*[lambda: _count_attempt(key)] * 8)
    assert sorted(counts) == list(range(1, 9))
    assert PasswordAttempt.objects.get().attempts > MAX_ATTEMPTS
