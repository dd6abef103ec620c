"""Tokens of Kubernetes service accounts.

`FakeKubernetesApi` follows the documentation of the API server. It cannot show how a real one differs: the audiences
that it returns, the RBAC rules that it requires, its issuer, and its response for deleted accounts.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import logging
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.db import connections
from joserfc.jwk import ECKey

from icekeeper.kernel.threads import MAX_LONG_WAITERS, MAX_SHORT_WAITERS
from tenancy.actor import AuthenticationFailed
from tenancy.authn.authenticator import Authenticator, ProviderUnavailable
from tenancy.authn.kubernetes import MAX_REJECTED, MAX_REVIEWS, MAX_UNPROVEN_REVIEWS, MAX_UNPROVEN_WAITING
from tenancy.authn.oidc import authenticators as jwks
from tenancy.authn.providers import ProvidersUnreachable, connect_providers
from tenancy.authn.requests import identify, verified_tokens
from tests.authn.conftest import Ask, SwitchOn, refused
from tests.harness.identity_provider import IdentityProvider, sign

pytestmark = pytest.mark.django_db

AUDIENCE = "https://kubernetes.default.svc"
UID, USERNAME = "8f7a2c1e-5b7e-4d0e-9a43-1f4b7f6f0f10", "system:serviceaccount:engines:spark"
PROVEN, UNPROVEN = (
    MAX_REVIEWS + MAX_SHORT_WAITERS + MAX_LONG_WAITERS,
    MAX_UNPROVEN_REVIEWS + MAX_UNPROVEN_WAITING + MAX_LONG_WAITERS,
)
"""Tokens that may be under review or wait for it."""
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that the client closed because it does not trust the certificate."""


