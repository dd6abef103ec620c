"""Properties of the real object stores that the other tests of this folder rely on."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable

import obstore
import pytest
import requests
from azure.core.exceptions import HttpResponseError, ResourceExistsError
from azure.storage.blob import ContainerClient, generate_container_sas
from botocore.exceptions import ClientError
from obstore.exceptions import AlreadyExistsError
from obstore.store import GCSStore

from tests.parts.azurite import Azurite
from tests.parts.fake_gcs import FakeGcs
from tests.parts.s3 import S3Server

FOLDER_POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
            "Resource": "arn:aws:s3:::real-stores/wh/t1/*",
        },
        {
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": "arn:aws:s3:::real-stores",
            "Condition": {"StringLike": {"s3:prefix": "wh/t1/*"}},
        },
    ],
}
"""For the folder `wh/t1/`."""


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.part(name)) for name in ("minio", "seaweedfs")])
def s3_server(request: pytest.FixtureRequest) -> S3Server:
    """Each of the stores with the S3 API."""
    server: S3Server = request.getfixturevalue(request.param)
    return server


def test_stores_with_s3_hold_a_session_to_its_policy(s3_server: S3Server) -> None:
    bucket = s3_server.create_bucket("real-stores")
    keys = ["wh/t1/a", "wh/t10/a"]
    for key in keys:
        s3_server.client().put_object(Bucket=bucket, Key=key, Body=b"x")
    session = s3_server.client("sts").assume_role(
        RoleArn=s3_server.role_arn or "arn:of:any:role:here",
        RoleSessionName="tests",
        DurationSeconds=900,
        Policy=json.dumps(FOLDER_POLICY),
    )["Credentials"]
    store = s3_server.client(
        aws_access_key_id=session["AccessKeyId"],
        aws_secret_access_key=session["SecretAccessKey"],
        aws_session_token=session["SessionToken"],
    )
    assert store.get_object(Bucket=bucket, Key="wh/t1/a")["Body"].read() == b"x"
    assert [found["Key"] for found in store.list_objects_v2(Bucket=bucket, Prefix="wh/t1/")["Contents"]] == ["wh/t1/a"]
    refused: list[Callable[[], object]] = [
        lambda: store.get_object(Bucket=bucket, Key="wh/t10/a"),
        lambda: store.put_object(Bucket=bucket, Key="wh/t10/b", Body=b"x"),
        lambda: store.delete_object(Bucket=bucket, Key="wh/t10/a"),
        lambda: store.copy_object(Bucket=bucket, Key="wh/t1/b", CopySource=f"{bucket}/wh/t10/a"),
        lambda: store.create_multipart_upload(Bucket=bucket, Key="wh/t10/b"),
        lambda: store.list_objects_v2(Bucket=bucket, Prefix="wh/t10/"),
        lambda: store.list_objects_v2(Bucket=bucket, Prefix="wh/t1"),
        lambda: store.list_objects_v2(Bucket=bucket),
    ]
    for ask in refused:
        with pytest.raises(ClientError) as reported:
            ask()
        assert reported.value.response["Error"]["Code"] == "AccessDenied"
    reported = store.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "wh/t10/a"}]})["Errors"]
    assert [error["Code"] for error in reported] == ["AccessDenied"]
    assert s3_server.keys(bucket) == keys


def test_stores_with_s3_support_conditional_puts(s3_server: S3Server) -> None:
    bucket = s3_server.create_bucket("real-stores-put")
    store = s3_server.client()
    store.put_object(Bucket=bucket, Key="a", Body=b"first", IfNoneMatch="*")
    with pytest.raises(ClientError) as reported:
        store.put_object(Bucket=bucket, Key="a", Body=b"second", IfNoneMatch="*")
    assert reported.value.response["ResponseMetadata"]["HTTPStatusCode"] == 412
    assert store.get_object(Bucket=bucket, Key="a")["Body"].read() == b"first"


def test_azurite_keeps_existing_blobs_and_rejects_a_wrong_key(azurite: Azurite) -> None:
    container = azurite.create_container("real-stores-key")
    with azurite.client() as client:
        blobs = client.get_container_client(container)
        blobs.upload_blob("t1/a", b"first")
        with pytest.raises(ResourceExistsError):
            blobs.upload_blob("t1/a", b"second")
        assert blobs.download_blob("t1/a").readall() == b"first"
    assert azurite.keys(container) == ["t1/a"]
    other_key = base64.b64encode(b"another key").decode()
    stranger = ContainerClient(azurite.endpoint, container, credential=other_key)
    with stranger, pytest.raises(HttpResponseError) as refused:
        stranger.download_blob("t1/a")
    assert refused.value.status_code == 403


def test_azurite_holds_a_sas_to_its_permissions_and_its_end(azurite: Azurite) -> None:
    container = azurite.create_container("real-stores-sas")
    with azurite.client() as client:
        client.get_container_client(container).upload_blob("a", b"x")

    def as_reader(until: dt.timedelta) -> ContainerClient:
        sas = generate_container_sas(
            azurite.account, container, account_key=azurite.key, permission="rl",
            start=dt.datetime.now(dt.UTC) - dt.timedelta(hours=1), expiry=dt.datetime.now(dt.UTC) + until,
        )  # fmt: skip
        return ContainerClient(azurite.endpoint, container, credential=sas)

    with as_reader(dt.timedelta(hours=1)) as reader:
        assert reader.download_blob("a").readall() == b"x"
        with pytest.raises(HttpResponseError) as refused:
            reader.upload_blob("b", b"x")
        assert refused.value.status_code == 403
    with as_reader(dt.timedelta(minutes=-1)) as late, pytest.raises(HttpResponseError) as refused:
        late.download_blob("a")
    assert refused.value.status_code == 403
    assert azurite.keys(container) == ["a"]


def test_fake_gcs_holds_writers_to_their_preconditions(fake_gcs: FakeGcs) -> None:
    bucket = fake_gcs.create_bucket("real-stores")
    responses = [fake_gcs.put(bucket, "t1/a", data, ifGenerationMatch=0) for data in (b"first", b"second")]
    assert [response.status_code for response in responses] == [200, 412]
    kept = requests.get(f"{fake_gcs.endpoint}/storage/v1/b/{bucket}/o/t1%2Fa", {"alt": "media"}, timeout=10)
    assert kept.content == b"first"
    assert fake_gcs.keys(bucket) == ["t1/a"]


def test_fake_gcs_accepts_uploads_of_obstore(fake_gcs: FakeGcs) -> None:
    bucket = fake_gcs.create_bucket("real-stores-xml")
    account = {"gcs_base_url": fake_gcs.endpoint, "disable_oauth": True, "client_email": "", "private_key": ""}
    key = json.dumps({**account, "private_key_id": ""})
    store = GCSStore(bucket, service_account_key=key, client_options={"allow_http": True})
    name = "t 1/ü?#+%2F"
    obstore.put(store, name, b"first", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, name, b"second", mode="create")
    assert obstore.get(store, name).bytes() == b"first"
    assert [found["path"] for page in obstore.list(store, "t 1") for found in page] == [name] == fake_gcs.keys(bucket)
    obstore.delete(store, name)
    assert fake_gcs.keys(bucket) == []
