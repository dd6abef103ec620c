"""Fixtures of tests that use access tokens of this server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings

from tenancy.actor import INTERNAL
from tenancy.authn.own_tokens.access_tokens import _issuer, _keys
from tenancy.authn.own_tokens.stored_tokens import token_uses
from tenancy.authn.providers import authenticators
from tenancy.authn.requests import verified_tokens
from tenancy.services.access_tokens import create_token
from tenancy.services.users import create_local_user
from tests.harness.wsgi_client import Response, call


class TokenClient:
    """Calls with a token."""

    def __init__(self, token: str, base: str = "/management/v1") -> None:
        self.token, self.base = token, base

    def get(self, target: str) -> Response:
        return self.send("GET", target)

    def delete(self, target: str) -> Response:
        return self.send("DELETE", target)

    def post(self, target: str, body: Any = None) -> Response:
        return self.send("POST", target, json.dumps(body).encode())

    def send(self, method: str, target: str, body: bytes = b"") -> Response:
        return call(method, self.base + target, body=body, headers={"authorization": f"Bearer {self.token}"})


def new_token(user_id: str = "local~alice", **options: Any) -> str:
    """Return a token of a user, who is created if needed; options are those of `create_token`."""
    if user_id.startswith("local~"):
        create_local_user(actor=INTERNAL, user_id=user_id)
    return create_token(actor=INTERNAL, user_id=user_id, **{"name": "test", **options}).text


@pytest.fixture
def access_tokens(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Authentication by access tokens alone."""
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"access_tokens": True}))
    for cached in (authenticators, _issuer, _keys):
        cached.cache_clear()
    verified_tokens.clear()
    token_uses.take()
    yield
    for cached in (authenticators, _issuer, _keys):
        cached.cache_clear()
    verified_tokens.clear()


@pytest.fixture
def alice(access_tokens: None) -> TokenClient:
    """`local~alice`, with a token of the usual scopes."""
    return TokenClient(new_token())
