"""Remote signing: hosts that belong to the store of the warehouse, and the position of the bucket in the URI."""

from __future__ import annotations

from typing import Any

import pytest

from icekeeper.kernel.errors.types import CatalogError
from storage.documents import read_document
from storage.profiles.s3 import S3Profile, StackitProfile
from storage.signing.request import RequestToSign, read_request
from storage.signing.uri import bucket_addresses
from tests.signing_fixtures import s3_profile

AWS = {"endpoint": None, "flavor": "aws", "path-style-access": None, "region": "eu-central-1"}


def profile_of(**members: Any) -> S3Profile:
    return read_document(S3Profile, s3_profile(**members), "storage-profile").with_derived_fields()


def key_in(uri: str, profile: S3Profile) -> str:
    request = read_request(RequestToSign("", "GET", uri, {}), profile, bucket_addresses(profile))
    return request.keys[0]


def at(endpoint: str | None, bucket: str, **members: Any) -> S3Profile:
    return profile_of(**{"endpoint": endpoint, "bucket": bucket, "path-style-access": None, **members})


@pytest.mark.parametrize(
    ("uri", "endpoint", "bucket"),
    [
        ("http://s3-endpoint/bar/key", "http://s3-endpoint", "bar"),
        ("http://localhost:9000/bar/key", "http://localhost:9000", "bar"),
        ("http://192.168.1.1/bar/key", "http://192.168.1.1", "bar"),
        ("http://127.0.0.1:9000/bar/key", "http://127.0.0.1:9000", "bar"),
        ("http://[::1]:9000/bar/key", "http://[::1]:9000", "bar"),
        ("http://s3.foo:9000/bar/key", "http://s3.foo:9000", "bar"),
        ("https://s3.localhost.localdomain:9000/bar/key", "https://s3.localhost.localdomain:9000", "bar"),
        ("https://s3.private.amazonaws.com:9000/bar/key", "https://s3.private.amazonaws.com:9000", "bar"),
        (
            "https://s3-accesspoint.dualstack.us-gov-west-1.amazonaws.com/bar/key",
            "https://s3-accesspoint.dualstack.us-gov-west-1.amazonaws.com",
            "bar",
        ),
        ("https://S3.Example/bar/key", "https://s3.example", "bar"),
        ("https://s3.example:443/bar/key", "https://s3.example", "bar"),
        ("https://foo.s3.endpoint.com/key", "https://s3.endpoint.com", "foo"),
        ("https://foo.s3.my-region.private.com:9000/key", "https://s3.my-region.private.com:9000", "foo"),
        ("https://foo.acct.r2.cloudflarestorage.com/key", "https://acct.r2.cloudflarestorage.com", "foo"),
        ("https://foo.acct.eu.r2.cloudflarestorage.com/key", "https://acct.eu.r2.cloudflarestorage.com", "foo"),
        ("https://acct.r2.cloudflarestorage.com/foo/key", "https://acct.r2.cloudflarestorage.com", "foo"),
    ],
)
def test_endpoints(uri: str, endpoint: str, bucket: str) -> None:
    assert key_in(uri, at(endpoint, bucket)) == "key"


@pytest.mark.parametrize(
    "host",
    [
        "s3.eu-central-1.amazonaws.com", "s3-eu-central-1.amazonaws.com", "s3.dualstack.eu-central-1.amazonaws.com",
        "s3-fips.eu-central-1.amazonaws.com", "s3-fips.dualstack.eu-central-1.amazonaws.com", "s3.amazonaws.com",
    ],
)  # fmt: skip
def test_aws_in_the_profiles_region(host: str) -> None:
    for bucket in ("foo", "dotted.foo.bar"):
        profile = profile_of(**AWS, bucket=bucket)
        assert key_in(f"https://{host}/{bucket}/a/key", profile) == "a/key"
        assert key_in(f"https://{bucket}.{host}/a/key", profile) == "a/key"
    china = profile_of(**AWS | {"region": "cn-north-1"}, bucket="foo")
    assert key_in("https://foo.s3.cn-north-1.amazonaws.com.cn/key", china) == "key"
    east = profile_of(**AWS | {"region": "us-east-1"}, bucket="foo")
    assert key_in("https://foo.s3-external-1.amazonaws.com/key", east) == "key"


