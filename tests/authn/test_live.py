"""Authentication of a running server, over real sockets."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from django.conf import settings

from icekeeper.conf.environment import read_settings
from management.management.commands.serve import Command
from tenancy.authn.own_tokens.access_tokens import AccessTokenAuthenticator
from tests.harness.identity_provider import DISCOVERY, KEYS, IdentityProvider, running
from tests.harness.run_environment import RunEnvironment
from tests.parts.server import ROOT, CatalogServer
from tests.server.raw_client_fixtures import RawClient, RawResponse

INFO = "/management/v1/info"


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    yield from running()


@pytest.fixture(scope="module")
def server(
    provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory, run_environment: RunEnvironment
) -> Iterator[CatalogServer]:
    url = run_environment.own_database("authenticated")
    settings = provider.settings | {"ICEKEEPER__AUTHENTICATION__TIMEOUT": "2s"}
    with CatalogServer(tmp_path_factory.mktemp("authenticated"), database_url=url, settings=settings) as catalog:
        yield catalog


def get(server: CatalogServer, *headers: str, target: str = INFO) -> RawResponse:
    with RawClient(server.port) as client:
        return client.get(target, *headers)


def test_with_and_without_a_token(server: CatalogServer, provider: IdentityProvider) -> None:
    response = get(server)
    assert (response.status, response.error_type) == (401, "MissingAuthorizationHeader")
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert get(server, f"Authorization: Bearer {provider.token()}").status == 200
    assert get(server, f"authorization: bearer {provider.token()}").status == 200
    health = get(server, "x-icekeeper-extensions: true", target="/health")
    assert (health.status, health.json["authentication"]) == (200, "on")
    said = server.log_path.read_text()
    assert "authentication is OFF" not in said
    assert "authentication is on: the identity provider oidc" in said


def test_the_keys_were_fetched_before_the_processes_began(server: CatalogServer, provider: IdentityProvider) -> None:
    for number in range(10):
        assert get(server, f"Authorization: Bearer {provider.token(sub=f'user-{number}')}").status == 200
    assert provider.asked == {DISCOVERY: 1, KEYS: 1}


def test_two_authorization_headers(server: CatalogServer, provider: IdentityProvider) -> None:
    header, other = (f"Authorization: Bearer {provider.token(sub=who)}" for who in ("anna", "root"))
    for headers in (
        (header, other),
        (header, header),
        (header, "Authorization: Basic YTpi"),
        (header, "authorization: x"),
    ):
        response = get(server, *headers)
        assert (response.status, response.error_type) == (401, "AuthenticationFailed")
    response = get(server, "Authorization: Basic YTpi", header)
    assert (response.status, response.error_type) == (401, "MissingAuthorizationHeader")


def test_odd_headers(server: CatalogServer, provider: IdentityProvider) -> None:
    token = provider.token()
    for text in (f"Bearer {token}\u00e4", "Bearer \u00fc", "Bearer " + "\u00ff" * 5000, f"Bearer {token} x"):
        response = get(server, f"Authorization: {text}")
        assert (response.status, response.error_type) == (401, "AuthenticationFailed")
        assert response.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'
    assert get(server, "Authorization: Bearer").status == 401


def test_a_token_of_a_megabyte(server: CatalogServer) -> None:
    assert get(server, "Authorization: Bearer " + "x" * 20_000).status == 401
    # The server may close the connection early.
    with RawClient(server.port) as client, suppress(ConnectionError, EOFError):
        assert client.get(INFO, "Authorization: Bearer " + "x" * 1_000_000).status == 431
    assert get(server, target="/health").status == 200


def test_tokens_are_nowhere_in_the_log(server: CatalogServer, provider: IdentityProvider) -> None:
    good, bad = provider.token(sub="log"), provider.token(exp=1, sub="bad")
    assert get(server, f"Authorization: Bearer {good}").status == 200
    assert get(server, f"Authorization: Bearer {bad}").status == 401
    until, lines = time.monotonic() + 30, ('"user":"oidc~log"', "it has expired")
    while not all(line in (said := server.log_path.read_text()) for line in lines):  # logged after the response is sent
        assert time.monotonic() < until, said[-3000:]
        time.sleep(0.02)
    for token in (good, bad):
        assert not [part for part in token.split(".")[1:] if part in said]


def _serve(server: CatalogServer, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "manage.py", "serve", "--without-worker"],
        env=server.environment | settings, cwd=server.home, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_start_is_refused_without_the_provider(server: CatalogServer) -> None:
    done = _serve(server, LAKEKEEPER__OPENID_PROVIDER_URI="http://127.0.0.1:1/realms/x")
    assert done.returncode == 1
    assert (
        "CommandError: no user could be authenticated: the identity provider oidc: http://127.0.0.1:1/realms/x"
        in done.stderr
    )
    assert "Traceback" not in done.stderr
    assert "Icekeeper is serving" not in done.stdout


def test_the_start_is_refused_with_settings_that_cannot_be(server: CatalogServer) -> None:
    done = _serve(server, LAKEKEEPER__OPENID_DISPLAY_NAME_TEMPLATE="{given")
    assert done.returncode == 1
    assert "LAKEKEEPER__OPENID_DISPLAY_NAME_TEMPLATE got '{given'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_start_warns_of_a_provider_without_an_audience(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("management.management.commands.serve.connect_providers", lambda: None)
    monkeypatch.setattr("management.management.commands.serve.authenticators", lambda: [AccessTokenAuthenticator()])
    given = {"LAKEKEEPER__OPENID_PROVIDER_URI": "https://idp.example/realms/x"}
    for audience, expected in (("", ["LAKEKEEPER__OPENID_AUDIENCE"]), ("icekeeper", None)):
        caplog.clear()
        own, _ = read_settings({**given, "LAKEKEEPER__OPENID_AUDIENCE": audience})
        monkeypatch.setattr(settings, "ICEKEEPER", own)
        Command()._connect_providers()
        warnings = [record for record in caplog.records if record.levelname == "WARNING"]
        assert [vars(record)["variables"] for record in warnings] == ([] if expected is None else [expected])
        assert all("set LAKEKEEPER__OPENID_AUDIENCE" in record.getMessage() for record in warnings)
