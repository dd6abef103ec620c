"""Temporary credentials of Alibaba Cloud OSS, against a fake: neither OSS nor its STS can run here.

The requests, the signature (with an example of Alibaba's documentation) and the parsing of responses are proved. Not
proved: that Alibaba accepts them, and how OSS evaluates the policy.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given

from storage.credentials import AliyunOss, read_credential
from storage.errors import StoreUnavailable
from storage.identity.keys import CredentialNotIssued
from storage.profiles.kinds import read_profile
from storage.profiles.s3 import S3Profile
from storage.vending import oss
from storage.vending.delegation import FileAccess, Vended
from tests.storage.vending.fake_service import FakeService, Said, said
from tests.storage.vending.folder_name_fixtures import PLAIN, UNICODE, folders
from tests.storage.vending.policy_fixtures import actions, plain_matches, statement

pytestmark = pytest.mark.django_db

CREDENTIAL = {
    "type": "s3", "credential-type": "aliyun-oss", "access-key-id": "canary-id", "secret-access-key": "canary-secret",
    "external-id": "canary-external",
}  # fmt: skip
VENDED = {
    "AccessKeyId": "STS.vended", "AccessKeySecret": "vended-secret", "SecurityToken": "vended-session",
    "Expiration": "2030-01-02T03:04:05Z",
}  # fmt: skip
GOOD = said({"RequestId": "r", "Credentials": VENDED})
ROLE = "acs:ram::1234:role/lake"


def profile(**members: Any) -> S3Profile:
    document = {
        "type": "s3", "bucket": "lake", "region": "oss-cn-hangzhou", "sts-enabled": True, "assume-role-arn": ROLE,
        "endpoint": "https://oss-cn-hangzhou.aliyuncs.com",
    }  # fmt: skip
    read = read_profile(document | members, read_credential(CREDENTIAL))
    assert isinstance(read, S3Profile)
    return read


def ask(service: FakeService, rights: FileAccess = FileAccess.READ, **members: Any) -> Vended:
    credential = read_credential(CREDENTIAL)
    assert isinstance(credential, AliyunOss)
    own = profile(**{"sts-endpoint": service.address} | members)
    return oss.issue(own, credential, location="s3://lake/wh/t1", rights=rights)


def test_alibabas_own_example_of_a_signature() -> None:
    parameters = {
        "Timestamp": "2016-02-23T12:46:24Z", "Format": "XML", "AccessKeyId": "testid", "Action": "DescribeRegions",
        "SignatureMethod": "HMAC-SHA1", "SignatureNonce": "3ee8c1b8-83d3-44af-a94f-4e0ad82fd6cf",
        "Version": "2014-05-26", "SignatureVersion": "1.0",
    }  # fmt: skip
    assert oss.signature("GET", parameters, "testsecret") == "OLeaidS1JvxuMvnyHOwuJ+uX5qY="


def test_the_request_and_the_vended_config(service: FakeService) -> None:
    service.responses["/"] = [GOOD]
    vended = ask(service, FileAccess.READ_WRITE, **{"sts-token-validity-seconds": 900})
    assert vended.config == {
        "s3.access-key-id": "STS.vended",
        "s3.secret-access-key": "vended-secret",
        "s3.session-token": "vended-session",
    }
    assert vended.expires_at == datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
    (asked,) = service.asked
    form = asked.form
    assert (asked.method, asked.path, asked.query) == ("POST", "/", {})
    assert asked.headers["Content-Type"] == "application/x-www-form-urlencoded"
    sent_at = datetime.strptime(form["Timestamp"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    assert abs((sent_at - datetime.now(UTC)).total_seconds()) < 10
    assert {
        name: value for name, value in form.items() if name not in {"Signature", "SignatureNonce", "Timestamp"}
    } == {
        "Action": "AssumeRole",
        "Version": "2015-04-01",
        "Format": "JSON",
        "AccessKeyId": "canary-id",
        "SignatureMethod": "HMAC-SHA1",
        "SignatureVersion": "1.0",
        "RoleArn": ROLE,
        "RoleSessionName": "lakekeeper-sts",
        "DurationSeconds": "900",
        "ExternalId": "canary-external",
        "Policy": oss.ram_policy("lake", "wh/t1", FileAccess.READ_WRITE),
    }
    assert form["Signature"] == signed_again(form)
    assert b"canary-secret" not in asked.body


def signed_again(form: dict[str, str]) -> str:
    """Compute the signature step by step as the documentation describes."""
    pairs = [
        f"{quote(name, safe='~')}={quote(value, safe='~')}"
        for name, value in sorted(form.items())
        if name != "Signature"
    ]
    to_sign = "POST&%2F&" + quote("&".join(pairs), safe="~")
    digest = hmac.new(b"canary-secret&", to_sign.encode(), hashlib.sha1).digest()
    return base64.b64encode(digest).decode()


def test_every_attempt_has_its_own_nonce(service: FakeService, limit: Callable[..., None]) -> None:
    limit(retries=2)
    service.responses["/"] = [Said(500), Said(503), GOOD]
    ask(service)
    forms = [asked.form for asked in service.asked]
    assert len({form["SignatureNonce"] for form in forms}) == 3
    assert all(form["Signature"] == signed_again(form) for form in forms)


def test_the_role_of_clients_comes_first(service: FakeService) -> None:
    service.responses["/"] = [GOOD]
    ask(service, **{"sts-role-arn": "acs:ram::1234:role/clients"})
    assert service.asked[0].form["RoleArn"] == "acs:ram::1234:role/clients"


READ = {"oss:GetObject", "oss:GetObjectVersion", "oss:ListObjects", "oss:GetBucketLocation"}
WRITE = {"oss:PutObject", "oss:AbortMultipartUpload", "oss:ListParts", "oss:DeleteObject"}


@pytest.mark.parametrize(("rights", "allowed"), [(FileAccess.READ, READ), (FileAccess.READ_WRITE, READ | WRITE)])
def test_the_policy(rights: FileAccess, allowed: set[str]) -> None:
    policy = oss.ram_policy("lake", "wh/t1", rights)
    assert json.loads(policy)["Version"] == "1"
    assert actions(policy) == allowed
    assert statement(policy, "oss:GetObject")["Resource"] == "acs:oss:*:*:lake/wh/t1/*"
    assert statement(policy, "oss:ListObjects") == {
        "Effect": "Allow",
        "Action": ["oss:ListObjects"],
        "Resource": "acs:oss:*:*:lake",
        "Condition": {"StringLike": {"oss:Prefix": ["wh/t1/*"]}},
    }
    assert "Condition" not in statement(policy, "oss:GetBucketLocation")


@given(folders("*?$${}" + PLAIN + UNICODE), folders(PLAIN))
def test_a_policy_is_limited_to_one_folder_or_not_issued(folder: str, other: str) -> None:
    if any(sign in folder for sign in ("*", "?", "${")):
        with pytest.raises(CredentialNotIssued):
            oss.ram_policy("lake", folder, FileAccess.READ)
        return
    listed = statement(oss.ram_policy("lake", folder, FileAccess.READ), "oss:ListObjects")["Condition"]
    (pattern,) = listed["StringLike"]["oss:Prefix"]
    assert plain_matches(pattern, f"{folder}/x")
    assert plain_matches(pattern, f"{other}/x") == f"{other}/x".startswith(f"{folder}/")
    assert not plain_matches(pattern, f"{folder}0/x")


def test_the_whole_bucket_is_rejected_as_folder() -> None:
    with pytest.raises(ValueError, match="whole bucket"):
        oss.ram_policy("lake", "", FileAccess.READ)


@pytest.mark.parametrize(
    ("response", "reported"),
    [
        (said({"Code": "InvalidAccessKeyId.NotFound", "Message": "canary"}, 404), "InvalidAccessKeyId.NotFound"),
        (said({"Code": "canary id\n"}, 400), "status 400"),
        (said({"Credentials": VENDED}, 400), "status 400"),
        (said({"Credentials": VENDED | {"Expiration": "soon"}}), "no expiration"),
        (said({"Credentials": {}}), "no credentials"),
        (said({"Credentials": []}), "status 200"),
        (Said(307, location="/elsewhere"), "status 307"),
    ],
)
def test_an_error(service: FakeService, response: Said, reported: str) -> None:
    service.responses["/"] = [response]
    with pytest.raises(CredentialNotIssued) as refused:
        ask(service)
    assert reported in refused.value.message
    assert "canary" not in refused.value.message
    assert len(service.asked) == 1


def test_a_failure_that_stays(service: FakeService, limit: Callable[..., None]) -> None:
    limit(retries=0)
    service.responses["/"] = [Said(503)]
    with pytest.raises(StoreUnavailable, match="status 503"):
        ask(service)


@pytest.mark.parametrize("region", ["cn-hangzhou.evil.com/#", "x/y", "a b", "CN"])
def test_a_region_is_no_way_to_another_host(region: str) -> None:
    credential = read_credential(CREDENTIAL)
    assert isinstance(credential, AliyunOss)
    with pytest.raises(CredentialNotIssued, match="region"):
        oss.issue(profile().copy_with(region=region), credential, location="s3://lake/wh/t1", rights=FileAccess.READ)
