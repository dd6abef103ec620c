"""Requests of S3 profiles: assumed roles, KMS keys, stores with legacy features, the address of the bucket."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from icekeeper.kernel.clock import now
from storage.credentials import read_credential
from storage.errors import StoreAccessDenied, StoreUnavailable
from storage.identity.keys import CredentialNotIssued, Keys, RefreshingValue
from storage.io import s3
from storage.io.port import ObjectExists
from storage.io.stores import open_vended_store, store_for
from storage.models import WarehouseStorage
from storage.network.endpoints import EndpointNotPermitted
from storage.profiles.kinds import read_profile
from storage.profiles.s3 import S3Profile, StackitProfile
from storage.vending.delegation import FileAccess
from storage.vending.vend import issue
from tests.parts.minio import Minio
from tests.parts.recorder import Recorded, Recorder, Reply
from tests.parts.seaweedfs import SeaweedFS
from tests.storage.open_store_fixtures import opened, use_storage_settings

pytestmark = pytest.mark.django_db  # waiting code closes its database connections

ROLE = "arn:aws:iam::123456789012:role/catalog"


# --- roles -----------------------------------------------------------------------------------------------------------


def test_the_catalog_takes_on_the_role_once_for_all_requests(minio: Minio, bucket: str, recorder: Recorder) -> None:
    profile = minio.profile(bucket, "wh", endpoint=recorder.endpoint) | {"assume-role-arn": ROLE}
    store = opened(profile, minio.credential)
    for name in "abc":
        store.put_new(f"s3://{bucket}/wh/{name}", b"x")
    assert store.is_empty(f"s3://{bucket}/wh/d", ignore=bool)
    asked_for_role, *others = recorder.requests
    assert (asked_for_role.method, b"RoleArn=arn" in asked_for_role.body) == ("POST", True)
    assert recorder.asked.count("POST") == 1
    assert all(request.headers["x-amz-security-token"] for request in others)


def test_a_role_is_renewed_before_it_ends(minio: Minio, bucket: str, recorder: Recorder) -> None:
    seconds = [2.0, 3600.0, 3600.0]

    def soon_over(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        reply = ask()
        if request.target != "/":
            return reply
        ends = datetime.now(UTC) + timedelta(seconds=seconds.pop(0))
        reported = f"<Expiration>{ends:%Y-%m-%dT%H:%M:%SZ}<".encode()
        return replace(reply, body=re.sub(rb"<Expiration>[^<]*<", reported, reply.body))

    recorder.answerer = soon_over
    profile = minio.profile(bucket, "wh", endpoint=recorder.endpoint) | {"assume-role-arn": ROLE}
    store = opened(profile, minio.credential)
    store.put_new(f"s3://{bucket}/wh/a", b"x")
    threading.Event().wait(2)
    store.put_new(f"s3://{bucket}/wh/b", b"x")
    store.delete_below(f"s3://{bucket}/wh/a", lambda: None)
    tokens = [each.headers["x-amz-security-token"] for each in recorder.requests if each.method != "POST"]
    assert len(seconds) == 1
    assert tokens[0] != tokens[1], "obstore goes by the new one"
    assert tokens[1] == tokens[2], "botocore, too"


def test_a_denied_role(minio: Minio, bucket: str, recorder: Recorder) -> None:
    profile = minio.profile(bucket, "wh", endpoint=recorder.endpoint) | {"assume-role-arn": ROLE}
    store = opened(profile, minio.credential | {"secret-access-key": "wrong-canary"})
    for act in (
        lambda: store.put_new(f"s3://{bucket}/wh/a", b"x"),
        lambda: store.is_empty(f"s3://{bucket}/wh/a", ignore=bool),
        lambda: store.delete_below(f"s3://{bucket}/wh/a", lambda: None),
    ):
        with pytest.raises(CredentialNotIssued, match="refused temporary credentials: AccessDenied") as error:
            act()
        assert "canary" not in error.value.message
    assert recorder.asked == ["POST"] * 3


@dataclass(frozen=True)
class Token:
    number: int
    expires_at: datetime | None


class Issuer:
    """Issue tokens with a lifetime of `seconds` (None: unlimited), or fail as `fails` says."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds, self.issued, self.fails = seconds, 0, False

    def __call__(self) -> Token:
        if self.fails:
            raise StoreUnavailable("closed")
        self.issued += 1
        return Token(self.issued, None if self.seconds is None else now() + timedelta(seconds=self.seconds))


def test_unlimited_tokens_are_requested_once() -> None:
    issuer = Issuer(None)
    renewed = RefreshingValue(issuer)
    with ThreadPoolExecutor(8) as pool:
        assert {token.number for token in pool.map(lambda _: renewed.current(), range(50))} == {1}


def test_tokens_are_renewed_before_they_expire() -> None:
    issuer = Issuer(0.5)
    renewed = RefreshingValue(issuer)
    assert (renewed.current().number, renewed.current().number) == (1, 1)
    threading.Event().wait(0.42)
    token = renewed.current()
    assert token.number == 2
    assert token.expires_at is not None
    assert token.expires_at > now()