class FakeKubernetesApi:
    """A Kubernetes API that reviews tokens and publishes keys; `status` is the review result.

    `shown` lists the tokens of authenticated requests, `reviewed` the specs of token reviews.
    """

    def __init__(self, home: Path) -> None:
        self.key = ECKey.generate_key("P-256")
        self.token_file, self.ca_file = home / "token", home / "ca.crt"
        self.token_file.write_text("pod-token-1\n")
        self.shown: list[str | None] = []
        self.reviewed: list[dict[str, Any]] = []
        self.http_status = 201
        self.hangs = False
        self.stopping = threading.Event()
        self.status: dict[str, Any] = {
            "authenticated": True,
            "audiences": [AUDIENCE],
            "user": {"uid": UID, "username": USERNAME, "groups": ["system:serviceaccounts"], "extra": {}},
        }
        self._server = _Server(("127.0.0.1", 0), _handler_of(self))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self._create_certificate(home))
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"https://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()

    def variables(self, **more: str) -> dict[str, str]:
        return {
            "LAKEKEEPER__ENABLE_KUBERNETES_AUTHENTICATION": "true",
            "LAKEKEEPER__KUBERNETES_AUTHENTICATION_AUDIENCE": AUDIENCE,
            "ICEKEEPER__KUBERNETES__API_URL": self.address,
            "ICEKEEPER__KUBERNETES__CA_FILE": str(self.ca_file),
            "ICEKEEPER__KUBERNETES__TOKEN_FILE": str(self.token_file),
            "ICEKEEPER__AUTHENTICATION__TIMEOUT": "1s",
        } | more

    def token(self, **changed: Any) -> str:
        """A service-account token as Kubernetes mounts it in a pod, without the claims that are None."""
        now = int(time.time())
        account = {"namespace": "engines", "serviceaccount": {"name": "spark", "uid": UID}}
        usual = {"iss": AUDIENCE, "aud": [AUDIENCE], "sub": USERNAME, "iat": now, "exp": now + 600}
        claims = usual | {"kubernetes.io": account} | changed
        return sign('{"alg":"ES256","kid":"cluster"}', {n: v for n, v in claims.items() if v is not None}, self.key)

    def response(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        if path == REVIEWS:
            review = json.loads(body)
            self.reviewed.append(review["spec"])
            return self.http_status, review | {"status": self.status}
        if path == "/.well-known/openid-configuration":
            return 200, {"issuer": AUDIENCE, "jwks_uri": "https://192.0.2.1/openid/v1/jwks"}
        if path == "/openid/v1/jwks":
            return 200, {"keys": [self.key.as_dict(private=False, kid="cluster", use="sig", alg="ES256")]}
        return 404, {}

    def _create_certificate(self, home: Path) -> Path:
        """Create a self-signed certificate for 127.0.0.1, in one file with its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
        now = dt.datetime.now(dt.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
            )
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        self.ca_file.write_bytes(pem)
        both = home / "server.pem"
        both.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + pem
        )
        return both


def _handler_of(api: FakeKubernetesApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._response(b"")

        def do_POST(self) -> None:
            self._response(self.rfile.read(int(self.headers["Content-Length"])))

        def _response(self, body: bytes) -> None:
            api.shown.append(self.headers["Authorization"])
            if api.hangs:
                api.stopping.wait()
                return
            status, document = api.response(self.path, body)
            text = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@pytest.fixture
def api(tmp_path: Path) -> Iterator[FakeKubernetesApi]:
    home = tmp_path / "kubernetes"
    home.mkdir()
    fake = FakeKubernetesApi(home)
    yield fake
    fake.stop()


@pytest.fixture
def reviewing(switch_on: SwitchOn, api: FakeKubernetesApi) -> tuple[Authenticator, ...]:
    return switch_on(**api.variables())


# --- TokenReview -----------------------------------------------------------------------------------------------------


def test_a_service_account(reviewing: Any, api: FakeKubernetesApi, ask: Ask) -> None:
    token = api.token()
    assert ask(token).status == 200
    identity = identify(token)
    assert (identity.user_id, identity.name, identity.user_type) == (f"kubernetes~{UID}", USERNAME, "application")
    assert api.reviewed == [{"token": token, "audiences": [AUDIENCE]}]  # one review, then the cache
    assert set(api.shown) == {"Bearer pod-token-1"}


def test_our_own_token_is_read_again(reviewing: Any, api: FakeKubernetesApi, ask: Ask) -> None:
    assert ask(api.token()).status == 200
    api.token_file.write_text("pod-token-2\n")
    verified_tokens.clear()
    assert ask(api.token()).status == 200
    assert [api.shown[0], api.shown[-1]] == ["Bearer pod-token-1", "Bearer pod-token-2"]


def test_accounts_by_their_names(switch_on: SwitchOn, api: FakeKubernetesApi) -> None:
    switch_on(**api.variables(LAKEKEEPER__KUBERNETES_AUTHENTICATION_SUBJECT_SOURCE="username"))
    assert identify(api.token()).user_id == f"kubernetes~{USERNAME}"


STATUSES: list[Any] = [
    None, {}, "yes", {"authenticated": False}, {"authenticated": "true"}, {"authenticated": 1},
    {"authenticated": True, "error": "expired"}, {"authenticated": True, "audiences": ["others"]},
    {"authenticated": True, "audiences": []}, {"authenticated": True}, {"authenticated": True, "audiences": "x"},
    {"authenticated": True, "audiences": [AUDIENCE]}, {"authenticated": True, "audiences": [AUDIENCE], "user": {}},
    {"authenticated": True, "audiences": [AUDIENCE], "user": {"uid": "", "username": USERNAME}},
    {"authenticated": True, "audiences": [AUDIENCE], "user": {"uid": 7, "username": USERNAME}},
    {"authenticated": True, "audiences": [AUDIENCE], "user": []},
]  # fmt: skip


@pytest.mark.parametrize("status", STATUSES, ids=str)
def test_tokens_that_the_api_does_not_accept(status: Any, reviewing: Any, api: FakeKubernetesApi, ask: Ask) -> None:
    api.status = status
    assert refused(ask(api.token()))
    assert len(api.reviewed) == 1


def test_unneeded_reviews_are_not_requested(reviewing: Any, api: FakeKubernetesApi, ask: Ask) -> None:
    expired, others = api.token(exp=int(time.time()) - 120), api.token(aud=["others"])
    for token in (expired, others, "opaque", "a.b.c", "x" * 20_000):
        assert refused(ask(token))
    assert api.reviewed == []


@pytest.mark.parametrize("status", [302, 401, 403, 404, 500])
def test_an_api_that_responds_otherwise(
    status: int, reviewing: Any, api: FakeKubernetesApi, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    api.http_status = status
    token = api.token()
    assert ask(token).refused(503, "IdentityProviderUnavailable")
    said = "\n".join(str(record.__dict__) for record in caplog.records)
    assert "Kubernetes: the token review failed" in said
    for secret in (*token.split("."), "pod-token-1"):
        assert secret not in said
    api.http_status = 201
    assert ask(token).status == 200


def test_an_api_that_hangs(reviewing: Any, api: FakeKubernetesApi, ask: Ask) -> None:
    api.hangs = True
    assert ask(api.token()).refused(503, "IdentityProviderUnavailable")


@pytest.mark.parametrize(("key_id", "most"), [("unknown", UNPROVEN), ("cluster", PROVEN)])
def test_a_flood_does_not_wait_for_an_api_that_hangs(
    key_id: str, most: int, reviewing: Any, api: FakeKubernetesApi, ask: Ask
) -> None:
    assert ask(api.token()).status == 200  # the keys of the cluster are known
    claims = {"iss": AUDIENCE, "aud": [AUDIENCE], "sub": USERNAME, "exp": int(time.time()) + 600}
    head = f'{{"alg":"ES256","kid":"{key_id}"}}'
    tokens = [sign(head, claims | {"jti": str(number)}, api.key) for number in range(most + 20)]
    api.hangs = True

    def refused_after(token: str) -> float:
        began = time.monotonic()
        try:
            with pytest.raises(ProviderUnavailable):
                identify(token)
        finally:
            connections.close_all()  # connections of this thread
        return time.monotonic() - began

    with ThreadPoolExecutor(len(tokens)) as pool:
        took = sorted(pool.map(refused_after, tokens))
    assert took[19] < 0.8
    assert took[-1] >= 1.0  # the timeout


def test_junk_is_not_shown_to_the_api_server(reviewing: Any, api: FakeKubernetesApi, ask: Ask) -> None:
    good, others = api.token(), ECKey.generate_key("P-256")
    api.key, published = others, api.key
    forged = api.token()
    api.key = published
    assert refused(ask(forged))  # the named key has not signed it
    assert api.reviewed == []
    usual, api.status = api.status, {"authenticated": False}
    claims = {"iss": AUDIENCE, "aud": [AUDIENCE], "sub": "x", "exp": int(time.time()) + 600}
    for number in range(MAX_REJECTED + 10):
        response = ask(sign(f'{{"alg":"ES256","kid":"unknown-{number}"}}', claims, others))
        if number < MAX_REJECTED:
            assert refused(response)
        else:
            assert response.refused(503, "IdentityProviderUnavailable")
    assert len(api.reviewed) == MAX_REJECTED
    api.status = usual
    assert ask(good).status == 200  # a token with a valid signature of the cluster is not limited


def test_the_certificate_is_checked(switch_on: SwitchOn, api: FakeKubernetesApi, tmp_path: Path, ask: Ask) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    impostor = FakeKubernetesApi(elsewhere)
    switch_on(**api.variables(ICEKEEPER__KUBERNETES__CA_FILE=str(impostor.ca_file)))
    assert ask(api.token()).refused(503, "IdentityProviderUnavailable")
    assert api.shown == []  # our token was not sent
    impostor.stop()


def test_without_an_audience_every_token_is_reviewed(switch_on: SwitchOn, api: FakeKubernetesApi) -> None:
    switch_on(**api.variables(LAKEKEEPER__KUBERNETES_AUTHENTICATION_AUDIENCE=""))
    token = api.token(aud=["others"])
    assert identify(token).user_id == f"kubernetes~{UID}"
    assert api.reviewed == [{"token": token}]


def test_old_tokens_without_audience_and_end(switch_on: SwitchOn, api: FakeKubernetesApi) -> None:
    old = api.token(iss="kubernetes/serviceaccount", aud=None, exp=None, iat=None)
    switch_on(**api.variables())
    with pytest.raises(AuthenticationFailed):
        identify(old)
    switch_on(**api.variables(LAKEKEEPER__KUBERNETES_AUTHENTICATION_ACCEPT_LEGACY_SERVICEACCOUNT="true"))
    assert identify(old).user_id == f"kubernetes~{UID}"
    assert api.reviewed == [{"token": old}]
    with pytest.raises(AuthenticationFailed):
        identify(api.token(iss="https://elsewhere", aud=None))


def test_the_start_fails_without_the_files_of_a_pod(
    switch_on: SwitchOn, api: FakeKubernetesApi, tmp_path: Path
) -> None:
    missing = str(tmp_path / "missing")
    for variable in ("ICEKEEPER__KUBERNETES__TOKEN_FILE", "ICEKEEPER__KUBERNETES__CA_FILE"):
        switch_on(**api.variables(**{variable: missing}))
        with pytest.raises(ProvidersUnreachable, match=r"Kubernetes: .*missing"):
            connect_providers()


# --- verification with the keys of the cluster -----------------------------------------------------------------------


@pytest.fixture
def keys(switch_on: SwitchOn, api: FakeKubernetesApi, monkeypatch: pytest.MonkeyPatch) -> tuple[Authenticator, ...]:
    monkeypatch.setattr(jwks, "REFRESH_PAUSE_SECONDS", 0.0)
    return switch_on(**api.variables(ICEKEEPER__KUBERNETES__METHOD="jwks"))


def test_a_service_account_verified_here(keys: Any, api: FakeKubernetesApi, ask: Ask) -> None:
    connect_providers()
    for number in range(5):
        assert ask(api.token(jti=str(number))).status == 200
    assert api.reviewed == []
    assert len(api.shown) == 2
    identity = identify(api.token())
    assert (identity.user_id, identity.name, identity.user_type) == (f"kubernetes~{UID}", USERNAME, "application")
    assert identity.audiences == (AUDIENCE,)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": None}, {"exp": 1}, {"aud": ["others"]}, {"aud": None}, {"iss": "https://elsewhere"},
        {"kubernetes.io": None}, {"kubernetes.io": []}, {"kubernetes.io": {"serviceaccount": {}}},
        {"kubernetes.io": {"serviceaccount": {"uid": 7}}}, {"kubernetes.io": {"serviceaccount": {"uid": ""}}},
    ],
    ids=str,
)  # fmt: skip
def test_tokens_that_are_not_accepted_here(claims: dict[str, Any], keys: Any, api: FakeKubernetesApi, ask: Ask) -> None:
    assert refused(ask(api.token(**claims)))
    assert api.reviewed == []


def test_a_forged_service_account(keys: Any, api: FakeKubernetesApi, ask: Ask) -> None:
    good = api.token()
    api.key, published = ECKey.generate_key("P-256"), api.key
    forged = api.token()
    api.key = published
    assert refused(ask(forged))
    assert ask(good).status == 200


# --- several authenticators ------------------------------------------------------------------------------------------


def test_a_provider_and_kubernetes_at_once(
    switch_on: SwitchOn, api: FakeKubernetesApi, provider: IdentityProvider
) -> None:
    found = switch_on(
        **api.variables(
            LAKEKEEPER__OPENID_PROVIDER_URI=provider.address,
            LAKEKEEPER__OPENID_PROVIDERS__ZETA__URI="https://zeta.example",
            LAKEKEEPER__OPENID_PROVIDERS__ALPHA__URI="https://alpha.example",
            LAKEKEEPER__KUBERNETES_AUTHENTICATION_ACCEPT_LEGACY_SERVICEACCOUNT="true",
        )
    )
    names = ["oidc", "alpha", "zeta"]
    assert [each.name for each in found] == [
        *(f"the identity provider {name}" for name in names), "Kubernetes", "Kubernetes (legacy)",
        "access tokens",
    ]  # fmt: skip
    switch_on(**api.variables(LAKEKEEPER__OPENID_PROVIDER_URI=provider.address))
    assert identify(provider.token()).user_id == "oidc~anna"
    assert api.reviewed == []
    assert identify(api.token()).user_id == f"kubernetes~{UID}"


def test_kubernetes_tokens_are_accepted_while_the_provider_is_down(
    switch_on: SwitchOn, api: FakeKubernetesApi, provider: IdentityProvider
) -> None:
    switch_on(**api.variables(LAKEKEEPER__OPENID_PROVIDER_URI=provider.address))
    provider.is_down = True
    assert identify(api.token()).user_id == f"kubernetes~{UID}"
    assert provider.asked.total() == 0
    with pytest.raises(ProviderUnavailable):
        identify(provider.token())
