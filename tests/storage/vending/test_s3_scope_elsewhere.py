"""Scope of temporary credentials on SeaweedFS, which evaluates the policy with other code than MinIO."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from botocore.exceptions import ClientError

from storage.credentials import read_credential
from storage.profiles.kinds import read_profile
from storage.vending.delegation import FileAccess
from storage.vending.vend import issue
from tests.parts.seaweedfs import SeaweedFS

pytestmark = pytest.mark.django_db


_numbers = count(1)


@pytest.fixture
def location(seaweedfs: SeaweedFS) -> str:
    """A new, empty bucket."""
    return seaweedfs.create_bucket(f"scope-{next(_numbers)}")


def client(store: SeaweedFS, bucket: str, folder: str, rights: FileAccess) -> Any:
    credential = read_credential(store.credential)
    profile = read_profile(store.profile(bucket, "wh"), credential)
    vended = issue(profile, credential, location=f"s3://{bucket}/wh/{folder}", rights=rights)
    assert vended is not None
    return store.client(
        aws_access_key_id=vended.config["s3.access-key-id"],
        aws_secret_access_key=vended.config["s3.secret-access-key"],
        aws_session_token=vended.config["s3.session-token"],
    )


def may(call: Any, **arguments: Any) -> bool:
    try:
        call(**arguments)
    except ClientError as refused:
        if refused.response["Error"]["Code"] != "AccessDenied":
            raise
        return False
    return True


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ("t1", "t10"), ("[ab]", "a"), ("a$", "ax"), ("$$a", "$a"), ("a{b,c}", "ab"), ("a%41", "aA"), ("a+b", "a b"),
        ("a b", "a+b"), ("a.b", "axb"), ("(a|b)", "a"), ("^a", "a"), ("'\"x", "x"), ("a&b<c>", "a"),
        ("\u65e5\u672c", "\u65e5"),
    ],
)  # fmt: skip
def test_a_name_is_read_letter_by_letter(seaweedfs: SeaweedFS, location: str, own: str, other: str) -> None:
    s3 = client(seaweedfs, location, own, FileAccess.READ_WRITE)
    assert may(s3.put_object, Bucket=location, Key=f"wh/{own}/x", Body=b"")
    assert may(s3.list_objects_v2, Bucket=location, Prefix=f"wh/{own}/")
    assert may(s3.delete_object, Bucket=location, Key=f"wh/{own}/x")
    for outside in (f"wh/{other}/x", f"wh/{own}0/x", "wh/x", "x"):
        assert not may(s3.put_object, Bucket=location, Key=outside, Body=b""), outside
        assert not may(s3.get_object, Bucket=location, Key=outside), outside
    for prefix in (f"wh/{other}/", f"wh/{own}", "wh/", ""):
        assert not may(s3.list_objects_v2, Bucket=location, Prefix=prefix), prefix


def test_a_reader_cannot_write(seaweedfs: SeaweedFS, location: str) -> None:
    seaweedfs.client().put_object(Bucket=location, Key="wh/t1/there", Body=b"")
    s3 = client(seaweedfs, location, "t1", FileAccess.READ)
    assert may(s3.get_object, Bucket=location, Key="wh/t1/there")
    assert not may(s3.put_object, Bucket=location, Key="wh/t1/there", Body=b"")
    assert not may(s3.delete_object, Bucket=location, Key="wh/t1/there")


def test_seaweedfs_does_not_distinguish_upper_from_lower_case(seaweedfs: SeaweedFS, location: str) -> None:
    """No policy can prevent this: clients of tables whose locations differ only in case can read each other's files."""
    assert may(
        client(seaweedfs, location, "T1", FileAccess.READ_WRITE).put_object, Bucket=location, Key="wh/t1/x", Body=b""
    )
