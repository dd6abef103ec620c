"""Remote signing at real stores: what clients without keys can do with a table, and which requests are not signed."""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Callable
from io import BytesIO
from itertools import count
from typing import Any
from urllib.parse import quote

import pytest
import requests
from defusedxml import ElementTree

from catalog.models import Tabular
from storage.models import Warehouse
from tests.catalog_fixtures import SCHEMA
from tests.harness.wsgi_client import ApiClient
from tests.management.warehouse_request_fixtures import keep_secrets
from tests.parts.s3 import REGION, S3Server
from tests.signing_fixtures import (
    SigningClient,
    add_tabular,
    authorize_signatures,
    digest,
    new_warehouse,
    sign_writes,
)

pytestmark = pytest.mark.django_db

_numbers = count(1)


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.part(name)) for name in ("minio", "seaweedfs")])
def store(request: pytest.FixtureRequest) -> S3Server:
    found: S3Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def bucket(store: S3Server) -> str:
    return store.create_bucket(f"signing-{next(_numbers)}")


@pytest.fixture
def create(
    bootstrapped: None, store: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Warehouse]:
    """Create a warehouse in `wh` of the bucket."""
    keep_secrets(monkeypatch)
    return lambda **members: new_warehouse(store.profile(bucket, "wh", **members), store.credential)


@pytest.fixture(params=[True, False], ids=["narrowed keys", "own keys"])
def warehouse(
    request: pytest.FixtureRequest, create: Callable[..., Warehouse], monkeypatch: pytest.MonkeyPatch
) -> Warehouse:
    sign_writes(monkeypatch)
    return create(**{"sts-enabled": request.param})


@pytest.fixture
def table(warehouse: Warehouse) -> Tabular:
    return add_tabular(warehouse, "t")


@pytest.fixture
def client(warehouse: Warehouse, table: Tabular) -> SigningClient:
    return SigningClient.of(warehouse, table.pk, REGION)


@pytest.fixture
def base(store: S3Server, bucket: str) -> str:
    """The base URL of the warehouse."""
    return f"{store.endpoint}{bucket}/wh"


def deletion(*keys: str) -> bytes:
    objects = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
    return f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{objects}</Delete>'.encode()