def test_tokens_that_cannot_be_renewed_are_used_until_they_expire() -> None:
    issuer = Issuer(0.5)
    renewed = RefreshingValue(issuer)
    renewed.current()
    issuer.fails = True
    threading.Event().wait(0.42)
    assert renewed.current().number == 1
    other = RefreshingValue(Issuer(0.1))
    other.current()
    other._fetch.fails = True  # type: ignore[attr-defined]
    threading.Event().wait(0.12)
    with pytest.raises(StoreUnavailable):
        other.current()


def test_errors_are_not_cached() -> None:
    issuer = Issuer(None)
    issuer.fails = True
    renewed = RefreshingValue(issuer)
    with pytest.raises(StoreUnavailable):
        renewed.current()
    issuer.fails = False
    assert renewed.current().number == 1


# --- what is sent ----------------------------------------------------------------------------------------------------


def test_objects_are_encrypted_with_the_key_of_the_profile(minio: Minio, bucket: str, recorder: Recorder) -> None:
    key = "arn:aws:kms:eu-1:123456789012:key/abc"
    recorder.answerer = lambda *_: Reply(200, {"ETag": '"a"'}, b"")  # this MinIO has no KMS
    store = opened(minio.profile(bucket, "wh", endpoint=recorder.endpoint) | {"aws-kms-key-arn": key}, minio.credential)
    store.put_new(f"s3://{bucket}/wh/a", b"x")
    headers = recorder.requests[0].headers
    assert headers["x-amz-server-side-encryption"] == "aws:kms"
    assert headers["x-amz-server-side-encryption-aws-kms-key-id"] == key
    signed = headers["authorization"]
    assert "x-amz-server-side-encryption;x-amz-server-side-encryption-aws-kms-key-id" in signed


@pytest.mark.parametrize("is_old", [True, False, None])
def test_old_stores_get_the_digest_that_they_know(
    minio: Minio, bucket: str, recorder: Recorder, is_old: bool | None
) -> None:
    profile = minio.profile(bucket, "wh", endpoint=recorder.endpoint) | {"legacy-md5-behavior": is_old}
    store = opened(profile, minio.credential)
    store.put_new(f"s3://{bucket}/wh/t/a", b"x")
    store.delete_below(f"s3://{bucket}/wh/t", lambda: None)
    (deletion,) = (request for request in recorder.requests if request.method == "POST")
    digest = base64.b64encode(hashlib.md5(deletion.body, usedforsecurity=False).digest()).decode()
    assert deletion.headers.get("content-md5") == (digest if is_old else None)
    assert any(name.startswith("x-amz-checksum-") for name in deletion.headers) == (not is_old)
    assert minio.keys(bucket) == []


def test_the_environment_of_the_server_does_not_affect_warehouses(
    minio: Minio, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1", "AWS_REGION": "other",
        "AWS_SESSION_TOKEN": "other", "AWS_ACCESS_KEY_ID": "other", "AWS_SKIP_SIGNATURE": "true", "AWS_TOKEN": "other",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true", "AWS_CONDITIONAL_PUT": "disabled", "AWS_S3_EXPRESS": "true",
        "AWS_REQUEST_PAYER": "true", "AWS_UNSIGNED_PAYLOAD": "true", "AWS_DEFAULT_REGION": "other",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    use_storage_settings(monkeypatch, retries=0)
    store = opened(minio.profile(bucket, "wh"), minio.credential)
    store.put_new(f"s3://{bucket}/wh/a", b"x")
    assert minio.keys(bucket) == ["wh/a"]
    assert store.get(f"s3://{bucket}/wh/a", limit=1) == b"x"
    store.delete_below(f"s3://{bucket}/wh/a", lambda: None)


# --- address of the bucket -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "endpoint"),
    [
        ({}, "https://my-bucket.s3.eu-1.amazonaws.com"),
        ({"region": "cn-north-1"}, "https://my-bucket.s3.cn-north-1.amazonaws.com.cn"),
        ({"path-style-access": True}, "https://s3.eu-1.amazonaws.com"),
        ({"bucket": "my.bucket"}, "https://s3.eu-1.amazonaws.com"),
        ({"endpoint": "https://s3.example.com"}, "https://my-bucket.s3.example.com"),
        ({"endpoint": "https://s3.example.com:9000/", "path-style-access": False}, "https://my-bucket.s3.example.com:9000"),
        ({"endpoint": "https://s3.example.com", "path-style-access": True}, "https://s3.example.com"),
        ({"endpoint": "http://minio:9000"}, "http://minio:9000"),
        ({"endpoint": "http://minio:9000", "path-style-access": False}, "http://my-bucket.minio:9000"),
        ({"endpoint": "http://127.0.0.1:9000", "path-style-access": False}, "http://127.0.0.1:9000"),
        ({"endpoint": "http://[::1]:9000"}, "http://[::1]:9000"),
    ],
)  # fmt: skip
def test_where_requests_go(members: dict[str, Any], endpoint: str) -> None:
    given = {"type": "s3", "bucket": "my-bucket", "region": "eu-1", **members}
    profile = S3Profile.model_validate(given).with_derived_fields()
    bucket = s3.S3Bucket.of(profile, None)
    assert bucket.objects.config["endpoint"] == endpoint
    assert bucket.objects.config["virtual_hosted_style_request"] == str("//my-" in endpoint).lower()
    own = {"access_key_id": "a", "secret_access_key": "b"}
    client = s3._client(profile, Keys(**own), sends_md5=False)
    url = client.generate_presigned_url("list_objects_v2", {"Bucket": profile.bucket}).partition("?")[0]
    assert url == (f"{endpoint}/" if "//my-" in endpoint else f"{endpoint}/{profile.bucket}")


