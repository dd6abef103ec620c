"""Scope of temporary credentials on MinIO: full access in the folder of the table, none anywhere else."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from storage.credentials import read_credential
from storage.identity.keys import CredentialNotIssued
from storage.identity.s3 import assume_role
from storage.profiles.kinds import read_profile
from storage.profiles.s3 import S3Profile
from storage.vending.delegation import FileAccess, Vended
from storage.vending.s3_sts import s3_policy
from storage.vending.vend import issue
from tests.conftest import IS_LONG
from tests.parts.minio import Minio
from tests.storage.vending.folder_name_fixtures import PLAIN, UNICODE, folders

pytestmark = pytest.mark.django_db

_examples = count(1)


def vended(
    minio: Minio, bucket: str, folder: str, rights: FileAccess = FileAccess.READ_WRITE, **members: Any
) -> Vended:
    credential = read_credential(minio.credential)
    profile = read_profile(minio.profile(bucket, "wh", **members), credential)
    found = issue(profile, credential, location=f"s3://{bucket}/wh/{folder}", rights=rights)
    assert found is not None
    return found


def client(minio: Minio, vended_credentials: Vended) -> Any:
    return minio.client(
        aws_access_key_id=vended_credentials.config["s3.access-key-id"],
        aws_secret_access_key=vended_credentials.config["s3.secret-access-key"],
        aws_session_token=vended_credentials.config["s3.session-token"],
    )


def require_denied(call: Callable[..., Any], **arguments: Any) -> None:
    with pytest.raises(ClientError) as refused:
        call(**arguments)
    response = refused.value.response
    reported = (response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"])
    assert reported == (403, "AccessDenied"), arguments


def require_closed(s3: Any, bucket: str, folder: str) -> None:
    """Check that every operation a table uses is denied in this folder, which contains the object `there`."""
    require_denied(s3.get_object, Bucket=bucket, Key=f"{folder}/there")
    require_denied(s3.put_object, Bucket=bucket, Key=f"{folder}/new", Body=b"")
    require_denied(s3.delete_object, Bucket=bucket, Key=f"{folder}/there")
    require_denied(s3.create_multipart_upload, Bucket=bucket, Key=f"{folder}/new")
    require_lists_nothing(s3, bucket, f"{folder}/")


def require_lists_nothing(s3: Any, bucket: str, prefix: str) -> None:
    require_denied(s3.list_objects_v2, Bucket=bucket, Prefix=prefix)
    require_denied(s3.list_objects, Bucket=bucket, Prefix=prefix)
    require_denied(s3.list_object_versions, Bucket=bucket, Prefix=prefix)
    require_denied(s3.list_multipart_uploads, Bucket=bucket, Prefix=prefix)


def upload_in_parts(s3: Any, bucket: str, key: str) -> None:
    location = {"Bucket": bucket, "Key": key}
    upload = {**location, "UploadId": s3.create_multipart_upload(**location)["UploadId"]}
    part = s3.upload_part(**upload, PartNumber=1, Body=b"part")
    assert len(s3.list_parts(**upload)["Parts"]) == 1
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
    given_up = {**location, "UploadId": s3.create_multipart_upload(**location)["UploadId"]}
    s3.abort_multipart_upload(**given_up)


@settings(
    max_examples=60 if IS_LONG else 20,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking an example takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    own=folders("$$" + PLAIN + UNICODE).filter(lambda name: "${" not in name),
    other=folders("$*{}" + PLAIN + UNICODE),
    suffix=st.text("0a*$ .'%", min_size=1, max_size=2),
)
def test_a_table_is_open_and_all_others_are_closed(
    minio: Minio, bucket: str, own: str, other: str, suffix: str
) -> None:
    assume(not f"{other}/".startswith(f"{own}/") and not f"{own}/".startswith(f"{other}/"))
    unique = f"e{next(_examples)}"
    own, other, sibling = f"{unique}/{own}", f"{unique}/{other}", f"{unique}/{own}{suffix}"
    root = minio.client()
    for folder in (other, sibling):
        root.put_object(Bucket=bucket, Key=f"wh/{folder}/there", Body=b"others'")
    s3 = client(minio, vended(minio, bucket, own))

    key = f"wh/{own}/data/f 1.parquet"
    s3.put_object(Bucket=bucket, Key=key, Body=b"own")
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"own"
    for prefix in (f"wh/{own}/", f"wh/{own}/data/"):
        assert [each["Key"] for each in s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]] == [key]
    upload_in_parts(s3, bucket, f"wh/{own}/data/large")
    s3.delete_object(Bucket=bucket, Key=key)
    deleted = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": f"wh/{own}/data/large"}]})
    assert [each["Key"] for each in deleted["Deleted"]] == [f"wh/{own}/data/large"]

    require_closed(s3, bucket, f"wh/{other}")
    require_closed(s3, bucket, f"wh/{sibling}")
    require_lists_nothing(s3, bucket, f"wh/{own}")  # which would list the siblings
    assert minio.keys(bucket, f"wh/{unique}/") == sorted(f"wh/{each}/there" for each in (other, sibling))


def test_everything_around_a_table_is_denied(minio: Minio, bucket: str) -> None:
    second = minio.create_bucket(f"{bucket}-second")
    root = minio.client()
    for location, folder in ((bucket, "wh"), (bucket, "wh/ns"), (bucket, "wh/ns/t10"), (second, "wh/ns/t1")):
        root.put_object(Bucket=location, Key=f"{folder}/there", Body=b"")
    root.put_object(Bucket=bucket, Key="there", Body=b"")
    s3 = client(minio, vended(minio, bucket, "ns/t1"))
    s3.put_object(Bucket=bucket, Key="wh/ns/t1/own", Body=b"")
    for location, folder in ((bucket, "wh"), (bucket, "wh/ns"), (bucket, "wh/ns/t10"), (second, "wh/ns/t1")):
        require_closed(s3, location, folder)
    require_lists_nothing(s3, bucket, "")
    require_denied(s3.list_objects_v2, Bucket=bucket)
    require_denied(s3.get_object, Bucket=bucket, Key="there")
    require_denied(s3.put_object, Bucket=bucket, Key="wh/ns/t1", Body=b"")  # an object with the name of the folder
    assert [each["Name"] for each in s3.list_buckets()["Buckets"]] == [bucket]  # listed for a permitted prefix
    require_denied(s3.get_bucket_policy, Bucket=bucket)
    require_denied(s3.delete_bucket, Bucket=bucket)
    outside = {"Bucket": bucket, "Key": "wh/ns/t10/there"}
    require_denied(s3.copy_object, Bucket=bucket, Key="wh/ns/t1/stolen", CopySource=outside)
    inside = {"Bucket": bucket, "Key": "wh/ns/t1/own"}
    require_denied(s3.copy_object, Bucket=bucket, Key="wh/ns/t10/there", CopySource=inside)
    mixed = [{"Key": "wh/ns/t1/own"}, {"Key": "wh/ns/t10/there"}]
    deleted = s3.delete_objects(Bucket=bucket, Delete={"Objects": mixed})
    assert [each["Key"] for each in deleted["Deleted"]] == ["wh/ns/t1/own"]
    assert [(each["Key"], each["Code"]) for each in deleted["Errors"]] == [("wh/ns/t10/there", "AccessDenied")]
    assert s3.get_bucket_location(Bucket=bucket)["ResponseMetadata"]["HTTPStatusCode"] == 200


@pytest.mark.parametrize("key", ["wh/t1/../t2/there", "wh/t1/./../t2/there", "wh//t2/there", "wh/t1/%2e%2e/t2/there"])
def test_dots_lead_nowhere(minio: Minio, bucket: str, key: str) -> None:
    minio.client().put_object(Bucket=bucket, Key="wh/t2/there", Body=b"others'")
    s3 = client(minio, vended(minio, bucket, "t1"))
    with pytest.raises(ClientError):
        s3.get_object(Bucket=bucket, Key=key)


def test_readers_change_nothing(minio: Minio, bucket: str) -> None:
    minio.client().put_object(Bucket=bucket, Key="wh/t1/there", Body=b"data")
    s3 = client(minio, vended(minio, bucket, "t1", FileAccess.READ))
    assert s3.get_object(Bucket=bucket, Key="wh/t1/there")["Body"].read() == b"data"
    assert s3.head_object(Bucket=bucket, Key="wh/t1/there")["ContentLength"] == 4
    assert s3.list_objects_v2(Bucket=bucket, Prefix="wh/t1/")["KeyCount"] == 1
    require_denied(s3.put_object, Bucket=bucket, Key="wh/t1/there", Body=b"")
    require_denied(s3.put_object, Bucket=bucket, Key="wh/t1/new", Body=b"")
    require_denied(s3.delete_object, Bucket=bucket, Key="wh/t1/there")
    require_denied(s3.create_multipart_upload, Bucket=bucket, Key="wh/t1/new")
    copied = {"Bucket": bucket, "Key": "wh/t1/there"}
    require_denied(s3.copy_object, Bucket=bucket, Key="wh/t1/copy", CopySource=copied)
    refused = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "wh/t1/there"}]})["Errors"]
    assert [each["Code"] for each in refused] == ["AccessDenied"]
    assert minio.keys(bucket) == ["wh/t1/there"]


def test_why_minio_is_not_tested_with_stars(minio: Minio, bucket: str) -> None:
    """MinIO reads the star in `${*}` as a wildcard between `${` and `}`: a credential would open other folders."""
    with pytest.raises(CredentialNotIssued):
        vended(minio, bucket, "a*")
    credential = read_credential(minio.credential)
    profile = read_profile(minio.profile(bucket, "wh"), credential)
    assert isinstance(profile, S3Profile)
    policy = s3_policy(profile.copy_with(flavor="aws", endpoint=None), "wh/a*", FileAccess.READ_WRITE)
    assert json.loads(policy)["Statement"][0]["Resource"].endswith("/wh/a${*}/*")
    keys = assume_role(profile, credential, role_arn=None, session_name="s", DurationSeconds=900, Policy=policy)
    s3 = minio.client(
        aws_access_key_id=keys.access_key_id,
        aws_secret_access_key=keys.secret_access_key,
        aws_session_token=str(keys.session_token),
    )
    require_denied(s3.put_object, Bucket=bucket, Key="wh/a*/x", Body=b"")
    s3.put_object(Bucket=bucket, Key="wh/a${b}/x", Body=b"")


def test_the_lifetime_is_that_of_the_profile(minio: Minio, bucket: str) -> None:
    long, short = (
        vended(minio, bucket, "t1", **{"sts-token-validity-seconds": seconds}).expires_at for seconds in (7200, 900)
    )
    assert 6290 <= (long - short).total_seconds() <= 6301
    assert long.utcoffset() is not None


def test_it_is_not_shown(minio: Minio, bucket: str) -> None:
    vended_credentials = vended(minio, bucket, "t1")
    assert not any(secret in repr(vended_credentials) for secret in vended_credentials.config.values())


def test_a_key_that_the_store_does_not_know_gets_nothing(minio: Minio, bucket: str) -> None:
    credential = read_credential(minio.credential | {"secret-access-key": "canary-wrong"})
    profile = read_profile(minio.profile(bucket, "wh"), credential)
    with pytest.raises(CredentialNotIssued) as refused:
        issue(profile, credential, location=f"s3://{bucket}/wh/t1", rights=FileAccess.READ)
    assert (refused.value.status, refused.value.wire_type) == (412, "ShortTermCredentialError")
    assert "canary" not in refused.value.message