def listed(response: requests.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [each.text or "" for each in ElementTree.fromstring(response.content).iter() if each.tag.endswith("}Key")]


NAMES = ("a", "p=1/ü +&%2F.parquet", "it's (1)~*!$;:@,[x].orc", '#?^`{|}"<>')


@pytest.mark.parametrize("name", NAMES)
def test_an_object_is_written_looked_at_read_and_deleted(
    client: SigningClient, store: S3Server, bucket: str, base: str, name: str
) -> None:
    uri = f"{base}/t/data/{quote(name, safe='/')}"
    assert client.send("PUT", uri, b"content", headers={"Content-Type": "text/plain"}).status_code == 200
    assert store.keys(bucket) == [f"wh/t/data/{name}"]
    assert client.send("HEAD", uri).headers["content-length"] == "7"
    assert client.send("GET", uri, headers={"Range": "bytes=0-2"}).content == b"con"
    assert client.send("DELETE", uri).status_code == 204
    assert store.keys(bucket) == []


def test_paths_that_are_encoded_less_than_signatures_are(
    client: SigningClient, store: S3Server, bucket: str, base: str
) -> None:
    assert client.send("PUT", f"{base}/t/p=1/a+b(1),$x", b"x").status_code == 200
    assert store.keys(bucket) == ["wh/t/p=1/a+b(1),$x"]


def test_an_object_is_uploaded_in_parts(client: SigningClient, store: S3Server, bucket: str, base: str) -> None:
    uri = f"{base}/t/data/large"
    begun = client.send("POST", f"{uri}?uploads")
    upload = quote(re.findall("<UploadId>(.*)</UploadId>", begun.text)[0], safe="")
    parts = [b"x" * 5 * 1024 * 1024, b"end"]
    tags = [
        client.send("PUT", f"{uri}?partNumber={number}&uploadId={upload}", part).headers["etag"]
        for number, part in enumerate(parts, 1)
    ]
    reported = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{tag}</ETag></Part>" for n, tag in enumerate(tags, 1))
    whole = f"<CompleteMultipartUpload>{reported}</CompleteMultipartUpload>".encode()
    assert "CompleteMultipartUploadResult" in client.send("POST", f"{uri}?uploadId={upload}", whole).text
    assert store.client().get_object(Bucket=bucket, Key="wh/t/data/large")["Body"].read() == b"".join(parts)
    given_up = client.send("POST", f"{uri}?uploads").text
    other = quote(re.findall("<UploadId>(.*)</UploadId>", given_up)[0], safe="")
    assert client.send("DELETE", f"{uri}?uploadId={other}").status_code == 204
    assert "Uploads" not in store.client().list_multipart_uploads(Bucket=bucket)


def test_many_are_listed_and_deleted(
    client: SigningClient, warehouse: Warehouse, store: S3Server, bucket: str, base: str
) -> None:
    for name in ("t/a", "t/b", "t/c d", "t2/other"):
        store.client().put_object(Bucket=bucket, Key=f"wh/{name}", Body=b"")
    at = base.removesuffix("/wh")
    response = client.send("GET", f"{at}?list-type=2&prefix=wh%2Ft%2F&max-keys=2")
    assert listed(response) == ["wh/t/a", "wh/t/b"]
    token = quote(re.findall("<NextContinuationToken>(.*)</NextContinuationToken>", response.text)[0], safe="")
    more = client.send("GET", f"{at}/?list-type=2&prefix=wh/t/&max-keys=2&continuation-token={token}")
    assert listed(more) == ["wh/t/c d"]
    assert listed(client.send("GET", f"{at}?list-type=2&prefix=wh/t/c+d&delimiter=/")) == ["wh/t/c d"]
    wanted = deletion("wh/t/a", "wh/t/c d")
    if not warehouse.storage_profile["sts-enabled"]:
        refused = client.sign("POST", f"{at}?delete", body=wanted.decode())
        assert refused.refused(403, "RemoteSigningDisabled", "sts-enabled")
        return
    assert client.send("POST", f"{at}?delete", wanted).status_code == 200
    assert store.keys(bucket) == ["wh/t/b", "wh/t2/other"]


def test_an_object_is_copied_within_the_table(client: SigningClient, store: S3Server, bucket: str, base: str) -> None:
    store.client().put_object(Bucket=bucket, Key="wh/t/a b", Body=b"content")
    copied = client.send("PUT", f"{base}/t/copy", headers={"x-amz-copy-source": f"/{bucket}/wh/t/a%20b"})
    assert copied.status_code == 200
    assert store.client().get_object(Bucket=bucket, Key="wh/t/copy")["Body"].read() == b"content"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Amz-Meta-Snowball-Auto-Extract", "true"),
        ("x-amz-meta-minio-snowball-prefix", "evil"),
        ("x-minio-extract", "true"),
        ("x-minio-force-delete", "true"),
        ("x-goog-copy-source", "/{bucket}/wh/t2/secret"),
        ("x-oss-copy-source", "/{bucket}/wh/t2/secret"),
        ("x_amz_copy_source", "/{bucket}/wh/t2/secret"),
    ],
)
def test_no_archive_is_unpacked_and_nothing_copied_in_a_stores_own_way(
    client: SigningClient, base: str, bucket: str, name: str, value: str
) -> None:
    """MinIO unpacked an archive into the whole bucket when such metadata was signed."""
    response = client.sign("PUT", f"{base}/t/a.tar", headers={name: value.format(bucket=bucket)})
    assert response.refused(400, "UnsupportedHeader")


def test_nothing_is_signed_for_files_of_others(
    client: SigningClient, warehouse: Warehouse, base: str, bucket: str
) -> None:
    add_tabular(warehouse, "t2")
    at = base.removesuffix("/wh")
    for method, uri in (
        ("GET", f"{base}/none/a"), ("PUT", f"{base}/a"), ("GET", f"{at}/outside/t/a"), ("DELETE", f"{base}/t"),
        ("GET", f"{at}?list-type=2&prefix=wh/t"), ("GET", f"{at}?list-type=2&prefix=wh/"),
    ):  # fmt: skip
        assert client.sign(method, uri).refused(400, "NoSuchTableLocationException"), uri
    both = deletion("wh/t/a", "wh/t2/a").decode()
    assert client.sign("POST", f"{at}?delete", body=both).refused(400, "RequestUriMismatch")
    source = {"x-amz-copy-source": f"/{bucket}/wh/t2/secret"}
    assert client.sign("PUT", f"{base}/t/a", headers=source).refused(400, "RequestUriMismatch")
    assert client.sign("GET", f"{base}/t/../t2/a").refused(400, "InvalidObjectKey")


