"""Which tokens of a provider are accepted and which are rejected."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from tenancy.actor import INTERNAL
from tenancy.authn.authenticator import Authenticator
from tenancy.authn.requests import MAX_TOKEN_LENGTH, identify, verified_tokens
from tenancy.models import User
from tenancy.services.users import block_user, delete_user, unblock_user
from tests.authn.conftest import Ask, SwitchOn, refused
from tests.harness.identity_provider import DISCOVERY, KEYS, IdentityProvider, encoded, sign
from tests.harness.wsgi_client import call

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("on")]


def test_a_good_token(provider: IdentityProvider, ask: Ask) -> None:
    assert ask(provider.token()).status == 200
    identity = identify(provider.token(name="Anna A", email="anna@example.com"))
    assert (identity.user_id, identity.name, identity.email) == ("oidc~anna", "Anna A", "anna@example.com")


def test_a_blocked_user(provider: IdentityProvider, ask: Ask) -> None:
    user = User.objects.create_user(id="oidc~anna")
    token = provider.token()
    assert ask(token).status == 200
    User.objects.filter(pk=user.pk).update(is_active=False)
    verified_tokens.clear()
    assert refused(ask(token))
    assert ask(provider.token(sub="bob")).status == 200  # a user without a row is accepted


def test_a_deleted_user_who_was_blocked_is_not_registered_again(provider: IdentityProvider, ask: Ask) -> None:
    User.objects.create_user(id="oidc~anna")
    block_user(actor=INTERNAL, user_id="oidc~anna")
    delete_user(actor=INTERNAL, user_id="oidc~anna")
    assert refused(ask(provider.token()))
    unblock_user(actor=INTERNAL, user_id="oidc~anna")
    assert ask(provider.token()).status == 200


@pytest.mark.parametrize(
    "path", ["/management/v1/info", "/catalog/v1/config", "/lakekeeper/v1/x/namespaces/y/generic-tables"]
)
def test_no_access_without_a_token(path: str, bootstrapped: None) -> None:
    response = call("GET", path)
    assert response.refused(401, "MissingAuthorizationHeader")
    assert response.headers["WWW-Authenticate"] == "Bearer"
    for header in ("", "Bearer", "Bearer ", "Basic YTpi", "Token x", "Bearer\tx"):
        assert call("GET", path, headers={"Authorization": header}).refused(401, "MissingAuthorizationHeader")


def test_the_scheme_in_any_case(provider: IdentityProvider, bootstrapped: None) -> None:
    for scheme in ("bearer", "BEARER", "Bearer "):
        assert (
            call("GET", "/management/v1/info", headers={"Authorization": f"{scheme} {provider.token()}"}).status == 200
        )


def test_every_kind_of_key(
    key_of_every_kind: list[RSAKey | ECKey | OKPKey], provider: IdentityProvider, ask: Ask
) -> None:
    provider.private_keys = {f"key-{number}": key for number, key in enumerate(key_of_every_kind)}
    for kid in provider.private_keys:
        assert ask(provider.sign({"kid": kid}, provider.claims())).status == 200


def test_probabilistic_rsa(rsa_key: RSAKey, provider: IdentityProvider, ask: Ask) -> None:
    provider.private_keys = {"rsa": rsa_key}
    for algorithm in ("RS384", "RS512", "PS256", "PS384", "PS512"):
        token = sign(json.dumps({"alg": algorithm, "kid": "rsa"}), provider.claims(), rsa_key, algorithm)
        assert ask(token).status == 200


@dataclass(frozen=True)
class FromNow:
    """A date claim, this many seconds after the start of the test."""

    seconds: float


def dated(claims: dict[str, Any]) -> dict[str, Any]:
    now = int(time.time())
    return {name: now + value.seconds if isinstance(value, FromNow) else value for name, value in claims.items()}


GOOD: list[dict[str, Any]] = [
    {"aud": ["others", "icekeeper"]},
    {"iat": None},
    {"nbf": FromNow(-10)},
    {"nbf": FromNow(30)},
    {"exp": FromNow(-30)},
    {"exp": FromNow(300.5)},
    {"iat": FromNow(30)},
    {"scope": "x y"},
    {"roles": {"nested": [1, {"deep": []}]}},
    {"name": {"first": "Anna"}, "email": ["a@example.com"], "idtyp": 7, "preferred_username": None},
    {"oid": 7},
]


@pytest.mark.parametrize("claims", GOOD, ids=str)
def test_good_claims(claims: dict[str, Any], provider: IdentityProvider, ask: Ask) -> None:
    assert ask(provider.token(**dated(claims))).status == 200


BAD: list[dict[str, Any]] = [
    {"exp": FromNow(-120)},
    {"exp": None},
    {"exp": 1e300},
    {"exp": -1},
    {"exp": -1e300},
    {"exp": "2100-01-01"},
    {"exp": True},
    {"exp": [4102444800]},
    {"exp": {}},
    {"exp": 2**62},
    {"exp": 0},
    {"nbf": FromNow(3600)},
    {"nbf": "tomorrow"},
    {"iat": FromNow(3600)},
    {"iat": 1e300},
    {"iss": None},
    {"iss": ""},
    {"iss": "http://elsewhere"},
    {"iss": 7},
    {"iss": []},
    {"iss": [{"deep": "er"}]},
    {"aud": None},
    {"aud": "others"},
    {"aud": ["others"]},
    {"aud": []},
    {"aud": {"icekeeper": True}},
    {"aud": ["icekeeper", 7]},
    {"aud": "icekeeper others"},
    {"sub": None},
    {"sub": 7},
    {"sub": ["anna"]},
    {"sub": {"id": "anna"}},
]


@pytest.mark.parametrize("claims", BAD, ids=str)
def test_bad_claims(claims: dict[str, Any], provider: IdentityProvider, ask: Ask) -> None:
    assert refused(ask(provider.token(**dated(claims))))


def test_issuers_in_an_array_must_all_be_known(provider: IdentityProvider, ask: Ask) -> None:
    assert ask(provider.token(iss=[provider.issuer])).status == 200
    assert refused(ask(provider.token(iss=[provider.issuer, "http://elsewhere"])))


@pytest.mark.parametrize(
    ("subject", "wire_type"),
    [
        ("", "EmptyUserIdError"),
        (" ", "EmptyUserIdError"),
        ("a\u2028b", "InvalidUserIdError"),
        ("a" * 128, "UserIdTooLongError"),
        ("ä" * 64, "UserIdTooLongError"),
        ("a\nb", "InvalidUserIdError"),
        ("a\0", "InvalidUserIdError"),
        ("\x85", "InvalidUserIdError"),
    ],
)
def test_subjects_that_are_no_user_id(subject: str, wire_type: str, provider: IdentityProvider, ask: Ask) -> None:
    assert ask(provider.token(sub=subject)).refused(400, wire_type)


def test_subjects_that_are(provider: IdentityProvider) -> None:
    for subject in ("a", "a" * 127, "a~b", "Ä ö", " a", "auth0|5f7c8ec7c33c6c004bbafe82"):
        assert identify(provider.token(sub=subject)).user_id == f"oidc~{subject}"


# --- forged tokens ---------------------------------------------------------------------------------------------------


def test_signed_by_another_issuer(provider: IdentityProvider, ask: Ask) -> None:
    assert refused(ask(provider.sign({}, provider.claims(), key=ECKey.generate_key("P-256"))))


def test_changed_after_it_was_signed(provider: IdentityProvider, ask: Ask) -> None:
    header, _, signature = provider.token().split(".")
    claims = encoded(json.dumps(provider.claims(sub="root")).encode())
    assert refused(ask(f"{header}.{claims}.{signature}"))
    header, claims, signature = provider.token().split(".")
    assert refused(ask(f"{header}.{claims}.{signature[:-4]}AAAA"))
    assert refused(ask(f"{header}.{claims}.{encoded(b'')}"))
    assert refused(ask(f"{header}.{claims}.AA"))


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", None, 7, ["ES256"], {"ES256": 1}, "ES256K"])
def test_algorithms_that_are_none(algorithm: Any, provider: IdentityProvider, ask: Ask) -> None:
    head = encoded(json.dumps({"alg": algorithm, "kid": "key-0"}).encode())
    claims = encoded(json.dumps(provider.claims()).encode())
    signature = provider.token().split(".")[2]
    for token in (f"{head}.{claims}.", f"{head}.{claims}", f"{head}.{claims}.{signature}", f"{head}.{claims}.AA"):
        assert refused(ask(token))


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_public_key_used_as_a_shared_secret(
    algorithm: str, rsa_key: RSAKey, provider: IdentityProvider, ask: Ask
) -> None:
    provider.private_keys = {"key-0": rsa_key}
    published = provider.documents()[KEYS]["keys"][0]
    secrets = [
        rsa_key.as_pem(private=False),
        rsa_key.as_pem(private=False).strip(),
        rsa_key.as_der(private=False),
        json.dumps(published).encode(),
        json.dumps(published, separators=(",", ":")).encode(),
        published["n"].encode(),
    ]
    for secret in secrets:
        key = OctKey(secret, secret)
        assert refused(ask(sign(json.dumps({"alg": algorithm, "kid": "key-0"}), provider.claims(), key, algorithm)))


def test_a_shared_secret_among_the_published_keys_is_rejected(provider: IdentityProvider, ask: Ask) -> None:
    secret = OctKey.import_key(b"s" * 64)
    shared = {"kty": "oct", "kid": "shared", "alg": "HS256", "k": encoded(b"s" * 64)}
    provider.published[KEYS] = {"keys": [*provider.documents()[KEYS]["keys"], shared]}
    assert refused(ask(sign('{"alg":"HS256","kid":"shared"}', provider.claims(), secret, "HS256")))
    assert ask(provider.token()).status == 200


def test_a_key_of_another_kind_than_the_algorithm(rsa_key: RSAKey, provider: IdentityProvider, ask: Ask) -> None:
    provider.private_keys |= {"rsa": rsa_key}
    ec_key = provider.private_keys["key-0"]
    assert refused(ask(sign('{"alg":"RS256","kid":"key-0"}', provider.claims(), rsa_key, "RS256")))
    assert refused(ask(sign('{"alg":"ES256","kid":"rsa"}', provider.claims(), ec_key, "ES256")))


def test_another_algorithm_than_the_key_is_for(rsa_key: RSAKey, provider: IdentityProvider, ask: Ask) -> None:
    only = rsa_key.as_dict(private=False, kid="rsa", alg="PS256")
    provider.published[KEYS] = {"keys": [only]}
    assert refused(ask(sign('{"alg":"RS256","kid":"rsa"}', provider.claims(), rsa_key, "RS256")))
    assert ask(sign('{"alg":"PS256","kid":"rsa"}', provider.claims(), rsa_key, "PS256")).status == 200


KEY_IDS = [
    None, "", 7, True, ["key-0"], {"kid": "key-0"}, "no-such", "../../../../etc/passwd", "/dev/zero",
    "file:///etc/passwd", "http://127.0.0.1:1/keys", "key-0\0", " key-0", "KEY-0", "'; DROP TABLE role; --",
    "k" * 1025, "k" * 8000, "ключ", "__class__", "keys",
]  # fmt: skip


@pytest.mark.parametrize("kid", KEY_IDS, ids=lambda kid: str(kid)[:20])
def test_key_ids(kid: Any, provider: IdentityProvider, ask: Ask) -> None:
    key = provider.private_keys["key-0"]
    assert refused(ask(provider.sign({"kid": kid}, provider.claims(), key=key)))
    assert set(provider.asked) <= {DISCOVERY, KEYS}


def test_keys_inside_the_token(provider: IdentityProvider, other_provider: IdentityProvider, ask: Ask) -> None:
    own = ECKey.generate_key("P-256")
    brought: list[dict[str, Any]] = [
        {"jwk": own.as_dict(private=False)},
        {"jwk": own.as_dict(private=False), "kid": None},
        {"jku": other_provider.address + KEYS},
        {"x5u": other_provider.address + KEYS},
        {"x5c": [encoded(own.as_der(private=False))]},
    ]
    for header in brought:
        assert refused(ask(provider.sign(header, provider.claims(), key=own)))
    assert other_provider.asked.total() == 0
    # A token of the provider is verified with its published key only, whatever its header contains.
    assert ask(provider.sign({"x5c": ["AAAA"], "x5t": "AAAA", "nonce": "n"}, provider.claims())).status == 200


@pytest.mark.parametrize(
    "header",
    [
        {"crit": ["exp"]},
        {"crit": []},
        {"crit": "exp"},
        {"crit": ["b64"], "b64": False},
        {"b64": False},
        {"crit": ["x"], "x": 1},
    ],
    ids=str,
)
def test_extensions_that_must_be_understood(header: dict[str, Any], provider: IdentityProvider, ask: Ask) -> None:
    assert refused(ask(provider.sign(header, provider.claims())))


# --- malformed tokens ------------------------------------------------------------------------------------------------


def test_other_shapes_of_tokens(provider: IdentityProvider, ask: Ask) -> None:
    token = provider.token()
    header, claims, signature = token.split(".")
    shapes = [
        "x", ".", "..", "...", "a.b.c", "opaque-token", f"{token}.", f".{token}", f"{token}.{header}",
        f"{header}..{signature}", f"{header}.{claims}", ".".join([header] * 5), f"{header}.{claims}.{signature}==",
        f"{header}=.{claims}.{signature}", f"{header}.{claims}\u00e4.{signature}", f"{header}.{claims}\x00.{signature}",
        f"{header} .{claims}.{signature}", token.replace(".", "\u2024"), "\u00ff" * 100, f"{token},Bearer {token}",
        f"{token},{token}", f"{token} {token}", f"{token}, Bearer {token}", f'"{token}"',
    ]  # fmt: skip
    for shape in shapes:
        assert refused(ask(shape)), shape


BODIES: dict[str, bytes] = {
    "no JSON": b"hello",
    "empty": b"",
    "a list": b"[]",
    "a text": b'"text"',
    "null": b"null",
    "not UTF-8": b'{"sub":"\xff\xfe"}',
    "a lone surrogate": b'{"sub":"\\ud800"}',
    "NaN": b'{"exp":NaN}',
    "Infinity": b'{"exp":Infinity}',
    "deep": b'{"a":' + b"[" * 900 + b"]" * 900 + b"}",
    "very deep": b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "a great number": b'{"exp":' + b"9" * 5000 + b"}",
    "byte order mark": b"\xef\xbb\xbf{}",
    "more after it": b"{} {}",
}


@pytest.mark.parametrize("name", BODIES)
def test_claims_that_cannot_be_read(name: str, provider: IdentityProvider, ask: Ask) -> None:
    assert refused(ask(provider.sign({}, BODIES[name])))


@pytest.mark.parametrize("name", BODIES)
def test_headers_that_cannot_be_read(name: str, provider: IdentityProvider, ask: Ask) -> None:
    key = provider.private_keys["key-0"]
    assert refused(ask(sign(BODIES[name], provider.claims(), key)))


def test_members_that_appear_twice(provider: IdentityProvider, ask: Ask) -> None:
    good = json.dumps(provider.claims())[1:-1]
    key = provider.private_keys["key-0"]
    assert ask(provider.sign({}, f"{{{good}}}".encode())).status == 200
    assert refused(ask(provider.sign({}, f'{{"sub":"root",{good}}}'.encode())))
    assert refused(ask(provider.sign({}, f'{{{good},"exp":4102444800}}'.encode())))
    assert refused(ask(sign('{"alg":"none","alg":"ES256","kid":"key-0"}', provider.claims(), key)))


def test_long_tokens(provider: IdentityProvider, ask: Ask) -> None:
    project = MAX_TOKEN_LENGTH - len(provider.token(x=""))
    longest = provider.token(x="x" * (project * 3 // 4 - 3))
    assert MAX_TOKEN_LENGTH - 10 < len(longest) <= MAX_TOKEN_LENGTH
    assert ask(longest).status == 200
    assert refused(ask(provider.token(x="x" * project)))
    assert refused(ask("x" * 1_000_000))


# --- scope, leeway, other settings --------------------------------------------------------------------------------


def test_a_scope_that_tokens_must_have(provider: IdentityProvider, switch_on: SwitchOn, ask: Ask) -> None:
    switch_on(LAKEKEEPER__OPENID_PROVIDER_URI=provider.address, LAKEKEEPER__OPENID_SCOPE="catalog")
    for good in ({"scope": "catalog"}, {"scope": "a catalog b"}, {"scp": "catalog"}, {"scp": ["a", "catalog"]}):
        assert ask(provider.token(**good)).status == 200
    bad: list[dict[str, Any]] = [
        {},
        {"scope": ""},
        {"scope": "catalogs"},
        {"scope": "a,catalog"},
        {"scope": 7},
        {"scp": ["a catalogs"]},
    ]
    for each in bad:
        assert refused(ask(provider.token(**each)))


def test_clocks_may_differ_as_far_as_is_set(provider: IdentityProvider, switch_on: SwitchOn, ask: Ask) -> None:
    switch_on(LAKEKEEPER__OPENID_PROVIDER_URI=provider.address, ICEKEEPER__AUTHENTICATION__LEEWAY="0s")
    assert refused(ask(provider.token(exp=int(time.time()) - 2)))
    assert refused(ask(provider.token(nbf=int(time.time()) + 30)))


def test_algorithms_that_are_set(rsa_key: RSAKey, provider: IdentityProvider, switch_on: SwitchOn, ask: Ask) -> None:
    provider.private_keys |= {"rsa": rsa_key}
    switch_on(LAKEKEEPER__OPENID_PROVIDER_URI=provider.address, ICEKEEPER__AUTHENTICATION__ALGORITHMS="RS256")
    assert refused(ask(provider.token()))
    assert ask(provider.sign({"kid": "rsa"}, provider.claims())).status == 200


def test_without_a_configured_audience_every_audience_is_accepted(
    provider: IdentityProvider, switch_on: SwitchOn, ask: Ask
) -> None:
    switch_on(LAKEKEEPER__OPENID_PROVIDER_URI=f"{provider.address}/")
    assert ask(provider.token(aud="others")).status == 200
    assert ask(provider.token(aud=None)).status == 200


# --- cache and error messages ----------------------------------------------------------------------------------------


def test_a_verified_token_is_cached_no_longer_than_it_is_valid(
    provider: IdentityProvider, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    token = provider.token(exp=int(now) - 30)  # within the leeway, for another 30 seconds
    assert ask(token).status == 200
    monkeypatch.setattr(time, "time", lambda: now + 20)
    assert ask(token).status == 200
    monkeypatch.setattr(time, "time", lambda: now + 31)
    assert refused(ask(token))


def test_a_changed_token_does_not_match_the_cached_one(provider: IdentityProvider, ask: Ask) -> None:
    token = provider.token()
    assert ask(token).status == 200
    assert refused(ask(token[:-1] + ("A" if token[-1] != "A" else "Q")))
    assert refused(ask(token + "A"))


def test_the_reason_is_in_the_log_and_the_token_is_not(
    provider: IdentityProvider, ask: Ask, caplog: pytest.LogCaptureFixture, on: tuple[Authenticator, ...]
) -> None:
    caplog.set_level(logging.DEBUG)
    reasons = {
        provider.token(exp=int(time.time()) - 120): "it has expired",
        provider.token(aud="others"): "no provider of this server accepts it (iss",
        provider.sign({"alg": "HS256"}, provider.claims()): "its algorithm is not accepted here: 'HS256'",
        provider.sign({}, provider.claims(), key=ECKey.generate_key("P-256")): "its signature does not match the key",
        "opaque-canary-token": "as a JWT: it is not three parts",
    }
    for token, reason in reasons.items():
        caplog.clear()
        assert refused(ask(token))
        said = "\n".join(str(record.__dict__) for record in caplog.records)
        assert reason in said
        for part in token.split("."):
            assert part not in said
    assert all(token not in repr(on) + repr(on[0].__dict__) for token in reasons)


def test_the_line_of_a_request_names_the_user(
    provider: IdentityProvider, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert ask(provider.token()).status == 200
    [line] = [record for record in caplog.records if record.name == "icekeeper.access"]
    assert line.__dict__["user"] == "oidc~anna"
