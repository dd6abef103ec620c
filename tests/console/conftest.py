"""Fixtures of the console's pages: the catalog of the authorization tests, and browsers of its users."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.core import signals
from django.db import close_old_connections

from tenancy.models import User
from tests.authz.conftest import builtin, client, lake, root  # noqa: F401 - fixtures
from tests.console.session_cookies import session_cookies
from tests.console.sign_in.browser import Browser

Open = Callable[[str], Browser]


@pytest.fixture(autouse=True)
def connections_outlive_requests() -> Iterator[None]:
    """Undo what Django's test client connects: `icekeeper.http.application` releases connections itself."""
    yield
    for signal in (signals.request_started, signals.request_finished):
        signal.disconnect(close_old_connections)


@pytest.fixture
def open_as() -> Open:
    """Return a function that opens the console as the user `oidc~<name>`, who needs not exist."""

    def sign_in(name: str) -> Browser:
        user_id = f"oidc~{name}"
        if not User.objects.filter(pk=user_id).exists():
            User.objects.create_user(id=user_id, name=name.title())
        browser = Browser()
        browser.cookies |= session_cookies(user_id)
        return browser

    return sign_in
