"""Temporary credentials of Cloudflare R2, against a fake: R2 cannot run here.

The requests and the parsing of responses are proved. Not proved: that Cloudflare accepts them and that its credentials
are limited to one prefix.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings

from icekeeper.kernel.clock import now
from icekeeper.kernel.errors.types import InvalidLocation
from icekeeper.kernel.request_context import deadline
from storage.credentials import CloudflareR2, read_credential
from storage.errors import StoreUnavailable
from storage.identity.keys import CredentialNotIssued
from storage.identity.token_service import MAX_RESPONSE_BYTES
from storage.profiles.kinds import read_profile
from storage.profiles.s3 import S3Profile
from storage.vending import r2
from storage.vending.delegation import FileAccess, Vended
from tests.storage.vending.fake_service import FakeService, Said, said

pytestmark = pytest.mark.django_db

ACCOUNT = "acc/../x?y"
PATH = "/accounts/acc%2F..%2Fx%3Fy/r2/temp-access-credentials"
CREDENTIAL = {
    "type": "s3", "credential-type": "cloudflare-r2", "access-key-id": "canary-id",
    "secret-access-key": "canary-secret", "token": "canary-token", "account-id": ACCOUNT,
}  # fmt: skip
VENDED = {"accessKeyId": "vended-id", "secretAccessKey": "vended-secret", "sessionToken": "vended-session"}
GOOD = said({"success": True, "errors": [], "messages": [], "result": VENDED})
LOCATION = "s3://lake/wh/t*1"


def ask(service: FakeService, location: str = LOCATION, rights: FileAccess = FileAccess.READ, **members: Any) -> Vended:
    credential = read_credential(CREDENTIAL)
    document = {"type": "s3", "bucket": "lake", "key-prefix": "wh", "region": "auto", "sts-enabled": False}
    profile = read_profile(document | {"endpoint": "https://acc.r2.cloudflarestorage.com"} | members, credential)
    assert isinstance(profile, S3Profile)
    assert isinstance(credential, CloudflareR2)
    return r2.issue(profile, credential, location=location, rights=rights, api=service.address)


@pytest.mark.parametrize(
    ("rights", "permission"), [(FileAccess.READ, "object-read-only"), (FileAccess.READ_WRITE, "object-read-write")]
)
def test_the_request_and_the_vended_config(service: FakeService, rights: FileAccess, permission: str) -> None:
    service.responses[PATH] = [GOOD]
    vended = ask(service, rights=rights, **{"sts-token-validity-seconds": 900})
    assert vended.config == {
        "s3.access-key-id": "vended-id",
        "s3.secret-access-key": "vended-secret",
        "s3.session-token": "vended-session",
    }
    assert abs(vended.expires_at - now() - timedelta(seconds=900)) < timedelta(seconds=5)
    assert not any(secret in repr(vended) for secret in VENDED.values())
    (asked,) = service.asked
    assert (asked.method, asked.path) == ("POST", PATH)
    assert asked.headers["Authorization"] == "Bearer canary-token"
    assert asked.headers["Content-Type"] == "application/json"
    assert json.loads(asked.body) == {
        "bucket": "lake",
        "parentAccessKeyId": "canary-id",
        "permission": permission,
        "prefixes": ["wh/t*1/"],
        "ttlSeconds": 900,
    }


@pytest.mark.parametrize("location", ["s3://lake/wh", "s3://lake/other/t", "s3://lake2/wh/t"])
def test_nothing_is_requested_outside_the_warehouse(service: FakeService, location: str) -> None:
    with pytest.raises(InvalidLocation):
        ask(service, location)
    assert service.asked == []


@pytest.mark.parametrize(
    ("response", "reported"),
    [
        (said({"success": False, "errors": [{"code": 10000, "message": "canary-token is bad"}]}, 403), "10000"),
        (said({"success": False, "errors": [], "result": VENDED}), "status 200"),
        (said({"errors": [{"code": "canary token\n"}]}, 400), "status 400"),
        (said({"success": True, "result": VENDED | {"sessionToken": None}}), "no credentials"),
        (said({"success": True, "result": VENDED | {"accessKeyId": ""}}), "no credentials"),
        (said({"success": True, "result": None}), "status 200"),
        (said([]), "status 200"),
        (Said(200, b"not json"), "status 200"),
        (Said(404), "status 404"),
        (Said(302, location="/elsewhere"), "status 302"),
    ],
)
def test_an_error(service: FakeService, caplog: pytest.LogCaptureFixture, response: Said, reported: str) -> None:
    service.responses[PATH] = [response]
    caplog.set_level(logging.DEBUG)
    with pytest.raises(CredentialNotIssued) as refused:
        ask(service)
    assert (refused.value.status, refused.value.wire_type) == (412, "ShortTermCredentialError")
    assert reported in refused.value.message
    assert "canary" not in refused.value.message + caplog.text
    assert [asked.path for asked in service.asked] == [PATH], "neither again nor elsewhere"


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_failure_passes(service: FakeService, limit: Callable[..., None], status: int) -> None:
    limit(retries=1)
    service.responses[PATH] = [Said(status), GOOD]
    assert ask(service).config["s3.access-key-id"] == "vended-id"
    assert len(service.asked) == 2


@pytest.mark.parametrize(
    ("response", "reported"),
    [
        (Said(503, b"canary"), "status 503"),
        (Said(200, b" " * (MAX_RESPONSE_BYTES + 1)), f"more than {MAX_RESPONSE_BYTES} bytes"),
        (Said(200, b"[[[[[[[[[[[[[[[[", drips=True), "in time"),
    ],
)
def test_a_failure_that_stays(service: FakeService, limit: Callable[..., None], response: Said, reported: str) -> None:
    limit(retries=1, request_timeout=1.0)
    service.responses[PATH] = [response]
    with pytest.raises(StoreUnavailable) as failed:
        ask(service)
    assert (failed.value.status, failed.value.retry_after) == (503, 5)
    assert reported in failed.value.message
    assert "canary" not in failed.value.message
    assert len(service.asked) == 2


def test_nothing_responds_there(limit: Callable[..., None]) -> None:
    limit(retries=0)
    with FakeService() as closed:
        pass
    with pytest.raises(StoreUnavailable, match="did not respond: ConnectionError"):
        ask(closed)


def test_a_request_without_time_does_not_try_again(service: FakeService) -> None:
    service.responses[PATH] = [Said(503)]
    began = time.monotonic()
    with deadline(began + 0.15), pytest.raises(StoreUnavailable):
        ask(service)
    assert len(service.asked) < 1 + settings.ICEKEEPER.storage.retries
    assert time.monotonic() - began < 1


def test_another_password_is_not_sent(
    service: FakeService, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    netrc = tmp_path_factory.mktemp("home") / "netrc"
    netrc.write_text("machine 127.0.0.1 login another password canary-netrc\n")
    monkeypatch.setenv("NETRC", str(netrc))
    service.responses[PATH] = [GOOD]
    ask(service)
    assert service.asked[0].headers["Authorization"] == "Bearer canary-token"
