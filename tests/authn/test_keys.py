"""Signing keys of providers: rotation, withdrawal, outages, invalid responses, and limits on key fetches."""

from __future__ import annotations

import json
import logging
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.conf import settings
from django.db import connections
from joserfc.jwk import ECKey, OKPKey, RSAKey

from tenancy.actor import Identity
from tenancy.authn.provider_documents import MAX_OVERDUE_FETCHES, Fetcher
from tenancy.authn.providers import authenticators, connect_providers
from tenancy.authn.requests import identify, verified_tokens
from tests.authn.conftest import Ask, On, again, drop, refused
from tests.harness.identity_provider import (
    DISCOVERY,
    KEYS,
    IdentityProvider,
    Misbehaviour,
    encoded,
    hangs,
    responses,
    sends_without_end,
    trickles_body,
    trickles_head,
)

pytestmark = pytest.mark.django_db


# --- rotation -----------------------------------------------------------------------------------------------------


def test_keys_are_fetched_once_for_many_tokens(provider: IdentityProvider, on: On, ask: Ask) -> None:
    for number in range(20):
        assert ask(provider.token(sub=f"user-{number}")).status == 200
    assert provider.asked == {DISCOVERY: 1, KEYS: 1}


def test_a_new_key_is_found_as_soon_as_a_token_names_it(
    eager: None, provider: IdentityProvider, on: On, ask: Ask
) -> None:
    before = provider.token()
    assert ask(before).status == 200
    provider.rotate()
    assert ask(provider.token()).status == 200
    assert provider.asked == {DISCOVERY: 2, KEYS: 2}
    verified_tokens.clear()
    assert refused(ask(before))  # its key is withdrawn


def test_both_keys_are_valid_while_both_are_published(
    eager: None, provider: IdentityProvider, on: On, ask: Ask
) -> None:
    before = provider.token()
    assert ask(before).status == 200
    provider.rotate(keeps_old=True)
    assert ask(provider.token()).status == 200
    verified_tokens.clear()
    assert ask(before).status == 200
    assert provider.asked[KEYS] == 2


def test_keys_that_moved(eager: None, provider: IdentityProvider, on: On, ask: Ask) -> None:
    assert ask(provider.token()).status == 200
    provider.rotate()
    moved = provider.documents()[KEYS]
    provider.misbehave[KEYS] = responses(404)
    provider.published[DISCOVERY] = {"jwks_uri": f"{provider.address}/new-keys"}
    provider.misbehave["/new-keys"] = responses(200, _json(moved))
    assert ask(provider.token()).status == 200


def test_withdrawn_keys_are_removed_when_keys_expire(
    eager: None, ages: None, provider: IdentityProvider, on: On, ask: Ask
) -> None:
    before = provider.token()
    assert ask(before).status == 200
    provider.rotate()
    verified_tokens.clear()
    assert refused(ask(before))


# --- floods of unknown key ids ----------------------------------------------------------------------------------------


def test_a_flood_of_unknown_keys_asks_the_provider_once(provider: IdentityProvider, on: On, ask: Ask) -> None:
    connect_providers()
    assert provider.asked[KEYS] == 1
    for number in range(100):
        response = ask(provider.sign({"kid": f"unknown-{number}"}, provider.claims()))
        assert response.refused(503, "IdentityProviderUnavailable")
        assert response.headers["Retry-After"] == "5"
    assert provider.asked[KEYS] == 1  # within the pause after the first refresh
    assert ask(provider.token()).status == 200


def test_a_flood_is_one_warning_in_the_log(
    provider: IdentityProvider, on: On, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    provider.is_down = True
    for number in range(20):
        assert ask(provider.sign({"kid": f"unknown-{number}"}, provider.claims())).status == 503
    assert [record.levelname for record in caplog.records if record.levelno > logging.INFO] == ["WARNING"]
    assert not any(record.exc_info for record in caplog.records)
    reasons = [record for record in caplog.records if "a token could not be verified: the identity" in record.message]
    assert len(reasons) == 20


def test_many_at_once_share_one_look(provider: IdentityProvider, on: On) -> None:
    gate = threading.Event()

    def slowly(handler: Any) -> None:
        gate.wait(10)
        del provider.misbehave[KEYS]
        responses(200, _json(provider.documents()[KEYS]))(handler)

    provider.misbehave[KEYS] = slowly

    def identified(token: str) -> Identity:
        try:
            return identify(token)
        finally:
            connections.close_all()  # connections of this thread

    tokens = [provider.token(sub=f"user-{number}") for number in range(20)]
    with ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(identified, token) for token in tokens]
        gate.set()
        assert {done.result().user_id for done in asked} == {f"oidc~user-{number}" for number in range(20)}
    assert provider.asked == {DISCOVERY: 1, KEYS: 1}


