"""Callers by name: the token `alice` belongs to `oidc~alice`. All code behind the verification of tokens is real."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tenancy.actor import AuthenticationFailed, Identity
from tenancy.authn import providers, requests
from tenancy.authn.authenticator import Authenticator, VerifiedToken
from tests.harness.wsgi_client import ApiClient, Response, call


class NamedCallers(Authenticator):
    """Accepts the tokens that were added, and no others."""

    def __init__(self) -> None:
        self.identities: dict[str, Identity] = {}

    def add(self, token: str, identity: Identity) -> None:
        """Accept `token` for `identity`."""
        self.identities[token] = identity
        requests.verified_tokens.clear()

    def user(self, name: str, *, roles: tuple[str, ...] = ()) -> str:
        """Return the id of the user whose token is this name."""
        identity = Identity(f"oidc~{name}", "oidc", "human", name.title(), f"{name}@example.com", roles)
        self.add(name, identity)
        return identity.user_id

    def may_accept(self, token: str) -> bool:
        return True

    def verify(self, token: str) -> VerifiedToken:
        identity = self.identities.get(token)
        if identity is None:
            raise AuthenticationFailed("unknown token")
        return VerifiedToken(identity, time.time() + 3600)


@pytest.fixture
def callers(monkeypatch: pytest.MonkeyPatch) -> Iterator[NamedCallers]:
    """Authentication with tokens of users that the test names."""
    named = NamedCallers()
    for module in (providers, requests):  # each has its own name
        monkeypatch.setattr(module, "authenticators", lambda: (named,))
    requests.verified_tokens.clear()
    yield named
    requests.verified_tokens.clear()


class CallerClient(ApiClient):
    """Calls below one address, with a token."""

    def __init__(self, base: str, token: str) -> None:
        super().__init__(base)
        self.token = token

    def get(self, target: str = "", **headers: str) -> Response:
        return super().get(target, **self._with_token(headers))

    def delete(self, target: str = "", **headers: str) -> Response:
        return super().delete(target, **self._with_token(headers))

    def post(self, target: str = "", body: object = None, *, raw: bytes | None = None, **headers: str) -> Response:
        return super().post(target, body, raw=raw, **self._with_token(headers))

    def put(self, target: str = "", body: object = None, *, raw: bytes | None = None, **headers: str) -> Response:
        return super().put(target, body, raw=raw, **self._with_token(headers))

    def head(self, target: str = "") -> Response:
        return call("HEAD", self.base + target, headers=self._with_token({}))

    def _with_token(self, headers: dict[str, str]) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}", **headers}
