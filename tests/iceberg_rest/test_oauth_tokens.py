"""POST /v1/oauth/tokens: client credentials and token exchange as Iceberg's clients send them, and error responses."""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote, urlencode

import pytest
from django.conf import settings
from django.db import OperationalError

from icekeeper.http.request_body import MeasuredBody
from icekeeper.kernel.clock import now
from storage.models import Warehouse
from tenancy.actor import INTERNAL
from tenancy.authn.own_tokens import access_tokens, oauth
from tenancy.authn.own_tokens.stored_tokens import read_token
from tenancy.authn.requests import identify
from tenancy.models import AccessToken, ServiceAccount
from tenancy.services.access_tokens import rotate_token
from tenancy.services.users import create_service_account
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import Response, call
from tests.token_fixtures import TokenClient, new_token

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

TARGET = "/catalog/v1/oauth/tokens"
FORM = "application/x-www-form-urlencoded"
TYPE = "urn:ietf:params:oauth:token-type:"
ACCESS = f"{TYPE}access_token"


def ask(fields: Any, *, authorization: str | None = None, content_type: str = FORM) -> Response:
    headers = {"authorization": authorization} if authorization is not None else {}
    body = fields if isinstance(fields, bytes) else urlencode(fields).encode()
    response = call("POST", TARGET, body=body, headers=headers, content_type=content_type)
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Content-Type"] == "application/json"
    return response


def basic(name: str, secret: str) -> str:
    return f"Basic {base64.b64encode(f'{name}:{secret}'.encode()).decode()}"


def credentials(secret: str, client_id: str | None = None, **more: str) -> dict[str, str]:
    fields = {"grant_type": "client_credentials", "client_secret": secret, "scope": "catalog", **more}
    return fields if client_id is None else fields | {"client_id": client_id}


def exchange(token: str, **more: str) -> dict[str, str]:
    return {
        "grant_type": oauth.TOKEN_EXCHANGE, "subject_token": token, "subject_token_type": ACCESS, "scope": "catalog",
        **more,
    }  # fmt: skip


def granted(response: Response, scope: str = "catalog") -> str:
    assert response.status == 200, response.body
    content = response.json()
    token = content.pop("access_token")
    seconds = content.pop("expires_in")
    assert content == {"token_type": "bearer", "issued_token_type": ACCESS, "scope": scope}
    assert 0 < seconds <= 3600
    assert token.startswith("ika_")
    return str(token)


def refused(response: Response, code: str, text: str = "", *, status: int = 400) -> bool:
    content = response.json()
    assert content.keys() == {"error", "error_description"}
    assert (response.status, content["error"]) == (status, code), content
    assert text in content["error_description"], content
    assert ("WWW-Authenticate" in response.headers) == (status == 401)
    assert content["error_description"].isascii()
    assert not set(content["error_description"]) & set('"\\')
    return True


@pytest.fixture
def robot(access_tokens: None) -> ServiceAccount:
    return create_service_account(actor=INTERNAL, name="robot")


@pytest.fixture
def secret(robot: ServiceAccount) -> str:
    return new_token(robot.user_id)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    at = [time.time()]
    monkeypatch.setattr(time, "time", lambda: at[0])
    return at


# --- client credentials ------------------------------------------------------------------------------------------


def test_a_client_gets_a_token_that_opens_the_catalog(warehouse: Warehouse, robot: ServiceAccount, secret: str) -> None:
    token = granted(ask(credentials(secret, robot.user_id)))
    client = TokenClient(token, base="")
    assert client.get("/catalog/v1/config?warehouse=wh").status == 200
    assert client.get("/management/v1/info").refused(403, "InsufficientScope")
    assert identify(token).user_id == robot.user_id


def test_every_name_that_a_client_has(robot: ServiceAccount, secret: str) -> None:
    text = read_token(secret)
    assert text is not None
    for name in (robot.user_id, str(robot.pk), str(text.token_id), None, ""):
        granted(ask(credentials(secret, name)))
        granted(ask({"grant_type": "client_credentials", "scope": "catalog"}, authorization=basic(name or "", secret)))
    encoded = basic(quote(robot.user_id, safe="").replace("~", "%7E"), secret)
    granted(ask({"grant_type": "client_credentials", "scope": "catalog"}, authorization=encoded))
    user = new_token("local~alice")
    granted(ask(credentials(user, "local~alice")))


