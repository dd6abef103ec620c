"""Strict parsing of requests to sign; operations that are not on an allow list are rejected."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from icekeeper.kernel.errors.types import CatalogError
from storage.signing.request import Operation, RequestToSign, SignableRequest, read_request
from storage.signing.uri import bucket_addresses
from tests.storage.signing.test_addresses import profile_of

BASE = "http://store.example:9000/my-bucket"
KMS = "arn:aws:kms:eu-1:123456789012:key/abc"
COPY = "x-amz-copy-source"


def read(method: str, path: str, *, headers: dict[str, Any] | None = None, body: str | None = None) -> SignableRequest:
    profile = profile_of()
    many = {name: value if isinstance(value, list) else [value] for name, value in (headers or {}).items()}
    return read_request(RequestToSign("eu-1", method, BASE + path, many, body), profile, bucket_addresses(profile))


def error(method: str, path: str, **more: Any) -> tuple[int, str]:
    with pytest.raises(CatalogError) as refused:
        read(method, path, **more)
    return refused.value.status, refused.value.wire_type


@pytest.mark.parametrize(
    ("method", "path", "operation"),
    [
        ("GET", "/t/a", Operation.READ),
        ("GET", "/t/a?x-id=GetObject", Operation.READ),
        ("GET", "/t/a?partNumber=1", Operation.READ),
        ("HEAD", "/t/a", Operation.READ),
        ("PUT", "/t/a", Operation.WRITE),
        ("PUT", "/t/a?x-id=PutObject", Operation.WRITE),
        ("PUT", "/t/a?partNumber=10000&uploadId=a.b_c-d~e%2Bf", Operation.WRITE),
        ("PUT", "/t/a?uploadId=a&partNumber=1&x-id=UploadPart", Operation.WRITE),
        ("POST", "/t/a?uploads", Operation.WRITE),
        ("POST", "/t/a?uploads=&x-id=CreateMultipartUpload", Operation.WRITE),
        ("POST", "/t/a?uploadId=a", Operation.WRITE),
        ("DELETE", "/t/a", Operation.DELETE),
        ("DELETE", "/t/a?uploadId=a&x-id=AbortMultipartUpload", Operation.DELETE),
    ],
)
def test_requests_about_one_object(method: str, path: str, operation: Operation) -> None:
    found = read(method, path)
    assert (found.operation, found.keys, found.path) == (operation, ("t/a",), "/my-bucket/t/a")


@pytest.mark.parametrize("method", ["PATCH", "OPTIONS", "TRACE", "get", "", "G" * 10_000])
def test_other_methods(method: str) -> None:
    assert error(method, "/t/a") == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    ("method", "query"),
    [
        *(
            (method, name)
            for method in ("GET", "HEAD", "PUT", "POST", "DELETE")
            for name in (
                "acl", "tagging", "retention", "legal-hold", "torrent", "restore", "versionId=a", "attributes",
                "select&select-type=2", "response-content-type=a", "X-Amz-Signature=a", "x-amz-copy-source=a", "",
                "uploads&uploadId=a", "partNumber=1&uploadId=a&acl", "list-type=2", "policy", "append&position=0",
                "Uploads", "uploadid=a", "partNumber=1&partNumber=2&uploadId=a", "x-id=a&x-id=b", "x-id=a/b",
                "uploadId=a&uploadId=b", "ac%6C", "&", "=", "uploadId=", "partNumber=0&uploadId=a",
                "partNumber=x&uploadId=a", "uploads=a", "delete1", "a" * 3000,
            )
            if not (method == "POST" and name == "") and (method, name) not in {("GET", ""), ("HEAD", ""), ("PUT", ""),
                                                                               ("DELETE", "")}
        ),
        ("POST", ""),
        ("GET", "uploadId=a"),
        ("GET", "uploads"),
        ("PUT", "uploadId=a"),
        ("PUT", "partNumber=1"),
        ("DELETE", "partNumber=1"),
        ("DELETE", "delete"),
        ("PUT", "delete"),
    ],
)  # fmt: skip
def test_other_query_parameters(method: str, query: str) -> None:
    assert error(method, f"/t/a?{query}") == (400, "UnsupportedQueryParameter")


@pytest.mark.parametrize(
    "path",
    [
        "/t/../u/a", "/t/./a", "/t//a", "/t/a/", "//t/a", "/t/..", "/..", "/.",
        "/t/%2e%2e/u/a", "/t/.%2E/u/a", "/t/%2e/a", "/t%2Fa", "/t/%2F/a", "/t/..%2Fu", "/t/%5C..%5Cu", "/t/a%00",
        "/t/%0A", "/t/%7F", "/t/%C2%85", "/t/" + "x" * 1025, "/t/" + "%C3%BC" * 600,
    ],
)  # fmt: skip
def test_ambiguous_keys_are_rejected(path: str) -> None:
    assert error("GET", path) == (400, "InvalidObjectKey")


@pytest.mark.parametrize(
    "path", ["/t/%zz", "/t/%", "/t/%4", "/t/%C3", "/t/%FF", "/t/%C0%AE", "/t/ü", "/t/a b", "/t/a\tb", "/t/a\\b",
             "/t/<a>", "/t/a|b", "/t/a\nb", "/t/\x00", "/t/a?x-id=%zz", "/t/a?x-id=%FF", "/t/a?x-id=a b",
             "/t/a?uploads;delete", "/t/a?x-id=a\r\nHost: b"]
)  # fmt: skip
def test_undecodable_uris_are_rejected(path: str) -> None:
    assert error("GET", path) == (400, "FailedToDecodeURISegment")


@pytest.mark.parametrize(
    ("uri", "wire_type"),
    [
        ("ftp://store.example:9000/my-bucket/t/a", "UriSchemeNotSupported"),
        ("s3://my-bucket/t/a", "UriSchemeNotSupported"),
        ("/my-bucket/t/a", "UriSchemeNotSupported"),
        ("//store.example:9000/my-bucket/t/a", "UriSchemeNotSupported"),
        ("javascript:alert(1)", "UriSchemeNotSupported"),
        (" http://store.example:9000/my-bucket/t/a", "UriSchemeNotSupported"),
        ("http:/store.example:9000/my-bucket/t/a", "UriSchemeNotSupported"),
        ("", "UriSchemeNotSupported"),
        ("http:///my-bucket/t/a", "UriNoHost"),
        ("http://?a", "UriNoHost"),
    ],
)
def test_invalid_uris_are_rejected(uri: str, wire_type: str) -> None:
    profile = profile_of()
    with pytest.raises(CatalogError) as refused:
        read_request(RequestToSign("eu-1", "GET", uri, {}), profile, bucket_addresses(profile))
    assert (refused.value.status, refused.value.wire_type) == (400, wire_type)


def test_the_key_is_decoded_once() -> None:
    assert read("GET", "/t/a%20b+c%2Bd%25%32%46").keys == ("t/a b+c+d%2F",)
    assert read("GET", "/t/%252e%252e/a").keys == ("t/%2e%2e/a",)


# --- lists -----------------------------------------------------------------------------------------------------------


def test_lists() -> None:
    for slash in ("", "/"):
        found = read("GET", f"{slash}?list-type=2&prefix=wh%2Ft%2Fa+b&max-keys=10&delimiter=%2F&encoding-type=url"
                     "&fetch-owner=true&start-after=wh/t/a&continuation-token=x%2B%3D&x-id=ListObjectsV2")  # fmt: skip
        assert (found.operation, found.keys) == (Operation.LIST, ("wh/t/a b",))
        assert found.path == f"/my-bucket{slash}"
    assert read("GET", "?list-type=2&prefix=wh/t/").keys == ("wh/t/",)


@pytest.mark.parametrize(
    ("query", "wire_type"),
    [
        ("list-type=2", "ListWithoutPrefix"),
        ("list-type=2&prefix=", "ListWithoutPrefix"),
        ("list-type=1&prefix=wh/t/", "UnsupportedListParameter"),
        ("list-type=&prefix=wh/t/", "UnsupportedListParameter"),
        ("list-type=2&prefix=wh/t/&versions", "UnsupportedListParameter"),
        ("list-type=2&prefix=wh/t/&acl", "UnsupportedListParameter"),
        ("list-type=2&prefix=wh/t/&metadata=true", "UnsupportedListParameter"),
        ("list-type=2&prefix=wh/t/&max-keys=-1", "UnsupportedListParameter"),
        ("list-type=2&prefix=wh/t/&Prefix=wh/", "UnsupportedListParameter"),
        ("list-type=2&prefix=wh/t/&continuation-token=%0A", "UnsupportedListParameter"),
        ("list-type=2&prefix=wh/t/&prefix=wh/u/", "RepeatedListParameter"),
        ("list-type=2&list-type=2&prefix=wh/t/", "RepeatedListParameter"),
        ("list-type=2&prefix=wh/t/&pref%69x=wh/u/", "RepeatedListParameter"),
        ("list-type=2&prefix=wh/t/../u/", "InvalidListPrefix"),
        ("list-type=2&prefix=wh/t/..", "InvalidListPrefix"),
        ("list-type=2&prefix=wh/./t/", "InvalidListPrefix"),
        ("list-type=2&prefix=wh//t/", "InvalidListPrefix"),
        ("list-type=2&prefix=/wh/t/", "InvalidListPrefix"),
        ("list-type=2&prefix=wh/t/%5C", "InvalidListPrefix"),
        ("list-type=2&prefix=wh/t/%00", "InvalidListPrefix"),
        ("list-type=2&prefix=wh/t/%EF%BF%BD", "InvalidListPrefix"),
        ("list-type=2&prefix=wh/t/%FF", "FailedToDecodeURISegment"),
    ],
)
def test_other_lists(query: str, wire_type: str) -> None:
    assert error("GET", f"?{query}") == (400, wire_type)


@pytest.mark.parametrize("query", ["", "?versions", "?uploads", "?location", "?prefix=wh/t/", "?policy", "?list-type"])
def test_other_bucket_requests_are_rejected(query: str) -> None:
    for method in ("HEAD", "PUT", "POST", "DELETE"):
        assert error(method, query) == (400, "UriNotS3")
    assert error("GET", query)[1] in {"UriNotS3", "ListWithoutPrefix", "UnsupportedListParameter"}


def test_a_list_reaches_past_the_table() -> None:
    def is_within(prefix: str) -> bool:
        return read("GET", f"?list-type=2&prefix={quote(prefix)}").is_within(["wh/t"])

    assert [is_within(each) for each in ("wh/t/", "wh/t/a", "wh/t", "wh/t2/", "wh/", "w", "other/wh/t/")] == [
        True, True, False, False, False, False, False,
    ]  # fmt: skip


# --- headers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "x-amz-acl", "x-amz-grant-read", "x-amz-grant-full-control", "x-amz-object-lock-mode", "x-amz-tagging",
        "x-amz-object-lock-retain-until-date", "x-amz-object-lock-legal-hold", "x-amz-website-redirect-location",
        "x-amz-bypass-governance-retention", "x-amz-mfa", "x-amz-server-side-encryption",
        "x-amz-server-side-encryption-customer-key", "x-amz-server-side-encryption-context", "x-amz-tagging-directive",
        "x-amz-write-offset-bytes", "x-amz-rename-source", "x-amz-copy-source-server-side-encryption-customer-key",
        "x-amz-unheard-of", "X-Amz-ACL",
    ],
)  # fmt: skip
def test_headers_that_do_more(name: str) -> None:
    assert error("PUT", "/t/a", headers={name: "public-read"})[1] in {"UnsupportedHeader", "InvalidCopySource"}


@pytest.mark.parametrize(
    "name",
    [
        "x-amz-meta-snowball-auto-extract", "X-Amz-Meta-Snowball-Auto-Extract", "x-amz-meta-minio-snowball-prefix",
        "x-amz-meta-minio-snowball-ignore-dirs", "x-amz-meta-x-minio-internal-a", "x-minio-extract",
        "x-minio-force-delete", "x-minio-source-etag", "x-goog-copy-source", "x-goog-acl", "x-oss-copy-source",
        "x-oss-symlink-target", "x-cos-copy-source", "x-obs-copy-source", "x-rgw-quota", "x-http-method-override",
        "x-forwarded-host", "x-original-url", "cookie", "seaweed-a", "unheard-of",
    ],
)  # fmt: skip
def test_orders_of_other_stores(name: str) -> None:
    assert error("PUT", "/t/a", headers={name: "true"}) == (400, "UnsupportedHeader")


@pytest.mark.parametrize("name", ["x_amz_copy_source", "x-amz_acl", "content_type", "x-amz-meta-a_b"])
def test_underscores_that_servers_take_for_hyphens(name: str) -> None:
    assert error("PUT", "/t/a", headers={name: "/my-bucket/t/b"}) == (400, "UnsupportedHeader")


def test_headers_that_clients_send() -> None:
    names = (
        "Accept-Encoding", "Cache-Control", "Connection", "Content-Length", "Content-MD5", "Content-Type", "Date",
        "Expect", "If-None-Match", "If-Modified-Since", "User-Agent", "amz-sdk-invocation-id", "amz-sdk-request",
        "amz-sdk-retry", "traceparent", "X-Amzn-Trace-Id", "x-amz-sdk-checksum-algorithm", "x-amz-checksum-mode",
        "x-amz-decoded-content-length", "x-amz-meta-snow", "x-amz-meta-minio", "x-amz-storage-class",
    )  # fmt: skip
    assert set(read("PUT", "/t/a", headers=dict.fromkeys(names, "1")).headers) == {name.lower() for name in names}


def test_headers_of_clients_are_signed() -> None:
    sent = {"Content-Type": "a/b", "X-Amz-Meta-A": [" a   b ", "c"], "x-amz-checksum-crc32": "AA==", "Empty": []}
    found = read("PUT", "/t/a", headers=sent)
    assert found.headers == {"content-type": "a/b", "x-amz-meta-a": "a b,c", "x-amz-checksum-crc32": "AA=="}


def test_a_signature_of_the_client_is_left_out() -> None:
    theirs = {"Authorization": "AWS4 x", "X-Amz-Date": "1", "x-amz-content-sha256": "ab", "x-amz-security-token": "t"}
    assert read("GET", "/t/a", headers=theirs).headers == {}
    chunked = {"X-Amz-Content-Sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "x-amz-trailer": "x-amz-checksum-crc32"}
    assert read("PUT", "/t/a", headers=chunked).headers == {name.lower(): value for name, value in chunked.items()}
    seed = {"x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}
    assert error("PUT", "/t/a", headers=seed) == (400, "UnsupportedHeader")


@pytest.mark.parametrize(
    "headers",
    [
        {"a b": "c"}, {"": "c"}, {"a:b": "c"}, {"a\r\nb": "c"}, {"ü": "c"}, {"date": "\x00"},
        {"date": "b\r\nx-amz-acl: c"}, {"date": "b", "Date": "c"}, {"date": "x" * 40_000},
        {f"x-amz-meta-{number}": "" for number in range(65)},
        {"date": ["x"] * 40_000}, {f"x-amz-meta-{'x' * 300}": ""},
    ],
)  # fmt: skip
def test_headers_that_are_none(headers: dict[str, Any]) -> None:
    assert error("GET", "/t/a", headers=headers) == (400, "UnsupportedHeader")


def test_the_host_is_the_uris() -> None:
    assert read("GET", "/t/a").host == "store.example:9000"
    assert read("GET", "/t/a", headers={"Host": "Store.example:9000"}).host == "Store.example:9000"
    for host in ("evil.example", "store.example", "store.example:9001", "a@store.example:9000", "", "a,b"):
        assert error("GET", "/t/a", headers={"host": host}) == (400, "UriNotS3"), host
    assert error("GET", "/t/a", headers={"host": ["store.example:9000", "evil.example"]}) == (400, "UriNotS3")


def test_the_encryption_of_the_profile() -> None:
    profile = profile_of(**{"aws-kms-key-arn": KMS})

    def send(**headers: str) -> SignableRequest:
        many = {name.replace("_", "-"): [value] for name, value in headers.items()}
        return read_request(RequestToSign("eu-1", "PUT", f"{BASE}/t/a", many), profile, bucket_addresses(profile))

    found = send(x_amz_server_side_encryption="aws:kms", x_amz_server_side_encryption_aws_kms_key_id=KMS)
    assert len(found.headers) == 2
    for wrong in (
        {"x_amz_server_side_encryption": "AES256"},
        {"x_amz_server_side_encryption_aws_kms_key_id": f"{KMS}d"},
        {"x_amz_server_side_encryption_context": "e30="},
    ):
        with pytest.raises(CatalogError, match="not signed"):
            send(**wrong)


# --- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["", "?partNumber=1&uploadId=a"])
def test_a_copy_is_about_both_objects(query: str) -> None:
    for source in ("my-bucket/wh/t/b%20c", "/my-bucket/wh/t/b%20c"):
        headers = {COPY: source, f"{COPY}-range": "bytes=0-1", f"{COPY}-if-match": "x"}
        found = read("PUT", f"/wh/t/a{query}", headers=headers)
        assert (found.operation, found.keys) == (Operation.WRITE, ("wh/t/a", "wh/t/b c"))
        assert found.is_within(["wh/t"])
        assert not found.is_within(["wh/t/a"])
    assert not read("PUT", f"/wh/t/a{query}", headers={COPY: "my-bucket/wh/t2/b"}).is_within(["wh/t"])
    across = read("PUT", f"/wh/t/a{query}", headers={COPY: "my-bucket/wh/u/b"})
    assert not across.is_within(["wh/t", "wh/u"]), "from one of the table's folders into another"


@pytest.mark.parametrize(
    "source",
    [
        "other/wh/t/b", "/other/wh/t/b", "//my-bucket/wh/t/b", "my-bucket", "my-bucket/", "my-bucket//wh/t/b",
        "my-bucket/wh/t/../u/b", "my-bucket/wh/t/%2E%2E/u/b", "my-bucket/wh/t/b?versionId=1", "my-bucket/wh/t/%FF",
        "my-bucket/wh/t/b%00", "my-bucket/wh/t/a+b", "my-bucket%2Fwh/t/b", "%6Dy-bucket/wh/t/b", "",
        "arn:aws:s3:eu-1:123456789012:accesspoint/x/object/wh/t/b", "http://store.example:9000/my-bucket/wh/t/b",
        "my-bucket/wh/t/a\\b", "my-bucket/wh/t/b#c",
    ],
)  # fmt: skip
def test_other_sources_of_copies(source: str) -> None:
    assert error("PUT", "/wh/t/a", headers={COPY: source})[1] in {"InvalidCopySource", "InvalidObjectKey"}
    assert error("PUT", "/wh/t/a", headers={COPY: ["my-bucket/wh/t/b", source]})[0] == 400


def test_only_puts_copy() -> None:
    source = {COPY: "my-bucket/wh/t/b"}
    for method, path in (("GET", "/wh/t/a"), ("DELETE", "/wh/t/a"), ("POST", "/wh/t/a?uploads"),
                         ("GET", "?list-type=2&prefix=wh/t/")):  # fmt: skip
        assert error(method, path, headers=source) == (400, "UnsupportedHeader")
    assert error("PUT", "/wh/t/a", headers={f"{COPY}-range": "bytes=0-1"}) == (400, "InvalidCopySource")


def test_allowed_client_headers() -> None:
    assert read("GET", "/t/a").is_repeatable
    assert read("HEAD", "/t/a", headers={"range": "bytes=0-1", "accept": "a"}).is_repeatable
    assert not read("GET", "/t/a", headers={"If-Match": "x"}).is_repeatable
    for method, path in (("PUT", "/t/a"), ("DELETE", "/t/a"), ("POST", "/t/a?uploads")):
        assert not read(method, path).is_repeatable
