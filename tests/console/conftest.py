"""Fixtures of the console's pages: the catalog of the authorization tests, and browsers of its users."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.core import signals
from django.db import close_old_connections

from management.sign_in.addresses import create_sign_in_address
from tenancy.actor import INTERNAL
from tenancy.models import User
from tests.authz.conftest import builtin, client, lake, root  # noqa: F401 - fixtures
from tests.console.sign_in.browser import Browser
from tests.console.sign_in.session_fixtures import PUBLIC, code_of

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
        code = code_of(create_sign_in_address(actor=INTERNAL, user_id=user_id, base_url=PUBLIC))
        assert browser.post("/ui/sign-in/once/", {"code": code}).status == 302
        return browser

    return sign_in