@pytest.mark.parametrize(
    ("held", "asked", "expected"),
    [
        (["catalog", "management"], None, "catalog management"),
        (["catalog", "management"], "", "catalog management"),
        (["catalog", "management"], "catalog", "catalog"),
        (["catalog", "management"], "management:read  catalog:read", "catalog:read management:read"),
        (["catalog:read"], "catalog", "catalog:read"),
        (["catalog:read", "management"], "catalog management:read", "catalog:read management:read"),
    ],
)
def test_scopes_are_the_requested_ones_that_the_secret_has(
    access_tokens: None, held: list[str], asked: str | None, expected: str
) -> None:
    fields = {"grant_type": "client_credentials", "client_secret": new_token(scopes=held)}
    token = granted(ask(fields if asked is None else fields | {"scope": asked}), expected)
    assert identify(token).scopes == frozenset(expected.split())


@pytest.mark.parametrize("asked", ["PRINCIPAL_ROLE:ALL", "catalog PRINCIPAL_ROLE:ALL", "Catalog", "management", "sign"])
def test_scopes_that_are_unknown_or_not_granted(access_tokens: None, asked: str) -> None:
    response = ask(credentials(new_token(scopes=["catalog"]), scope=asked))
    assert refused(response, "invalid_scope", "this client has catalog")


def test_secrets_that_are_refused(robot: ServiceAccount, secret: str, clock: list[float]) -> None:
    session = granted(ask(credentials(secret)))
    other = create_service_account(actor=INTERNAL, name="other")
    flipped = secret[:-10] + ("x" if secret[-10] != "x" else "y") + secret[-9:]
    wrong: list[tuple[str, str | None]] = [
        (flipped, robot.user_id),
        ("secret", robot.user_id),
        ("\x00", robot.user_id),
        ("é" * 76, robot.user_id),
        (session, robot.user_id),
        (secret, other.user_id),
        (secret, str(other.pk)),
        (secret, "icekeeper~"),
        (secret, "local~alice"),
        (secret, "x" * 10_000),
    ]
    for text, name in wrong:
        for response in (
            ask(credentials(text, name)),
            ask({"grant_type": "client_credentials"}, authorization=basic(name or "", text)),
        ):
            assert refused(response, "invalid_client", status=401)
            assert response.headers["WWW-Authenticate"] == 'Basic realm="icekeeper"'
    for change in ({"revoked_at": now()}, {"revoked_at": None, "expires_at": now()}):
        AccessToken.objects.update(**change)
        assert refused(ask(credentials(secret)), "invalid_client", status=401)


@pytest.mark.parametrize("header", ["Basic", "Basic !", "Basic eA==", "Basic /w==", "basic   "])
def test_headers_that_cannot_be_read(secret: str, header: str) -> None:
    response = ask({"grant_type": "client_credentials"}, authorization=header)
    assert refused(response, "invalid_client", status=401)


def test_a_client_must_show_a_secret_once(robot: ServiceAccount, secret: str) -> None:
    assert refused(ask({"grant_type": "client_credentials"}), "invalid_client", status=401)
    assert refused(ask(credentials("", robot.user_id)), "invalid_client", status=401)
    assert refused(ask(credentials(secret), authorization=basic("", secret)), "invalid_request", "not in both")
    granted(ask(credentials(secret), authorization=f"Bearer {secret}"))


def test_a_token_works_for_every_second_that_was_promised(secret: str, clock: list[float]) -> None:
    for fraction in (0.0, 0.001, 0.5, 0.999):
        clock[0] = int(clock[0]) + 10_000 + fraction
        response = ask(credentials(secret))
        token, seconds = granted(response), response.json()["expires_in"]
        clock[0] += seconds - 0.001
        assert identify(token).scopes == frozenset({"catalog"})
        clock[0] += 1.001
        assert refused(ask(exchange(token)), "invalid_request", "subject_token")


# --- token exchange ----------------------------------------------------------------------------------------------


def test_a_token_is_renewed(secret: str, clock: list[float]) -> None:
    first = granted(ask(credentials(secret)))
    clock[0] += 3000
    second = granted(ask(exchange(first), authorization=f"Bearer {first}"))
    clock[0] += 3000
    assert identify(second).scopes == frozenset({"catalog"})
    third = granted(ask(exchange(second, subject_token_type=f"{TYPE}jwt", requested_token_type=ACCESS)))
    assert refused(ask(exchange(first)), "invalid_request", "subject_token is invalid or has ended")
    assert identify(third).access_token_id == identify(second).access_token_id


def test_a_stored_token_is_exchanged_for_a_short_lived_one(secret: str) -> None:
    granted(ask(exchange(secret)))
    granted(ask(exchange(new_token("local~alice"), actor_token=secret, actor_token_type=ACCESS)))


