"""Fixtures: a browser, settings of one test, and an identity provider with the authorization code flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from management.sign_in.providers import console_providers
from tenancy.services.registration import registered_users
from tests.console.sign_in.browser import Browser
from tests.console.sign_in.code_provider import CodeProvider
from tests.identity_fixtures import believing

SetVariables = Callable[..., None]


@pytest.fixture
def browser() -> Browser:
    return Browser()


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[SetVariables]:
    """Apply environment variables of the product for the rest of the test."""
    with ExitStack() as stack:

        def apply(**values: str) -> None:
            stack.enter_context(believing(values))
            monkeypatch.setattr("management.sign_in.providers.REFRESH_PAUSE_SECONDS", 0.0)
            console_providers.cache_clear()
            registered_users.clear()

        yield apply
    console_providers.cache_clear()
    registered_users.clear()


@pytest.fixture
def provider() -> Iterator[CodeProvider]:
    server = CodeProvider().start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def guarded(variables: SetVariables, provider: CodeProvider) -> CodeProvider:
    """Authentication by this provider, with roles of its tokens, and by access tokens."""
    variables(**provider.settings, LAKEKEEPER__OPENID_ROLES_CLAIM="roles")
    return provider


def sign_in_at(browser: Browser, provider: CodeProvider, *, target: str = "") -> str:
    """Sign in with the provider in `browser` and return the location after it."""
    began = browser.get(f"/ui/sign-in/with/oidc/{target}")
    assert began.status == 302, began.text
    ended = browser.get(f"/ui/callback?{provider.authorize(began.location)}")
    assert ended.status == 302, ended.text
    return ended.location