def test_stackit_is_a_store_as_any(minio: Minio, bucket: str) -> None:
    given = {"type": "stackit", "bucket": "my-bucket", "region": "eu01", "sts-enabled": False}
    profile = StackitProfile.model_validate(given).with_derived_fields()
    config = s3.S3Bucket.of(profile.as_s3(), None).objects.config
    assert config["endpoint"] == "https://my-bucket.object.storage.eu01.onstackit.cloud"
    credential = minio.credential | {"type": "stackit"}
    store = opened(given | {"bucket": bucket, "endpoint": minio.endpoint}, credential)
    store.put_new(f"s3://{bucket}/a", b"x")
    assert minio.keys(bucket) == ["a"]


# --- open stores -----------------------------------------------------------------------------------------------------


def test_a_warehouse_has_one_open_store(minio: Minio, bucket: str) -> None:
    storage = WarehouseStorage(uuid4(), 1, minio.profile(bucket, "wh"), None)
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(store_for, [storage] * 50))
    assert len({id(store) for store in stores}) == 1
    assert store_for(replace(storage, version=2)) is not stores[0]
    assert store_for(replace(storage, warehouse_id=uuid4())) is not stores[0]


def test_a_warehouse_without_credential_fails_before_any_request(minio: Minio, bucket: str, recorder: Recorder) -> None:
    store = store_for(WarehouseStorage(uuid4(), 1, minio.profile(bucket, "wh", endpoint=recorder.endpoint), None))
    with pytest.raises(CredentialNotIssued, match="has no credential"):
        store.put_new(f"s3://{bucket}/wh/a", b"x")
    assert recorder.requests == []


# --- as a client with vended credentials -----------------------------------------------------------------------------


def test_a_vended_credential_opens_its_folder_only(minio: Minio, bucket: str) -> None:
    credential = read_credential(minio.credential)
    profile = read_profile(minio.profile(bucket, "wh"), credential)
    vended = issue(profile, credential, location=f"s3://{bucket}/wh/t", rights=FileAccess.READ_WRITE)
    assert vended is not None
    vended_credentials = open_vended_store(profile, vended)
    vended_credentials.put_new(f"s3://{bucket}/wh/t/a", b"x")
    assert not vended_credentials.is_empty(f"s3://{bucket}/wh/t", ignore=lambda _: False)
    vended_credentials.delete_below(f"s3://{bucket}/wh/t", lambda: None)
    for act in (
        lambda: vended_credentials.put_new(f"s3://{bucket}/wh/t2/a", b"x"),
        lambda: vended_credentials.get(f"s3://{bucket}/wh/a", limit=1),
        lambda: vended_credentials.is_empty(f"s3://{bucket}/wh/t2", ignore=bool),
    ):
        with pytest.raises(StoreAccessDenied):
            act()
    assert minio.keys(bucket) == []


def test_no_store_is_opened_at_an_address_that_the_operator_does_not_want(
    minio: Minio, bucket: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_storage_settings(monkeypatch, allow_private_endpoints=False)
    profile = minio.profile(bucket, "wh", endpoint=recorder.endpoint)
    with pytest.raises(EndpointNotPermitted):
        store_for(WarehouseStorage(uuid4(), 1, profile, None))
    with pytest.raises(EndpointNotPermitted):
        opened(profile, minio.credential)
    assert recorder.requests == []


# --- a store of another vendor ---------------------------------------------------------------------------------------


def test_names_that_obstore_refuses_go_with_a_purge(seaweedfs: SeaweedFS) -> None:
    bucket = seaweedfs.create_bucket(f"odd-{uuid4().hex[:12]}")
    store = opened(seaweedfs.profile(bucket, "wh"), seaweedfs.credential)
    for key in ("wh/t/a", "wh/t/\tb", "wh/t/c/", "wh/t/d/e", "wh/t2/a"):
        seaweedfs.client().put_object(Bucket=bucket, Key=key, Body=b"x")
    store.put_new(f"s3://{bucket}/wh/t/f", b"x")
    with pytest.raises(ObjectExists):
        store.put_new(f"s3://{bucket}/wh/t/f", b"y")
    store.delete_below(f"s3://{bucket}/wh/t", lambda: None)
    assert seaweedfs.keys(bucket) == ["wh/t2/a"]