def test_a_signature_is_valid_for_its_own_request_only(
    client: SigningClient, store: S3Server, bucket: str, base: str
) -> None:
    s3, at = store.client(), base.removesuffix("/wh")
    for key in ("wh/t/a", "wh/t/b", "wh/other/a"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"content")
    other = store.create_bucket(f"{bucket}-other")
    s3.put_object(Bucket=other, Key="wh/t/a", Body=b"other")
    before = store.keys(bucket)
    read = client.signed("GET", f"{base}/t/a", headers={"x-amz-meta-a": "b"})
    lists = client.signed("GET", f"{at}?list-type=2&prefix=wh/t/")
    written = client.signed("PUT", f"{base}/t/new")
    for method, uri, headers in (
        ("GET", f"{base}/t/b", read),
        ("GET", f"{base}/other/a", read),
        ("GET", f"{store.endpoint}{other}/wh/t/a", read),
        ("DELETE", f"{base}/t/a", read),
        ("PUT", f"{base}/t/a", read),
        ("GET", f"{base}/t/a?acl", read),
        ("GET", f"{base}/t/a", read | {"Host": "localhost"}),
        ("GET", f"{base}/t/a", read | {"x-amz-meta-a": "c"}),
        ("GET", f"{base}/t/a", read | {"x-amz-date": "20200101T000000Z"}),
        ("GET", f"{at}?list-type=2&prefix=wh/", lists),
        ("GET", f"{at}?list-type=2", lists),
        ("PUT", f"{base}/other/a", written),
        ("PUT", f"{base}/t/new", written | {"x-amz-content-sha256": hashlib.sha256(b"changed").hexdigest()}),
    ):
        response = requests.request(
            method, uri, headers=headers, data=b"changed" if method == "PUT" else b"", timeout=30
        )
        assert response.status_code in {400, 403}, (method, uri, response.text)
    assert store.keys(bucket) == before
    assert requests.get(f"{base}/t/a", headers=read, timeout=30).content == b"content"