def test_failures_are_not_tried_again_at_once(provider: IdentityProvider, on: On, ask: Ask) -> None:
    provider.is_down = True
    for _ in range(20):
        assert ask(provider.token()).refused(503, "IdentityProviderUnavailable")
    assert provider.asked.total() <= 1
    assert ask(provider.token()).headers["Retry-After"] == "5"


# --- unavailable providers -------------------------------------------------------------------------------------------


def test_known_keys_stay_valid_while_the_provider_is_down(
    eager: None, ages: None, provider: IdentityProvider, on: On, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    assert ask(provider.token()).status == 200
    provider.is_down = True
    assert ask(again(provider)).status == 200
    said = [record.getMessage() for record in caplog.records]
    assert any("keys cannot be fetched; cached keys stay in use" in line for line in said)
    unknown = provider.sign({"kid": "new"}, provider.claims())
    assert ask(unknown).refused(503, "IdentityProviderUnavailable")  # the key may exist
    provider.is_down = False
    assert ask(again(provider)).status == 200
    assert refused(ask(unknown))


def test_keys_stay_valid_while_only_the_discovery_document_is_unavailable(
    eager: None, ages: None, provider: IdentityProvider, on: On, ask: Ask
) -> None:
    assert ask(provider.token()).status == 200
    provider.misbehave[DISCOVERY] = responses(500)
    provider.rotate()
    assert ask(again(provider)).status == 200


LIES: dict[str, Any] = {
    "an error": lambda _: responses(500),
    "nothing": lambda _: responses(200),
    "no JSON": lambda _: responses(200, b"<html>"),
    "a list": lambda _: responses(200, b"[]"),
    "keys that are none": lambda _: responses(200, b'{"keys":{}}'),
    "too many keys": lambda _: responses(200, _json({"keys": [{}] * 101})),
    "deep": lambda _: responses(200, b'{"keys":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "not UTF-8": lambda _: responses(200, b'{"keys":["\xff"]}'),
    "compressed": lambda _: responses(200, b"x", Content_Encoding="gzip"),
    "without end": lambda _: sends_without_end,
    "hanging": hangs,
    "trickling head": trickles_head,
    "trickling body": trickles_body,
}


@pytest.mark.parametrize("path", [DISCOVERY, KEYS])
@pytest.mark.parametrize("name", LIES)
def test_a_provider_that_misbehaves_at_first(
    name: str, path: str, eager: None, provider: IdentityProvider, on: On, ask: Ask
) -> None:
    lie: Misbehaviour = LIES[name](provider)
    provider.misbehave[path] = lie
    assert ask(provider.token()).refused(503, "IdentityProviderUnavailable")
    provider.misbehave.clear()
    assert ask(provider.token()).status == 200


@pytest.mark.parametrize("name", LIES)
def test_a_provider_that_misbehaves_later(
    name: str, eager: None, ages: None, provider: IdentityProvider, on: On, ask: Ask
) -> None:
    assert ask(provider.token()).status == 200
    provider.misbehave[KEYS] = LIES[name](provider)
    assert ask(again(provider)).status == 200


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(
    status: int, provider: IdentityProvider, other_provider: IdentityProvider, on: On, ask: Ask
) -> None:
    other_provider.private_keys = provider.private_keys
    provider.misbehave[KEYS] = responses(status, Location=other_provider.address + KEYS)
    assert ask(provider.token()).refused(503, "IdentityProviderUnavailable")
    assert other_provider.asked.total() == 0


@pytest.mark.parametrize(
    "address",
    [None, 7, "", "keys", "/keys", "file:///etc/passwd", "ftp://127.0.0.1/keys", "http://", "http://[", "gopher://x"],
)
def test_addresses_of_keys_that_are_none(address: Any, provider: IdentityProvider, on: On, ask: Ask) -> None:
    provider.published[DISCOVERY] = {"jwks_uri": address}
    assert ask(provider.token()).refused(503, "IdentityProviderUnavailable")
    assert provider.asked == {DISCOVERY: 1}


def noted_fetches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each later fetch adds its address."""
    fetched: list[str] = []
    get = Fetcher.get

    def note(self: Fetcher, address: str) -> Any:
        fetched.append(address)
        return get(self, address)

    monkeypatch.setattr(Fetcher, "get", note)
    return fetched


@pytest.mark.parametrize(
    "address",
    [
        "http://169.254.169.254/latest/meta-data", "http://[fd00:ec2::254]/keys", "http://metadata.google.internal/keys",
        "http://[::ffff:169.254.169.254]/", "http://0.0.0.0/keys", "http://2852039166/", "http://user@127.0.0.1/keys",
        "http://link-local.example/keys",
    ],
)  # fmt: skip
def test_keys_at_forbidden_addresses_are_not_fetched(
    address: str, provider: IdentityProvider, on: On, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched, getaddrinfo = noted_fetches(monkeypatch), socket.getaddrinfo

    def resolve(host: str, *more: Any, **named: Any) -> Any:
        return getaddrinfo("169.254.169.254" if host == "link-local.example" else host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    provider.published[DISCOVERY] = {"jwks_uri": address}
    assert ask(provider.token()).refused(503, "IdentityProviderUnavailable")
    assert fetched == [provider.address + DISCOVERY]


@pytest.mark.parametrize("allows_private", [True, False])
def test_keys_in_a_private_network_are_fetched_as_stores_are(
    allows_private: bool, provider: IdentityProvider, on: On, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = settings.ICEKEEPER.storage.model_copy(update={"allow_private_endpoints": allows_private})
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"storage": storage}))
    assert ask(provider.token()).status == 200  # a host that the operator configured may be private
    provider.rotate()
    provider.published[DISCOVERY] = {"jwks_uri": provider.address.replace("127.0.0.1", "localhost") + KEYS}
    authenticators.cache_clear()
    assert ask(provider.token()).status == (200 if allows_private else 503)


def test_keys_at_a_name_that_cannot_be_resolved_are_not_fetched(
    eager: None, provider: IdentityProvider, on: On, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name server fails the look-up of the check and resolves the name for the connection."""
    fetched, getaddrinfo = noted_fetches(monkeypatch), socket.getaddrinfo
    lookups: list[str] = []
    keys_address = provider.address.replace("127.0.0.1", "keys.example") + KEYS

    def look_up(host: str, *more: Any, **named: Any) -> Any:
        if host != "keys.example":
            return getaddrinfo(host, *more, **named)
        lookups.append(host)
        if len(lookups) == 1:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return getaddrinfo("127.0.0.1", *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    provider.published[DISCOVERY] = {"jwks_uri": keys_address}
    assert ask(provider.token()).refused(503, "IdentityProviderUnavailable")
    assert fetched == [provider.address + DISCOVERY]
    assert provider.asked[KEYS] == 0
    assert ask(provider.token()).status == 200  # the next refresh succeeds
    assert fetched[-1] == keys_address


def test_a_proxy_resolves_the_name_of_the_keys(
    provider: IdentityProvider, on: On, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    get = Fetcher.get
    keys_address = "http://keys.invalid/keys"

    def through_proxy(self: Fetcher, asked: str) -> dict[str, Any]:
        fetched.append(asked)
        return get(self, provider.address + KEYS if asked == keys_address else asked)

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(Fetcher, "get", through_proxy)
    provider.published[DISCOVERY] = {"jwks_uri": keys_address}
    assert ask(provider.token()).status == 200
    assert fetched == [provider.address + DISCOVERY, keys_address]


def test_a_provider_that_hangs_repeatedly_is_not_called(
    eager: None, provider: IdentityProvider, on: On, ask: Ask
) -> None:
    provider.misbehave[DISCOVERY] = trickles_head(provider)
    for _ in range(6):
        assert ask(provider.token()).refused(503, "IdentityProviderUnavailable")
    assert provider.asked[DISCOVERY] == MAX_OVERDUE_FETCHES
    hanging = [thread for thread in threading.enumerate() if thread.name.startswith("keys of")]
    assert len(hanging) <= MAX_OVERDUE_FETCHES


# --- rejected keys ---------------------------------------------------------------------------------------------------


def test_unsupported_keys_are_skipped_and_others_accepted(
    eager: None, provider: IdentityProvider, on: On, ask: Ask
) -> None:
    good = provider.documents()[KEYS]["keys"][0]
    odd_rsa = {"kty": "RSA", "kid": "odd", "e": "AQAB"}
    odd: list[Any] = [
        None, 7, "key", [], {}, {"kty": "RSA"}, {"kid": "odd"}, {"kty": "RSA", "kid": "odd"}, {**good, "kid": None},
        {**good, "kid": 7}, {**good, "kid": ""}, {**good, "kid": "k" * 1025}, {**good, "kty": ["EC"]},
        {**good, "kid": "odd", "use": "enc"}, {**good, "kid": "odd", "use": ["sig"]},
        {**good, "kid": "odd", "key_ops": ["sign"]}, {**good, "kid": "odd", "key_ops": "verify"},
        {**good, "kid": "odd", "alg": "HS256"}, {**good, "kid": "odd", "alg": ["ES256"]},
        {**good, "kid": "odd", "alg": "RS256"}, {**good, "kid": "odd", "crv": "P-192"},
        {**good, "kid": "odd", "crv": "secp256k1"}, {**good, "kid": "odd", "crv": {}},
        {**good, "kid": "odd", "x": "AAAA"}, {**good, "kid": "odd", "x": 7}, {**good, "kid": "odd", "x": "\u00e4"},
        {**good, "kid": "odd", "x": "A" * 100_000}, {"kty": "oct", "kid": "odd", "k": encoded(b"s" * 32)},
        {"kty": "OKP", "kid": "odd", "crv": "X25519", "x": encoded(b"x" * 32)},
        {"kty": "OKP", "kid": "odd", "crv": "Ed25519", "x": encoded(b"x" * 31)},
        {**odd_rsa, "n": encoded(b"\xff" * 128)}, {**odd_rsa, "n": encoded(b"\xff" * 1025)}, {**odd_rsa, "n": "!!"},
        {**odd_rsa, "n": encoded(b"\xff" * 256), "e": encoded(b"\x01")},
        {**odd_rsa, "n": encoded(b"\xff" * 256), "e": encoded(b"\x04")},
        {**odd_rsa, "n": encoded(b"\xff" * 256), "e": encoded(b"\xff" * 200)},
    ]  # fmt: skip
    assert len(odd) < 100
    provider.published[KEYS] = {"keys": [*odd, good]}
    assert ask(provider.token()).status == 200
    assert refused(ask(provider.sign({"kid": "odd"}, provider.claims())))


def test_a_small_key_is_rejected(provider: IdentityProvider, on: On, ask: Ask) -> None:
    raw = rsa.generate_private_key(65537, 1024)  # noqa: S505
    numbers = raw.public_key().public_numbers()
    small = {"kty": "RSA", "kid": "small", "n": encoded(numbers.n.to_bytes(128, "big")), "e": "AQAB"}
    provider.published[KEYS] = {"keys": [*provider.documents()[KEYS]["keys"], small]}
    token = provider.sign({"kid": "small", "alg": "RS256"}, provider.claims(), key=RSAKey(raw, raw))
    assert refused(ask(token))


def test_a_published_private_key_is_rejected(provider: IdentityProvider, on: On, ask: Ask, rsa_key: RSAKey) -> None:
    keys: list[RSAKey | ECKey | OKPKey] = [rsa_key, ECKey.generate_key("P-256"), OKPKey.generate_key("Ed25519")]
    for key in keys:
        drop()
        provider.published[KEYS] = {"keys": [key.as_dict(private=True, kid="leaked")]}
        assert refused(ask(provider.sign({"kid": "leaked"}, provider.claims(), key=key)))


def test_several_keys_under_one_id(provider: IdentityProvider, on: On, ask: Ask, rsa_key: RSAKey) -> None:
    first, second = ECKey.generate_key("P-256"), ECKey.generate_key("P-256")
    provider.published[KEYS] = {"keys": [key.as_dict(private=False, kid="same") for key in (rsa_key, first, second)]}
    for key in (rsa_key, first, second):
        assert ask(provider.sign({"kid": "same"}, provider.claims(), key=key)).status == 200
    assert refused(ask(provider.sign({"kid": "same"}, provider.claims(), key=ECKey.generate_key("P-256"))))


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()
