"""The session policy for one folder: its text, and its evaluation by AWS and other stores."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from icekeeper.kernel.errors.types import InvalidLocation
from storage.identity.keys import CredentialNotIssued
from storage.profiles.kinds import read_profile
from storage.profiles.s3 import S3Profile
from storage.vending.delegation import FileAccess, folder_of
from storage.vending.s3_sts import MAX_POLICY_LENGTH, partition, s3_policy
from tests.storage.vending.folder_name_fixtures import PLAIN, UNICODE, folders
from tests.storage.vending.policy_fixtures import actions, aws_matches, denied, plain_matches, statement

ROLE = "arn:aws:iam::123456789012:role/lake"
READ = {"s3:GetObject", "s3:GetObjectVersion", "s3:ListBucket", "s3:GetBucketLocation"}
WRITE = {"s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:DeleteObject"}
READERS = (aws_matches, plain_matches)
KEY = "arn:aws:kms:eu-central-1:123456789012:key/k"


def profile(**members: Any) -> S3Profile:
    document = {"type": "s3", "bucket": "lake", "region": "eu-central-1", "sts-enabled": False, "sts-role-arn": ROLE}
    read = read_profile(document | members, None)
    assert isinstance(read, S3Profile)
    return read


def compat(**members: Any) -> S3Profile:
    return profile(**{"flavor": "s3-compat", "endpoint": "http://127.0.0.1:1"} | members)


OTHERS = (
    {"endpoint": "http://127.0.0.1:9000"}, {"endpoint": "https://s3.example.com"},
    {"sts-endpoint": "https://sts.example.com"}, {"endpoint": "https://s3-a-1.eu-west-1.elb.amazonaws.com"},
    {"endpoint": "https://s3.eu-west-1.amazonaws.com", "sts-endpoint": "https://sts.example.com"},
)  # fmt: skip


@pytest.mark.parametrize("members", OTHERS)
def test_a_store_that_calls_itself_aws_is_asked_for_plain_names_only(members: dict[str, Any]) -> None:
    for folder in ("wh/a*", "wh/a?b", "wh/a${b}"):
        with pytest.raises(CredentialNotIssued, match="location with"):
            s3_policy(profile(**members), folder, FileAccess.READ)
    assert "lake/wh/a/*" in s3_policy(profile(**members), "wh/a", FileAccess.READ)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"endpoint": "https://s3.eu-central-1.amazonaws.com", "sts-endpoint": "https://sts.eu-central-1.amazonaws.com"},
        {"endpoint": "https://bucket.vpce-1a-2b.s3.us-east-1.vpce.amazonaws.com"},
        {"endpoint": "https://s3.cn-north-1.amazonaws.com.cn", "region": "cn-north-1"},
    ],
)
def test_aws_knows_its_variables_at_each_of_its_addresses(members: dict[str, Any]) -> None:
    assert "/wh/a${*}/*" in s3_policy(profile(**members), "wh/a*", FileAccess.READ)


def test_the_whole_policy() -> None:
    assert json.loads(s3_policy(profile(), "wh/t1", FileAccess.READ_WRITE)) == {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": [
                    "s3:GetObject", "s3:GetObjectVersion", "s3:PutObject", "s3:AbortMultipartUpload",
                    "s3:ListMultipartUploadParts", "s3:DeleteObject",
                ],
                "Resource": "arn:aws:s3:::lake/wh/t1/*",
            },
            {
                "Effect": "Allow",
                "Action": "s3:ListBucket",
                "Resource": "arn:aws:s3:::lake",
                "Condition": {"StringLike": {"s3:prefix": "wh/t1/*"}},
            },
            {"Effect": "Allow", "Action": "s3:GetBucketLocation", "Resource": "arn:aws:s3:::lake"},
            {
                "Effect": "Deny",
                "Action": "s3:*",
                "Resource": ["arn:aws:s3:::lake/*/../*", "arn:aws:s3:::lake/*/.."],
            },
        ],
    }  # fmt: skip


@pytest.mark.parametrize("rights", list(FileAccess))
def test_keys_with_parent_segments_are_denied_and_no_others(rights: FileAccess) -> None:
    patterns = denied(s3_policy(profile(), "wh/t1", rights))

    def is_denied(key: str) -> bool:
        return any(matches(pattern, f"arn:aws:s3:::lake/{key}") for pattern in patterns for matches in READERS)

    for key in ("wh/t1/../t2/x", "wh/t1/a/../../../x", "wh/t1/..", "wh/t1/../", "wh/t1//../t2/x"):
        assert is_denied(key), key
    for key in ("wh/t1/a..b", "wh/t1/..a", "wh/t1/a../b", "wh/t1/.../b", "wh/t1/.", "wh/t1/./a", "wh/t1/a"):
        assert not is_denied(key), key


@pytest.mark.parametrize(
    ("rights", "key", "allowed"),
    [
        (FileAccess.READ, None, READ),
        (FileAccess.READ, KEY, READ | {"kms:Decrypt"}),
        (FileAccess.READ_WRITE, None, READ | WRITE),
        (FileAccess.READ_WRITE, KEY, READ | WRITE | {"kms:Decrypt", "kms:GenerateDataKey"}),
    ],
)
def test_rights_and_the_key_of_encryption(rights: FileAccess, key: str | None, allowed: set[str]) -> None:
    policy = s3_policy(profile(**{"aws-kms-key-arn": key}), "wh/t1", rights)
    assert actions(policy) == allowed
    if key is not None:
        assert statement(policy, "kms:Decrypt")["Resource"] == key


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, "aws"),
        ({"sts-role-arn": "arn:aws-cn:iam::1:role/r"}, "aws-cn"),
        ({"sts-role-arn": "arn:aws-us-gov:iam::1:role/r", "region": "eu-1"}, "aws-us-gov"),
        ({"sts-role-arn": None, "assume-role-arn": "arn:aws-cn:iam::1:role/r"}, "aws-cn"),
        ({"sts-role-arn": None, "region": "us-gov-west-1"}, "aws-us-gov"),
        ({"sts-role-arn": None, "region": "cn-north-1"}, "aws-cn"),
        ({"sts-role-arn": None, "region": "nowhere"}, "aws"),
        ({"sts-role-arn": 'arn:aws*":x', "region": "cn-north-1"}, "aws-cn"),
        ({"sts-role-arn": "urn:sgws:identity::1:group/g", "region": "eu-central-1"}, "aws"),
        ({"flavor": "s3-compat", "region": "cn-north-1", "sts-role-arn": "arn:aws-cn:iam::1:role/r"}, "aws"),
    ],
)
def test_the_partition(members: dict[str, Any], expected: str) -> None:
    assert partition(profile(**members)) == expected
    policy = s3_policy(profile(**members), "t", FileAccess.READ)
    assert statement(policy, "s3:ListBucket")["Resource"] == f"arn:{expected}:s3:::lake"


@given(folders("*?$${}\\" + PLAIN + UNICODE), folders("*?$${}\\" + PLAIN + UNICODE))
def test_aws_reads_one_folder_and_no_other(folder: str, other: str) -> None:
    assume(not f"{other}/".startswith(f"{folder}/"))
    policy = s3_policy(profile(), folder, FileAccess.READ_WRITE)
    objects = statement(policy, "s3:GetObject")["Resource"]
    listed = statement(policy, "s3:ListBucket")["Condition"]["StringLike"]["s3:prefix"]
    assert objects == f"arn:aws:s3:::lake/{listed}"
    assert aws_matches(listed, f"{folder}/")
    assert aws_matches(listed, f"{folder}/data/*?${{}}.parquet")
    for outside in (folder, f"{folder}0/x", f"{other}/", f"{other}/x", "", "x", folder.rpartition("/")[0] + "/"):
        assert outside.startswith(f"{folder}/") or not aws_matches(listed, outside)


@given(folders("*?$${}\\" + PLAIN + UNICODE), st.text("*?${}a/", max_size=8))
def test_a_store_without_variables_reads_one_folder_or_is_not_asked(folder: str, other: str) -> None:
    if any(sign in folder for sign in ("*", "?", "${")):
        with pytest.raises(CredentialNotIssued):
            s3_policy(compat(), folder, FileAccess.READ_WRITE)
        return
    policy = s3_policy(compat(), folder, FileAccess.READ_WRITE)
    for matches in READERS:
        listed = statement(policy, "s3:ListBucket")["Condition"]["StringLike"]["s3:prefix"]
        assert matches(listed, f"{folder}/x")
        assert matches(listed, other) == (other.startswith(f"{folder}/"))


@pytest.mark.parametrize("folder", ["a*b", "a?b", "a${b", "${aws:username}", "*", "a/*/b"])
def test_a_store_that_may_not_know_the_escapes_is_not_asked(folder: str) -> None:
    with pytest.raises(CredentialNotIssued, match="location with"):
        s3_policy(compat(), folder, FileAccess.READ)
    s3_policy(profile(), folder, FileAccess.READ)


@pytest.mark.parametrize("folder", ["cash$", "$a", "a$b/$c", "$ {x}", "$$"])
def test_a_dollar_sign_alone_is_no_variable(folder: str) -> None:
    assert f'"arn:aws:s3:::lake/{folder}/*"' in s3_policy(compat(), folder, FileAccess.READ)
    escaped = folder.replace("$", "${$}")
    assert f'"arn:aws:s3:::lake/{escaped}/*"' in s3_policy(profile(), folder, FileAccess.READ)


def test_a_policy_is_never_longer_than_stores_take() -> None:
    short = len(s3_policy(profile(), "a", FileAccess.READ_WRITE)) - 2
    longest = (MAX_POLICY_LENGTH - short) // 2
    assert longest > 700
    policy = s3_policy(profile(), "a" * longest, FileAccess.READ_WRITE)
    assert MAX_POLICY_LENGTH - 1 <= len(policy) <= MAX_POLICY_LENGTH
    with pytest.raises(CredentialNotIssued, match="too long: a policy for it has 20"):
        s3_policy(profile(), "a" * (longest + 1), FileAccess.READ_WRITE)
    with pytest.raises(CredentialNotIssued, match="too long"):
        s3_policy(profile(), "日" * 300, FileAccess.READ)


@pytest.mark.parametrize(
    "location",
    [
        "s3://lake", "s3://lake/", "s3://lake/wh", "s3://lake/wh/", "s3://lake/wh2/t", "s3://lake/other/t", "s3://lake2/wh/t",
        "s3://lake/wh/../t", "s3://lake/wh//t", "s3://lake/wh/t?x", "s3://lake/wh/t#x", "s3://LAKE/wh/t", "gs://lake/wh/t",
        "file:///lake/wh/t", "s3://lake/wh/t\n", "", "wh/t", "s3://lake/wh/./t", "s3://lake%2Fwh/t",
    ],
)  # fmt: skip
def test_no_credential_is_for_anything_but_a_folder_below_the_base(location: str) -> None:
    with pytest.raises(InvalidLocation):
        folder_of(location, profile(**{"key-prefix": "wh"}))


@pytest.mark.parametrize("location", ["s3://lake/t", "s3://lake/t/", "s3a://lake/t", "s3n://lake/t/"])
def test_a_bucket_may_be_the_base(location: str) -> None:
    assert folder_of(location, profile()) == "t"
    with pytest.raises(InvalidLocation):
        folder_of("s3://lake/", profile())


def test_the_whole_bucket_is_rejected_as_folder() -> None:
    with pytest.raises(ValueError, match="whole bucket"):
        s3_policy(profile(), "", FileAccess.READ)