def test_an_expired_token_is_renewed_for_a_client_with_its_secret(
    robot: ServiceAccount, secret: str, clock: list[float]
) -> None:
    first = granted(ask(credentials(secret, scope="catalog:read")), "catalog:read")
    clock[0] += 7200
    assert refused(ask(exchange(first)), "invalid_request", "subject_token")
    granted(ask(exchange(first), authorization=basic(robot.user_id, secret)), "catalog:read")
    alice = new_token("local~alice")
    response = ask(exchange(first), authorization=basic("local~alice", alice))
    assert refused(response, "invalid_request", "not issued for this client")
    forged = first[:-2] + ("xx" if first[-2:] != "xx" else "yy")
    response = ask(exchange(forged), authorization=basic(robot.user_id, secret))
    assert refused(response, "invalid_request", "subject_token")


def test_an_exchange_depends_on_the_secret_in_the_request(
    robot: ServiceAccount, secret: str, clock: list[float]
) -> None:
    """Another secret of the same client neither adds scopes nor renews an expired token."""
    narrow = new_token(robot.user_id, scopes=["catalog:read"])
    wide = granted(ask(credentials(secret, scope="catalog management")), "catalog management")
    for subject in (wide, secret):
        response = ask(exchange(subject), authorization=basic(robot.user_id, narrow))
        assert refused(response, "invalid_request", "not issued for this client")
    clock[0] += 7200
    assert refused(
        ask(exchange(wide), authorization=basic(robot.user_id, narrow)),
        "invalid_request",
        "not issued for this client secret",
    )
    granted(ask(exchange(wide), authorization=basic(robot.user_id, secret)))


def test_an_exchange_with_the_secret_that_replaced_the_first_one(robot: ServiceAccount, secret: str) -> None:
    row = AccessToken.objects.get()
    first = granted(ask(credentials(secret, scope="catalog management")), "catalog management")
    rotated = rotate_token(actor=INTERNAL, token_id=row.pk)
    AccessToken.objects.filter(pk=rotated.row.pk).update(scopes="catalog:read")
    response = ask(exchange(first, scope="catalog"), authorization=basic(robot.user_id, rotated.text))
    renewed = granted(response, "catalog:read")
    assert identify(renewed).access_token_id == rotated.row.pk
    assert refused(
        ask(exchange(renewed), authorization=basic("", secret)), "invalid_request", "not issued for this client"
    )


def test_renewal_without_the_secret_is_limited(robot: ServiceAccount, secret: str, clock: list[float]) -> None:
    start = clock[0] = float(int(clock[0]))
    token = granted(ask(credentials(secret)))
    for _ in range(14):
        clock[0] += 3000
        response = ask(exchange(token))
        token = granted(response)
        assert clock[0] + response.json()["expires_in"] <= start + 12 * 3600
    clock[0] = start + 12 * 3600 - 1
    assert identify(token).user_id == robot.user_id
    token = granted(ask(exchange(token)))
    clock[0] += 0.5
    assert refused(ask(exchange(token)), "invalid_request", "authenticate with the client secret")
    clock[0] += 0.5
    assert refused(ask(exchange(token)), "invalid_request", "has ended")
    response = ask(exchange(token), authorization=basic(robot.user_id, secret))
    assert identify(granted(response)).user_id == robot.user_id
    assert response.json()["expires_in"] == 3600


def test_how_long_renewal_needs_no_secret(secret: str, clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    shorter = {"oauth_session_lifetime": 90.0}
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update=shorter))
    clock[0] = float(int(clock[0]))
    response = ask(credentials(secret))
    assert response.json()["expires_in"] == 90
    clock[0] += 60
    assert ask(exchange(granted(response))).json()["expires_in"] == 30


def test_exchange_does_not_raise_scopes(secret: str) -> None:
    narrow = granted(ask(credentials(secret, scope="catalog:read")), "catalog:read")
    granted(ask(exchange(narrow, scope="catalog")), "catalog:read")
    assert refused(ask(exchange(narrow, scope="management")), "invalid_scope", "this client has catalog:read")
    granted(ask(exchange(narrow, scope="")), "catalog:read")


