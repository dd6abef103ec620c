"""Cookies of signed-in browsers, for tests whose subject is not the sign-in: without requests for it."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest

from management.models import ConsoleSession
from management.sign_in.local_accounts import identity_of_user
from management.sign_in.session_store import SessionStore
from management.sign_in.sessions import begin_session
from tenancy.models import User


def session_cookies(user_id: str) -> dict[str, str]:
    """Return the cookies of a new session of a known user, as a one-time sign-in address begins it."""
    request = HttpRequest()
    request.session = store = SessionStore()
    begin_session(request, identity_of_user(User.objects.get(pk=user_id)), ConsoleSession.Method.ADDRESS)
    assert store.session_key is not None
    return {settings.SESSION_COOKIE_NAME: store.session_key}
