"""Signed requests only touch files of the table, also by the rules of other URI parsers."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import parse_qsl, unquote, urlsplit

from hypothesis import given, settings, target
from hypothesis import strategies as st
from urllib3.util import parse_url

from icekeeper.kernel.errors.types import BadRequest
from storage.signing.errors import MethodNotSignable
from storage.signing.request import RequestToSign, SignableRequest, read_request
from storage.signing.uri import bucket_addresses
from tests.conftest import IS_LONG
from tests.storage.signing.test_addresses import profile_of

TABLE = "wh/t"
PROFILE = profile_of()
PIECES = (
    "wh", "t", "u", "t2", "a", "my-bucket", "other", ".", "..", "%2e", "%2E%2e", "%252e", "%2f", "%5c", "%00", "%09",
    "%20", "%2B", ";", ":", "@", "=", "&", "?", "#", "\\", "é", "%C3%A9", "%EF%BC%8F", "//", "/", "*", "~", " ", "+",
)  # fmt: skip
QUERIES = (
    "", "?", "?uploads", "?partNumber=1&uploadId=a", "?uploadId=a", "?acl", "?versionId=1", "?delete", "?x-id=a", "?&",
    "?list-type=2&prefix=wh/t/", "?list-type=2&prefix=wh/t", "?list-type=2&prefix=wh/t/..", "?list-type=2&prefix=wh/",
    "?list-type=2&prefix=wh/t/&prefix=wh/u/", "?list-type=2&prefix=%77h/t/%2e%2e/u", "?list-type=2&prefix=wh%2Ft%2F+",
)  # fmt: skip
HOSTS = (
    "store.example:9000", "STORE.example:9000", "my-bucket.store.example:9000", "store.example", "a@store.example:9000",
    "store.example:9000.evil", "evil", "store.example:9000\\\\@evil", "store.example:09000", "[::1]:9000", "",
)  # fmt: skip
KEYS = st.lists(st.sampled_from(PIECES), max_size=6).map("/".join)
LIKELY = KEYS.map(lambda rest: f"/my-bucket/wh/t/{rest}")
PATHS = st.one_of(
    LIKELY, KEYS.map(lambda rest: f"/my-bucket/{rest}"), KEYS.map(lambda rest: f"/{rest}"), st.just("/my-bucket")
)
SOURCES = st.none() | KEYS.map(lambda rest: f"my-bucket/wh/t/{rest}") | KEYS.map(lambda rest: f"/my-bucket/{rest}")


def passed(given_request: RequestToSign) -> SignableRequest | None:
    try:
        found = read_request(given_request, PROFILE, bucket_addresses(PROFILE))
    except (BadRequest, MethodNotSignable):
        return None
    return found if found.is_within([TABLE]) else None


def require_inside(key: str) -> None:
    """Check the key also for stores that normalize paths or read backslashes as slashes."""
    for read in (key, key.replace("\\", "/")):
        assert posixpath.normpath(read).startswith(f"{TABLE}/"), key
        assert read.startswith(f"{TABLE}/"), key
    assert not set(key.split("/")) & {"", ".", ".."}, key


@settings(max_examples=1500 if IS_LONG else 200)
@given(
    method=st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE"]),
    host=st.one_of(st.just(HOSTS[0]), st.just(HOSTS[0]), st.sampled_from(HOSTS)),
    path=PATHS,
    query=st.one_of(st.just(""), st.sampled_from(QUERIES)),
    source=SOURCES,
)
def test_signed_requests_stay_in_the_table(method: str, host: str, path: str, query: str, source: str | None) -> None:
    uri = f"http://{host}{path}{query}"
    headers = {} if source is None else {"x-amz-copy-source": [source]}
    found = passed(RequestToSign("eu-1", method, uri, headers))
    target(float(found is not None))
    if found is None:
        return
    parts, other = urlsplit(uri), parse_url(uri)
    assert (parts.hostname, parts.port) == (other.host, other.port) == ("store.example", 9000)
    assert parts.username is None
    bucket, _, key = unquote(parts.path, errors="strict").removeprefix("/").partition("/")
    assert bucket == "my-bucket"
    fields = re.sub(r"\buploads(?=&|$)", "uploads=", parts.query)  # S3 accepts this parameter without a value
    asked = dict(parse_qsl(fields, keep_blank_values=True, strict_parsing=bool(fields)))
    if key:
        require_inside(key)
        assert unquote(other.path or "") == f"/my-bucket/{key}"
        assert set(asked) <= {"uploads", "partNumber", "uploadId", "x-id"}
    else:
        assert (method, asked["list-type"]) == ("GET", "2")
        assert asked["prefix"].startswith(f"{TABLE}/")
        assert ".." not in asked["prefix"].split("/")
    if source is not None:
        bucket, _, copied = unquote(source, errors="strict").removeprefix("/").partition("/")
        assert (method, bucket) == ("PUT", "my-bucket")
        require_inside(copied)


@settings(max_examples=500 if IS_LONG else 100)
@given(st.text(max_size=60), st.sampled_from(["GET", "PUT", "POST", "DELETE"]), st.text(max_size=30))
def test_any_text_is_rejected_without_a_crash(uri: str, method: str, header: str) -> None:
    assert passed(RequestToSign("eu-1", method, uri, {header: [uri]}, body=header)) is None
    inside = passed(RequestToSign("eu-1", method, f"http://store.example:9000/my-bucket/wh/t/{uri}", {}, body=header))
    if inside is not None:
        require_inside(inside.keys[0])


@settings(max_examples=300 if IS_LONG else 100)
@given(st.text(max_size=80))
def test_any_body_is_rejected_without_a_crash(body: str) -> None:
    text = f"<Delete><Object><Key>wh/t/a</Key></Object>{body}</Delete>"
    uri = "http://store.example:9000/my-bucket?delete"
    assert passed(RequestToSign("eu-1", "POST", uri, {}, body=body)) is None
    found = passed(RequestToSign("eu-1", "POST", uri, {}, body=text))
    assert found is None or found.keys == ("wh/t/a",)