def test_only_reads_are_signed_with_the_warehouses_own_keys(
    create: Callable[..., Warehouse], store: S3Server, bucket: str, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a store whose signature checks were not probed, permissions still apply."""
    authorize_signatures(monkeypatch)
    warehouse = create(**{"sts-enabled": False})
    client = SigningClient.of(warehouse, add_tabular(warehouse, "t").pk, REGION)
    store.client().put_object(Bucket=bucket, Key="wh/t/a", Body=b"content")
    uri, at = f"{base}/t/a", base.removesuffix("/wh")
    assert client.send("GET", uri).content == b"content"
    assert client.send("HEAD", uri).status_code == 200
    assert listed(client.send("GET", f"{at}?list-type=2&prefix=wh/t/")) == ["wh/t/a"]
    for method, asked in (
        ("PUT", uri), ("PUT", f"{uri}?partNumber=1&uploadId=a"), ("POST", f"{uri}?uploads"),
        ("POST", f"{uri}?uploadId=a"), ("DELETE", uri), ("DELETE", f"{uri}?uploadId=a"),
    ):  # fmt: skip
        assert client.sign(method, asked).refused(403, "RemoteSigningDisabled", "sts-enabled"), (method, asked)
    body = deletion("wh/t/a").decode()
    assert client.sign("POST", f"{at}?delete", body=body).refused(403, "RemoteSigningDisabled", "sts-enabled")


@pytest.fixture
def fenced(create: Callable[..., Warehouse]) -> SigningClient:
    """A table in a warehouse with temporary keys."""
    warehouse = create()
    return SigningClient.of(warehouse, add_tabular(warehouse, "t").pk, REGION)


def test_a_header_that_was_not_signed_copies_nothing_from_outside_the_table(
    fenced: SigningClient, store: S3Server, bucket: str, base: str
) -> None:
    """MinIO also applies an `x-amz-copy-source` that is added to a signed request, with the permissions of the key."""
    secret = store.create_bucket(f"{bucket}-secret")
    store.client().put_object(Bucket=secret, Key="a", Body=b"secret")
    store.client().put_object(Bucket=bucket, Key="wh/t2/a", Body=b"secret")
    for source in (f"/{secret}/a", f"/{bucket}/wh/t2/a"):
        signed = fenced.signed("PUT", f"{base}/t/stolen")
        response = requests.put(f"{base}/t/stolen", headers=signed | {"x-amz-copy-source": source}, timeout=30)
        assert response.status_code == 403, response.text
    assert store.keys(bucket, "wh/t/") == []


def test_an_archive_is_not_unpacked_outside_the_table(
    fenced: SigningClient, store: S3Server, bucket: str, base: str
) -> None:
    """MinIO also applies these headers when they are added to a signed request."""
    archive = BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("victim.txt")
        member.size = 5
        tar.addfile(member, BytesIO(b"pwned"))
    orders = {"x-amz-meta-snowball-auto-extract": "true", "x-amz-meta-minio-snowball-prefix": "wh/t2"}
    headers = fenced.signed("PUT", f"{base}/t/a.tar") | orders
    requests.put(f"{base}/t/a.tar", data=archive.getvalue(), headers=headers, timeout=30)
    assert [key for key in store.keys(bucket) if not key.startswith("wh/t/")] == []


def test_another_list_of_deletions_than_the_signed_one_deletes_nothing_outside_the_table(
    fenced: SigningClient, store: S3Server, bucket: str, base: str
) -> None:
    """MinIO and SeaweedFS accept any body instead of the signed one, with the permissions of the key."""
    store.client().put_object(Bucket=bucket, Key="wh/t2/a", Body=b"content")
    uri, own, wanted = f"{base.removesuffix('/wh')}?delete", deletion("wh/t/none"), deletion("wh/t2/a")
    signed = fenced.signed("POST", uri, body=own.decode(), headers={"Content-MD5": digest(own)})
    unbound = fenced.signed("POST", uri, body=own.decode())
    for headers in (signed, signed | {"Content-MD5": digest(wanted)}, unbound | {"Content-MD5": digest(wanted)}):
        response = requests.post(uri, data=wanted, headers=headers, timeout=30)
        assert response.status_code == 403 or "<Code>AccessDenied</Code>" in response.text, response.text
    assert store.keys(bucket) == ["wh/t2/a"]


def test_temporary_keys_are_for_one_folder(
    create: Callable[..., Warehouse], store: S3Server, bucket: str, base: str
) -> None:
    warehouse = create()
    moved = add_tabular(warehouse, "t", claims=(f"{warehouse.location}/before",))
    client, uri = SigningClient.of(warehouse, moved.pk, REGION), f"{base.removesuffix('/wh')}?delete"
    for name in ("t/a", "before/a"):
        assert client.send("PUT", f"{base}/{name}", b"x").status_code == 200
    both = deletion("wh/t/a", "wh/before/a")
    assert client.sign("POST", uri, body=both.decode()).refused(400, "RequestUriMismatch", "one folder")
    for key in ("wh/t/a", "wh/before/a"):
        assert client.send("POST", uri, deletion(key)).status_code == 200
    assert store.keys(bucket) == []


def test_a_role_is_assumed_once_for_many_signatures(
    create: Callable[..., Warehouse], store: S3Server, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_writes(monkeypatch)
    role = store.role_arn or "arn:aws:iam::123456789012:role/any"
    warehouse = create(**{"assume-role-arn": role, "sts-enabled": False})
    client = SigningClient.of(warehouse, add_tabular(warehouse, "t").pk, REGION)
    tokens = {client.signed("PUT", f"{base}/t/{number}")["x-amz-security-token"] for number in range(5)}
    assert len(tokens) == 1
    assert client.send("PUT", f"{base}/t/a", b"x").status_code == 200


def test_a_staged_table_is_written_before_it_is_there(
    create: Callable[..., Warehouse], store: S3Server, bucket: str
) -> None:
    catalog = ApiClient(f"/catalog/v1/{create().pk}")
    assert catalog.post("/namespaces", {"namespace": ["ns"]}).status == 200
    asked = {"name": "t", "schema": SCHEMA, "stage-create": True}
    signing = {"X-Iceberg-Access-Delegation": "remote-signing"}
    staged: dict[str, Any] = catalog.post("/namespaces/ns/tables", asked, **signing).json()
    config, location = staged["config"], staged["metadata"]["location"]
    assert config["s3.signer.endpoint"].startswith("v1/signer/")
    client = SigningClient(config["s3.signer.endpoint"].removeprefix("v1"), REGION)
    uri = f"{store.endpoint}{location.removeprefix('s3://')}/data/a"
    assert client.send("PUT", uri, b"x").status_code == 200
    assert store.keys(bucket) == [f"{location.removeprefix(f's3://{bucket}/')}/data/a"]