def test_renewed_tokens_expire_with_the_stored_token(secret: str) -> None:
    first = granted(ask(credentials(secret)))
    AccessToken.objects.update(revoked_at=now())
    assert refused(ask(exchange(first)), "invalid_request", "subject_token")
    assert refused(ask(exchange(secret)), "invalid_request", "subject_token")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"subject_token": None}, "must be sent together"),
        ({"subject_token_type": None}, "must be sent together"),
        ({"subject_token": None, "subject_token_type": None}, "subject_token is missing"),
        ({"subject_token_type": f"{TYPE}id_token"}, "exchanges only its own tokens"),
        ({"subject_token_type": f"{TYPE}saml2"}, "exchanges only its own tokens"),
        ({"subject_token_type": "token"}, "subject_token_type is unknown"),
        ({"subject_token": "eyJhbGciOiJSUzI1NiJ9.e30.x"}, "send a token of an identity provider directly"),
        ({"subject_token": "ika_x"}, "subject_token is invalid"),
        ({"actor_token": "ika_x", "actor_token_type": ACCESS}, "actor_token is invalid"),
        ({"actor_token": "eyJ.e30.x", "actor_token_type": ACCESS}, "actor_token was not issued by this server"),
        ({"actor_token": "ika_x"}, "must be sent together"),
        ({"actor_token_type": ACCESS}, "must be sent together"),
        ({"requested_token_type": f"{TYPE}refresh_token"}, "requested_token_type"),
    ],
)
def test_exchanges_that_are_refused(secret: str, change: dict[str, str | None], text: str) -> None:
    fields = {name: value for name, value in (exchange(secret) | change).items() if value is not None}
    assert refused(ask(fields), "invalid_request", text)


# --- the request itself ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b"", "invalid_request", "grant_type is missing"),
        (b"grant_type=", "invalid_request", "grant_type is missing"),
        (b"grant_type=password&username=a&password=b", "unsupported_grant_type", "client_credentials"),
        (b"grant_type=refresh_token", "unsupported_grant_type", "client_credentials"),
        (b"grant_type=client_credentials&grant_type=client_credentials", "invalid_request", "twice"),
        (b"client_secret=a&client_secret=b", "invalid_request", "twice"),
        (b"\xff", "invalid_request", "malformed"),
        (b"grant_type=%ff", "invalid_request", "malformed"),
        (b"a=b&" * 51, "invalid_request", "malformed"),
        (b"x" * 65_537, "invalid_request", "larger"),
        (b'{"grant_type": "client_credentials"}', "invalid_request", "grant_type is missing"),
    ],
)
def test_bodies_that_are_refused(access_tokens: None, body: bytes, code: str, text: str) -> None:
    assert refused(ask(body), code, text)


def test_a_body_that_is_too_large_is_not_read(access_tokens: None, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(return_value=b"")
    monkeypatch.setattr(MeasuredBody, "read", read)
    assert refused(ask(b"x" * 65_537), "invalid_request", "larger")
    read.assert_not_called()


def test_the_body_is_a_form(secret: str) -> None:
    for content_type in ("application/json", "", "multipart/form-data; boundary=x"):
        assert refused(ask(credentials(secret), content_type=content_type), "invalid_request", "must be application")
    granted(ask(credentials(secret), content_type=f"{FORM}; charset=UTF-8"))


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods(access_tokens: None, method: str) -> None:
    response = call(method, TARGET)
    assert response.status == 405
    assert response.headers["Allow"] == "POST"


def test_no_token_is_issued_where_tokens_are_not_accepted(db: None) -> None:
    assert refused(ask(credentials("x")), "unsupported_grant_type", "ICEKEEPER__ACCESS_TOKENS")


def test_nothing_is_changed_and_maintenance_does_not_matter(
    warehouse: Warehouse, secret: str, everything: Callable[[], Fingerprint], monkeypatch: pytest.MonkeyPatch
) -> None:
    read_only = {"maintenance_mode": "read-only"}
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update=read_only))
    before = everything()
    granted(ask(credentials(secret)))
    assert everything() == before


def test_an_unavailable_database(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> None:
        raise OperationalError("away")

    monkeypatch.setattr("tenancy.authn.own_tokens.stored_tokens.fetch_one", away)
    response = ask(credentials(secret))
    assert (response.status, response.json()["error"], response.headers["Retry-After"]) == (503, "server_error", "2")


def test_the_lifetime_of_issued_tokens(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shorter = {"oauth_token_lifetime": 60.0}
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update=shorter))
    assert ask(credentials(secret)).json()["expires_in"] == 60


def test_no_secret_is_written_anywhere(secret: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        token = granted(ask(credentials(secret)))
        damaged = secret[:-10] + "0000000000"
        forged = token[:-5] + "00000"
        responses = [
            ask(credentials(damaged)),
            ask(exchange(forged)),
            ask({"grant_type": "x", "client_secret": secret}, authorization="Basic " + "x" * 40),
            ask(credentials(secret, "local~unknown")),
            TokenClient(forged).get("/token"),
        ]
    written = caplog.text + "".join(repr(record.__dict__) for record in caplog.records)
    written += "".join(str(response.body) + str(response.headers) for response in responses)
    assert str(access_tokens._keys()[0].as_dict()["k"]) not in written
    for text in (secret[27:60], token.split(".")[2][:30], token.split(".")[1]):
        assert text not in written
    assert "a client was rejected" in written
    assert "a token exchange was rejected" in written
