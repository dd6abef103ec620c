"""Tokens that this server did not issue: all get the same error, whatever is wrong with them."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from joserfc import jwt
from joserfc.jwk import OctKey
from pydantic import SecretStr

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.sql import fetch_one
from icekeeper.kernel.ids import new_id
from tenancy.actor import Identity
from tenancy.authn.authenticator import VerifiedToken
from tenancy.authn.own_tokens import access_tokens, stored_tokens
from tenancy.authn.own_tokens.access_tokens import create_session_token
from tenancy.authn.own_tokens.stored_tokens import (
    TokenKind,
    create_token_text,
    find_live_token,
    read_token,
    revocations,
)
from tenancy.authn.providers import authenticators
from tenancy.authn.requests import VerifiedTokens, identify
from tenancy.models import AccessToken, User
from tests.harness.wsgi_client import call
from tests.token_fixtures import TokenClient, new_token

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

Create = Callable[..., str]


def is_refused(token: str) -> bool:
    response = TokenClient(token).get("/token")
    challenge = response.headers.get("WWW-Authenticate")
    return (
        response.refused(401, "AuthenticationFailed", "The token was not accepted")
        and challenge == 'Bearer error="invalid_token"'
    )


def id_of(token: str) -> UUID:
    text = read_token(token)
    assert text is not None
    return text.token_id


def flipped(token: str, location: int) -> str:
    other = "x" if token[location] != "x" else "y"
    return token[:location] + other + (token[location + 1 :] if location != -1 else "")


def test_damaged_tokens(alice: TokenClient, monkeypatch: pytest.MonkeyPatch) -> None:
    good = alice.token
    assert alice.get("/token").status == 200
    monkeypatch.setattr(stored_tokens, "fetch_one", lambda *_: pytest.fail("the database was asked"))
    for location in (4, 20, 27, 50, 69, 70, -1):
        assert is_refused(flipped(good, location)), location
    for damaged in (
        good[:-1],
        good[:26],
        good + "0",
        good + ".x",
        good.replace("ikp_", "iks_"),
        good.replace("ikp_", "IKP_"),
        good.swapcase(),
        f"ikp_{'z' * 22}_{good[27:]}",
        "ikp_",
        "ikp_" + "0" * 72,
        "ikp_" + "é" * 72,
        "ikp_" + "٣" * 72,
        "ikp_\x01" + good[5:],
        "None",
        "a.b.c",
    ):
        assert is_refused(damaged), damaged


def test_a_token_that_is_too_long_is_not_read(access_tokens: None) -> None:
    assert (
        TokenClient("ikp_" + "0" * 20_000)
        .get("/token")
        .refused(401, "AuthenticationFailed", "The token was not accepted")
    )


def test_well_formed_tokens_of_no_user(alice: TokenClient) -> None:
    bob = id_of(new_token("local~bob"))
    assert is_refused(create_token_text(TokenKind.PERSONAL, new_id()))
    assert is_refused(create_token_text(TokenKind.PERSONAL, bob))  # the id of another token with a valid secret
    assert is_refused(create_token_text(TokenKind.SERVICE, bob))
    assert is_refused(create_token_text(TokenKind.PERSONAL, UUID(int=0)))


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic {}", "Token {}", "{}", "Bearer\x0b{}"])
def test_headers_without_a_bearer_token(alice: TokenClient, header: str) -> None:
    response = call("GET", "/management/v1/token", headers={"authorization": header.format(alice.token)})
    assert response.refused(401, "MissingAuthorizationHeader")
    assert alice.token not in response.body.decode()


def test_everything_needs_a_token_where_they_are_on(access_tokens: None) -> None:
    for method, target in (
        ("GET", "/catalog/v1/config?warehouse=x"),
        ("GET", "/management/v1/info"),
        ("POST", "/management/v1/bootstrap"),
        ("POST", "/management/v1/token"),
    ):
        assert call(method, target).refused(401, "MissingAuthorizationHeader")
    assert call("GET", "/health").status in {200, 503}


def test_the_setting_decides_whether_tokens_are_accepted(alice: TokenClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(authenticators()) == 1
    for value in (None, False):
        monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"access_tokens": value}))
        authenticators.cache_clear()
        assert authenticators() == ()


# --- cache of verified tokens --------------------------------------------------------------------------------------


def test_a_valid_token_is_looked_up_once_in_five_seconds(alice: TokenClient, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []

    def look(*given: Any) -> Any:
        looked.append(given)
        return fetch_one(*given)

    monkeypatch.setattr(stored_tokens, "fetch_one", look)
    at = time.time()
    monkeypatch.setattr(time, "time", lambda: at)
    for _ in range(3):
        identify(alice.token)
    assert len(looked) == 1
    at += 4.9
    identify(alice.token)
    assert len(looked) == 1
    at += 0.2
    identify(alice.token)
    assert len(looked) == 2
    revocations.bump()
    identify(alice.token)
    assert len(looked) == 3


def test_a_token_is_not_cached_beyond_its_expiry(alice: TokenClient, monkeypatch: pytest.MonkeyPatch) -> None:
    row = AccessToken.objects.get()
    end = row.expires_at.timestamp()
    at = end - 2
    monkeypatch.setattr(time, "time", lambda: at)
    verified = authenticators()[0].verify(alice.token)
    assert verified.expires_at == end
    assert verified.revocations == revocations.current()


def test_a_value_that_expires_during_the_lookup_is_not_cached(
    alice: TokenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fetch_one

    def revoked_meanwhile(*given: Any) -> Any:
        row = real(*given)
        AccessToken.objects.update(revoked_at=now())
        revocations.bump()
        return row

    monkeypatch.setattr(stored_tokens, "fetch_one", revoked_meanwhile)
    identify(alice.token)
    monkeypatch.setattr(stored_tokens, "fetch_one", real)
    assert is_refused(alice.token)


def test_revocations_do_not_affect_tokens_of_other_providers() -> None:
    cached = VerifiedTokens()
    identity = Identity("oidc~x", "oidc", "human")
    cached.put(b"theirs", VerifiedToken(identity, time.time() + 60))
    cached.put(b"ours", VerifiedToken(identity, time.time() + 60, revocations=revocations.current()))
    revocations.bump()
    assert cached.get(b"theirs") == identity
    assert cached.get(b"ours") is None


# --- short-lived tokens ------------------------------------------------------------------------------------------


@pytest.fixture
def claims(alice: TokenClient) -> dict[str, Any]:
    """Claims of a valid token."""
    at = int(time.time())
    return {
        "iss": access_tokens._issuer(),
        "sub": "local~alice",
        "iat": at,
        "exp": at + 60,
        "auth_time": at,
        "scope": "management",
        "parent": str(id_of(alice.token)),
    }


def signed(claims: dict[str, Any], *, key: OctKey | None = None, alg: str = "HS256", typ: str | None = None) -> str:
    header = {"alg": alg, "typ": access_tokens.TYPE if typ is None else typ}
    return "ika_" + jwt.encode(header, claims, key or access_tokens._keys()[0], algorithms=[alg])


def unsigned(claims: dict[str, Any], header: dict[str, Any]) -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims)]
    return f"ika_{'.'.join(parts)}."


def test_a_short_lived_token_acts_for_the_user_of_its_parent(alice: TokenClient, claims: dict[str, Any]) -> None:
    token = signed(claims)
    assert TokenClient(token).get("/token").status == 200
    identity = identify(token)
    assert (identity.user_id, identity.access_token_id) == ("local~alice", id_of(alice.token))
    assert identity.scopes == frozenset({"management"})
    parent = find_live_token(id_of(alice.token))
    text, seconds = create_session_token(parent, frozenset({"catalog"}))
    assert seconds == 3600
    assert identify(text).scopes == frozenset({"catalog"})


def test_the_signing_key_does_not_depend_on_the_encryption_key(
    alice: TokenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key() -> object:
        access_tokens._keys.cache_clear()
        return access_tokens._keys()[0].as_dict()["k"]

    without = key()
    changed = {"pg_encryption_key": SecretStr("a long random text")}
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update=changed))
    assert key() == without
    monkeypatch.setattr(settings, "SECRET_KEY", "another one")
    assert key() != without


def test_forged_short_lived_tokens(claims: dict[str, Any]) -> None:
    good = signed(claims)
    header = {"alg": "none", "typ": access_tokens.TYPE}
    body = good.split(".")[1]
    raised = base64.urlsafe_b64encode(json.dumps(claims | {"scope": "catalog management"}).encode()).rstrip(b"=")
    for forged in (
        unsigned(claims, header),
        unsigned(claims, header | {"alg": "None"}),
        unsigned(claims, header | {"alg": "HS256"}),
        signed(claims, key=OctKey.generate_key(256)),
        signed(claims, key=OctKey.import_key(settings.SECRET_KEY)),
        signed(claims, alg="HS512"),
        signed(claims, typ="JWT"),
        signed(claims, typ=""),
        good.replace(body, raised.decode()),
        good[:-1],
        good[4:],
        good + ".x",
        "ika_",
        "ika_..",
        "ika_" + "x" * 1000,
        "ika_é.é.é",
        signed(claims | {"iss": "icekeeper:other"}),
        signed(claims | {"iss": None}),
        signed(claims | {"exp": int(time.time()) - 1}),
        signed(claims | {"exp": "never"}),
        signed(claims | {"exp": 1e300}),
        signed({name: value for name, value in claims.items() if name != "exp"}),
        signed(claims | {"sub": "local~bob"}),
        signed(claims | {"parent": str(new_id())}),
        signed(claims | {"parent": "x"}),
        signed(claims | {"parent": 7}),
    ):
        assert is_refused(forged), forged


def test_a_short_lived_token_carries_no_scope_that_its_parent_has_not(access_tokens: None) -> None:
    parent = find_live_token(id_of(new_token(scopes=["catalog:read"])))
    text, _ = create_session_token(parent, frozenset({"catalog", "management"}))
    assert identify(text).scopes == frozenset({"catalog:read"})


@pytest.mark.parametrize("end", ["revoked", "expired", "user deleted", "deleted"])
def test_a_short_lived_token_ends_with_its_parent(alice: TokenClient, claims: dict[str, Any], end: str) -> None:
    token = signed(claims)
    assert TokenClient(token).get("/token").status == 200
    match end:
        case "revoked":
            assert alice.delete(f"/token/{claims['parent']}").status == 204
        case "expired":
            AccessToken.objects.update(expires_at=now())
        case "user deleted":
            User.objects.update(deleted_at=now())
        case _:
            AccessToken.objects.all().delete()
    if end != "revoked":
        revocations.bump()
    assert is_refused(token)


def test_a_short_lived_token_does_not_outlive_its_parent(access_tokens: None) -> None:
    parent = find_live_token(id_of(new_token(expires_in=100)))
    _, seconds = create_session_token(parent, frozenset({"catalog"}))
    assert 98 <= seconds <= 100
