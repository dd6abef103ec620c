"""Fixtures: authentication enabled in the test process, with fake identity providers on the loopback interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from joserfc.jwk import ECKey, OKPKey, RSAKey

from icekeeper.conf.environment import read_settings
from tenancy.authn.authenticator import Authenticator
from tenancy.authn.oidc import authenticators as jwks
from tenancy.authn.providers import authenticators
from tenancy.authn.requests import known_roles, verified_tokens
from tests.harness.identity_provider import IdentityProvider, running
from tests.harness.wsgi_client import Response, call

KINDS = ("openid_", "kubernetes", "enable_kubernetes", "authentication")
"""Settings of authentication begin so; those that a test does not name have their defaults."""
INFO = "/management/v1/info"

On = tuple[Authenticator, ...]
SwitchOn = Callable[..., On]
Ask = Callable[..., Response]


@pytest.fixture(scope="session")
def rsa_key() -> RSAKey:
    return RSAKey.generate_key(2048)


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    yield from running()


@pytest.fixture
def other_provider() -> Iterator[IdentityProvider]:
    yield from running()


@pytest.fixture
def key_of_every_kind(rsa_key: RSAKey) -> list[RSAKey | ECKey | OKPKey]:
    curves = [ECKey.generate_key(curve) for curve in ("P-256", "P-384", "P-521")]
    return [rsa_key, *curves, OKPKey.generate_key("Ed25519"), OKPKey.generate_key("Ed448")]


@pytest.fixture
def switch_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[SwitchOn]:
    """Apply environment variables of the product for one test and return the new authenticators."""

    def switch(**variables: str) -> On:
        wanted, unread = read_settings(variables)
        assert unread == []
        names = wanted.model_fields_set | {name for name in type(wanted).model_fields if name.startswith(KINDS)}
        changed = {name: getattr(wanted, name) for name in names}
        monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update=changed))
        drop()
        return authenticators()

    yield switch
    monkeypatch.undo()
    drop()


def drop() -> None:
    authenticators.cache_clear()
    verified_tokens.clear()
    known_roles.clear()


@pytest.fixture
def on(switch_on: SwitchOn, provider: IdentityProvider) -> On:
    """Enable authentication by `provider` with the audience `icekeeper`."""
    return switch_on(
        LAKEKEEPER__OPENID_PROVIDER_URI=provider.address,
        LAKEKEEPER__OPENID_AUDIENCE="icekeeper",
        ICEKEEPER__AUTHENTICATION__TIMEOUT="2s",
    )


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the pause between two key refreshes. Request it before `on`."""
    monkeypatch.setattr(jwks, "REFRESH_PAUSE_SECONDS", 0.0)


@pytest.fixture
def ages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let keys expire as soon as they are fetched."""
    monkeypatch.setattr(jwks, "KEYS_LIFETIME_SECONDS", 0.0)


def again(provider: IdentityProvider, **claims: Any) -> str:
    """Return a token, after the cache of verified tokens is cleared."""
    verified_tokens.clear()
    return provider.token(**claims)


@pytest.fixture
def ask(bootstrapped: None) -> Ask:
    """Send GET /info, which every known user may read, with a token."""

    def send(token: str | None = None, **headers: str) -> Response:
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return call("GET", INFO, headers=headers)

    return send


def refused(response: Response) -> bool:
    """Check the error response to a rejected token, which does not give the reason."""
    assert response.refused(401, "AuthenticationFailed")
    assert response.error["message"] == "The token was not accepted"
    assert response.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'
    return True
