"""A provider that hangs during a flood of tokens with unknown key ids does not stop the server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from icekeeper.server.request_threads import MAX_EXTRA_THREADS
from tests.harness.identity_provider import DISCOVERY, KEYS, IdentityProvider, hangs, running
from tests.harness.run_environment import RunEnvironment
from tests.parts.server import CatalogServer
from tests.server.raw_client_fixtures import RawClient, RawResponse

INFO = "/management/v1/info"
THREADS = 4
FLOOD = 2 * (THREADS + MAX_EXTRA_THREADS) + 10
"""Concurrent requests: more than a process has threads, extra threads included."""
TIMEOUT = 8
"""Timeout of one fetch, of which there are two; a queued request waits at most 5 s."""


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    yield from running()


@pytest.fixture
def server(
    provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory, run_environment: RunEnvironment
) -> Iterator[CatalogServer]:
    url = run_environment.own_database("outages")
    settings = {
        "LAKEKEEPER__OPENID_PROVIDER_URI": provider.address,
        "ICEKEEPER__AUTHENTICATION__TIMEOUT": f"{TIMEOUT}s",
    }
    home = tmp_path_factory.mktemp("outages")
    with CatalogServer(home, database_url=url, threads=THREADS, settings=settings) as catalog:
        yield catalog


def get(server: CatalogServer, token: str | None = None, target: str = INFO) -> tuple[RawResponse, float]:
    """The response and its duration in seconds."""
    began = time.monotonic()
    with RawClient(server.port) as client:
        response = client.get(target, *([] if token is None else [f"Authorization: Bearer {token}"]))
    return response, time.monotonic() - began


def unknown(provider: IdentityProvider, name: object, **claims: str) -> str:
    """A token with an unknown key id, which every client can create."""
    return provider.sign({"kid": f"unknown-{name}"}, provider.claims(**claims))


def wait_for_a_look(server: CatalogServer, provider: IdentityProvider) -> None:
    """Send tokens with unknown key ids until the server fetches keys from the provider, which then hangs."""
    asked = provider.asked[DISCOVERY]
    for attempt in range(300):
        with RawClient(server.port) as client:
            client.send(request(unknown(provider, f"first-{attempt}")))
            time.sleep(0.1)
        if provider.asked[DISCOVERY] > asked:
            return
    raise AssertionError("it never looks")


def request(token: str) -> bytes:
    return f"GET {INFO} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n\r\n".encode()


def test_a_hanging_provider_and_a_flood_of_unknown_keys_stop_no_other_user(
    server: CatalogServer, provider: IdentityProvider
) -> None:
    anna = provider.token()
    assert get(server, anna)[0].status == 200
    tokens = [
        *(unknown(provider, number) for number in range(FLOOD // 2)),
        *(provider.token(iss=f"https://{number}.example") for number in range(FLOOD // 2)),
    ]
    provider.misbehave = {DISCOVERY: hangs(provider), KEYS: hangs(provider)}
    wait_for_a_look(server, provider)
    with ExitStack() as stack:
        flood = [stack.enter_context(RawClient(server.port)) for _ in tokens]
        for client, token in zip(flood, tokens, strict=True):
            client.send(request(token))
        for _ in range(10):
            (known, known_took), (health, health_took) = get(server, anna), get(server, target="/health")
            assert (known.status, health.status) == (200, 200)
            assert max(known_took, health_took) < TIMEOUT / 2, "it waited for the provider"
            time.sleep(0.2)
        responses = [client.response() for client in flood]
    said = {(response.status, response.error_type, response.headers.get("Retry-After")) for response in responses}
    assert said == {(503, "IdentityProviderUnavailable", "5"), (401, "AuthenticationFailed", None)}
    assert "Traceback" not in server.log_path.read_text()
    lines = [*server.log_lines("icekeeper.authn"), *server.log_lines("icekeeper.errors")]
    loud = [(line["level"], line["message"]) for line in lines if line["level"] != "INFO"]
    assert {level for level, _ in loud} == {"WARNING"}
    assert len(loud) <= 2, "only those of the refresh, one per document"