def error(uri: str, profile: S3Profile) -> str:
    with pytest.raises(CatalogError) as refused:
        key_in(uri, profile)
    assert refused.value.status == 400
    return refused.value.wire_type


@pytest.mark.parametrize(
    "uri",
    [
        "https://s3.eu-west-1.amazonaws.com/foo/key",
        "https://s3.eu-central-1.amazonaws.com/other/key",
        "https://other.s3.eu-central-1.amazonaws.com/foo/key",
        "https://other.s3.eu-central-1.amazonaws.com/key",
        "https://s3.eu-central-1.amazonaws.com.evil.example/foo/key",
        "https://foo.s3.eu-central-1.amazonaws.com.cn/key",
        "https://s3.eu-central-1.amazonaws.com:8443/foo/key",
        "https://evil.example/foo/key",
        "https://evil.example\\.s3.eu-central-1.amazonaws.com/foo/key",
        "https://s3.eu-central-1.amazonaws.com@evil.example/foo/key",
        "https://foo@s3.eu-central-1.amazonaws.com/foo/key",
        "https://foo:bar@s3.eu-central-1.amazonaws.com/foo/key",
        "https://s3.eu-central-1.amazonaws.com./foo/key",
        "https://s3.eu-central-1.amazonaws.com/FOO/key",
        "https://s3.eu-central-1.amazonaws.com/%66oo/key",
        "https://s3.eu-central-1.amazonaws.com//foo/key",
        "https://s3.eu-central-1.amazonaws.com/",
        "https://s3.eu-central-1.amazonaws.com",
        "https://s3.eu-central-1.amazonaws.com/foo",
        "https://foo.s3.eu-central-1.amazonaws.com/",
        "https://foo.s3.eu-central-1.amazonaws.com",
        "https://s3.\uff45u-central-1.amazonaws.com/foo/key",
        "https://s3.eu-central-1.amazonaws.com:443:80/foo/key",
        "https://s3.eu-central-1.amazonaws.com/foo/key#fragment",
        "https://s3.eu-central-1.amazonaws.com/foo/" + "k" * 9000,
    ],
)
def test_uris_of_other_buckets_are_rejected(uri: str) -> None:
    assert error(uri, profile_of(**AWS, bucket="foo")) == "UriNotS3"


@pytest.mark.parametrize(
    ("endpoint", "uri"),
    [
        ("http://store.example:9000", "https://store.example:9001/foo/key"),
        ("http://store.example:9000", "http://store.example/foo/key"),
        ("https://store.example", "http://store.example/foo/key"),
        ("http://127.0.0.1:9000", "http://foo.127.0.0.1:9000/key"),
        ("http://minio:9000", "http://foo.minio:9000/key"),
        ("http://minio:9000", "http://localhost:9000/foo/key"),
    ],
)
def test_other_ports_and_hosts(endpoint: str, uri: str) -> None:
    assert error(uri, at(endpoint, "foo")) == "UriNotS3"


def test_a_uri_has_only_one_interpretation() -> None:
    """A store with virtual-hosted buckets would read the whole path as the key, a path-style store would not."""
    by_path = at("https://store.example", "foo", **{"path-style-access": True})
    assert error("https://foo.store.example/bar/key", by_path) == "UriNotS3"
    of_bucket = at("https://foo.store.example", "foo")
    assert error("https://foo.store.example/foo/key", of_bucket) == "UriNotS3"
    reported = {"remote-signing-url-style": "path"}
    assert key_in("https://foo.store.example/foo/key", at("https://foo.store.example", "foo", **reported)) == "key"
    reported = {"remote-signing-url-style": "virtual_host", "path-style-access": True}
    assert key_in("https://foo.store.example/foo/key", at("https://store.example", "foo", **reported)) == "foo/key"
    assert error("https://store.example/foo/key", at("https://store.example", "foo", **reported)) == "UriNotS3"


def test_stackit_has_the_bucket_before_the_host() -> None:
    document = {"type": "stackit", "bucket": "foo", "region": "eu01", "sts-enabled": False}
    profile = read_document(StackitProfile, document, "storage-profile").with_derived_fields().as_s3()
    assert key_in("https://foo.object.storage.eu01.onstackit.cloud/a/key", profile) == "a/key"
    assert error("https://object.storage.eu01.onstackit.cloud/foo/a/key", profile) == "UriNotS3"
