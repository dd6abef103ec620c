"""Temporary tokens of Google Cloud Storage, against a fake of Google's two token services.

The requests, the boundary and the parsing of responses are proved. Not proved: that Google accepts them and that the
token is limited to one folder, as no emulator of Cloud Storage checks tokens.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from joserfc import jwt
from joserfc.jwk import RSAKey

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import InvalidLocation
from storage.credentials import GcsServiceAccount, read_credential
from storage.errors import StoreUnavailable
from storage.identity.google import GoogleResponse, GoogleTransport
from storage.identity.keys import CredentialNotIssued
from storage.profiles.gcs import GcsProfile
from storage.profiles.kinds import read_profile
from storage.vending import gcs_boundary
from storage.vending.delegation import FileAccess, Vended
from storage.vending.gcs_boundary import access_boundary, cel_string
from tests.storage.vending.fake_service import FakeService, Said, said
from tests.storage.vending.folder_name_fixtures import PLAIN, UNICODE, folders

pytestmark = pytest.mark.django_db

TOKENS, EXCHANGE = "/token", "/v1/token"
GOOD = said({"access_token": "canary-source", "expires_in": 3599, "token_type": "Bearer"})
VENDED = said({
    "access_token": "vended-token", "expires_in": 1800, "token_type": "Bearer",
    "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
})  # fmt: skip


class ToTheFake(GoogleTransport):
    """Send requests for Google to the fake; otherwise unchanged."""

    def __init__(self, service: FakeService) -> None:
        self.service = service
        self.hosts: list[str] = []

    def __call__(self, url: str, *rest: Any, **more: Any) -> GoogleResponse:
        host, path = re.fullmatch(r"(https?://[^/]+)(/.*)", url).groups()  # type: ignore[union-attr]
        self.hosts.append(host)
        return super().__call__(f"{self.service.address}{path}", *rest, **more)


@lru_cache(maxsize=1)
def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def key_file(**changed: str) -> dict[str, str]:
    pem = private_key().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account", "project_id": "my-project", "private_key_id": "k1", "private_key": pem.decode(),
        "client_email": "lake@my-project.iam.gserviceaccount.com", "client_id": "1", "auth_uri": "https://x/auth",
        "token_uri": "https://oauth2.googleapis.com/token", "auth_provider_x509_cert_url": "https://x/certs",
        "client_x509_cert_url": "https://x/cert", "universe_domain": "googleapis.com",
    } | changed  # fmt: skip


def ask(
    service: FakeService, location: str = "gs://lake/wh/t1", rights: FileAccess = FileAccess.READ, **changed: str
) -> tuple[Vended, list[str]]:
    document = {"type": "gcs", "credential-type": "service-account-key", "key": key_file(**changed)}
    credential = read_credential(document)
    profile = read_profile({"type": "gcs", "bucket": "lake", "key-prefix": "wh"}, credential)
    assert isinstance(credential, GcsServiceAccount)
    assert isinstance(profile, GcsProfile)
    transport = ToTheFake(service)
    vended = gcs_boundary.issue(profile, credential, location=location, rights=rights, request=transport)
    return vended, transport.hosts


@pytest.fixture(autouse=True)
def responses(service: FakeService) -> Mapping[str, list[Said]]:
    service.responses = {TOKENS: [GOOD], EXCHANGE: [VENDED]}
    return service.responses


def rule(boundary: dict[str, Any]) -> dict[str, Any]:
    (only,) = boundary["accessBoundary"]["accessBoundaryRules"]
    return dict(only)


@pytest.mark.parametrize(("rights", "role"), [(FileAccess.READ, "objectViewer"), (FileAccess.READ_WRITE, "objectUser")])
def test_the_request_and_the_vended_config(service: FakeService, rights: FileAccess, role: str) -> None:
    vended, hosts = ask(service, rights=rights)
    assert vended.config == {"gcs.oauth2.token": "vended-token", "gcs.project-id": "my-project"}
    assert abs(vended.expires_at - now() - timedelta(seconds=1800)) < timedelta(seconds=10)
    assert "vended-token" not in repr(vended)
    assert hosts == ["https://oauth2.googleapis.com", "https://sts.googleapis.com"]
    first, second = service.asked
    assert (first.method, first.path, second.method, second.path) == ("POST", TOKENS, "POST", EXCHANGE)
    assert first.form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    claims = jwt.decode(first.form["assertion"], RSAKey.import_key(private_key().public_key())).claims
    assert claims["iss"] == "lake@my-project.iam.gserviceaccount.com"
    assert claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
    form = second.form
    options = json.loads(unquote(form.pop("options")))
    assert form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "subject_token": "canary-source",
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
    }
    assert rule(options) == {
        "availableResource": "//storage.googleapis.com/projects/_/buckets/lake",
        "availablePermissions": [f"inRole:roles/storage.{role}"],
        "availabilityCondition": {
            "title": "one folder",
            "expression": "resource.name.startsWith('projects/_/buckets/lake/objects/wh/t1/')"
            " || resource.name.startsWith('projects/_/buckets/lake/folders/wh/t1/')"
            " || api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith('wh/t1/')",
        },
    }


def test_without_a_life_of_its_own_the_token_ends_with_the_one_it_was_exchanged_for(service: FakeService) -> None:
    service.responses[EXCHANGE] = [said({"access_token": "vended-token"})]
    vended, _ = ask(service)
    assert abs(vended.expires_at - now() - timedelta(seconds=3599)) < timedelta(seconds=10)


@pytest.mark.parametrize(
    "location", ["gs://lake/wh", "gs://lake/wh/", "gs://lake/wh2/t", "gs://lake2/wh/t", "gs://lake/", "s3://lake/wh/t"]
)
def test_nothing_is_requested_outside_the_warehouse(service: FakeService, location: str) -> None:
    with pytest.raises(InvalidLocation):
        ask(service, location)
    assert service.asked == []


def test_the_whole_bucket_is_rejected_as_folder() -> None:
    with pytest.raises(ValueError, match="whole bucket"):
        access_boundary("lake", "", FileAccess.READ)


LITERAL = r"'((?:[^'\\]|\\['\\])*)'"
"""A string of CEL with the escapes that are used here."""


def read_literals(expression: str) -> tuple[str, str, str]:
    """Return the three prefixes of a condition, which must be a choice of exactly three."""
    found = re.fullmatch(
        rf"resource\.name\.startsWith\({LITERAL}\) \|\| resource\.name\.startsWith\({LITERAL}\) \|\| "
        rf"api\.getAttribute\('storage\.googleapis\.com/objectListPrefix', ''\)\.startsWith\({LITERAL}\)",
        expression,
        re.DOTALL,
    )
    assert found is not None, expression
    objects, folders_, listed = (re.sub(r"\\(.)", r"\1", literal) for literal in found.groups())
    return objects, folders_, listed


@given(folders("'\\$*?%\"" + PLAIN + UNICODE))
def test_no_name_gets_out_of_its_string(folder: str) -> None:
    boundary = access_boundary("lake", folder, FileAccess.READ).to_json()
    expression = rule(json.loads(json.dumps(boundary)))["availabilityCondition"]["expression"]
    assert read_literals(expression) == (
        f"projects/_/buckets/lake/objects/{folder}/",
        f"projects/_/buckets/lake/folders/{folder}/",
        f"{folder}/",
    )


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\x00b", "a\x7fb", "a\x85b"])
def test_control_characters_are_refused(text: str) -> None:
    with pytest.raises(InvalidLocation):
        cel_string(text)


@pytest.mark.parametrize(
    ("path", "response", "reported"),
    [
        (TOKENS, said({"error": "invalid_grant", "error_description": "canary"}, 400), "invalid_grant"),
        (TOKENS, said({}), "RefreshError"),
        (EXCHANGE, said({"error": "invalid_request", "error_description": "canary"}, 400), "invalid_request"),
        (EXCHANGE, Said(400, b"canary"), "OAuthError"),
        (EXCHANGE, Said(302, location="/elsewhere"), "refused a token"),
        (EXCHANGE, said({}), "no token"),
        (EXCHANGE, said({"access_token": ["canary"]}), "no token"),
        (EXCHANGE, said({"access_token": "t", "expires_in": "canary"}), "No token could be obtained"),
        (EXCHANGE, said(["canary"]), "No token could be obtained"),
    ],
)
def test_an_error(
    service: FakeService, caplog: pytest.LogCaptureFixture, path: str, response: Said, reported: str
) -> None:
    caplog.set_level(logging.DEBUG)
    service.responses[path] = [response]
    with pytest.raises(CredentialNotIssued) as refused:
        ask(service)
    assert refused.value.status == 412
    assert reported in refused.value.message
    assert "canary" not in refused.value.message + caplog.text
    assert "/elsewhere" not in {asked.path for asked in service.asked}


def test_a_key_file_with_an_empty_universe_domain_is_one_of_the_usual_universe(service: FakeService) -> None:
    document = {"type": "gcs", "credential-type": "service-account-key", "key": key_file(universe_domain="")}
    credential = read_credential(document)
    assert credential.reveal()["key"]["universe_domain"] == "googleapis.com"
    vended, hosts = ask(service, universe_domain="")
    assert vended.config["gcs.oauth2.token"] == "vended-token"
    assert hosts == ["https://oauth2.googleapis.com", "https://sts.googleapis.com"]


@pytest.mark.parametrize("path", [TOKENS, EXCHANGE])
def test_a_failure_passes_or_stays(service: FakeService, limit: Callable[..., None], path: str) -> None:
    limit(retries=1)
    good = service.responses[path]
    service.responses[path] = [Said(503), *good]
    assert ask(service)[0].config["gcs.oauth2.token"] == "vended-token"
    service.responses[path] = [Said(503)]
    with pytest.raises(StoreUnavailable, match="The token service of the storage failed: status 503"):
        ask(service)


@pytest.mark.parametrize(
    "changed",
    [
        {"private_key": "canary"},
        {"private_key": "-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n"},
        {"universe_domain": "evil.example/x?"},
        {"universe_domain": "localhost"},
        {"universe_domain": "user@evil.example"},
    ],
)
def test_a_key_file_that_is_none(service: FakeService, changed: dict[str, str]) -> None:
    with pytest.raises(CredentialNotIssued) as refused:
        ask(service, **changed)
    assert "canary" not in refused.value.message
    assert service.asked == []
