"""Stores that redirect requests or send responses of unlimited size."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from storage.errors import StoreRefused, StoreUnavailable
from storage.io.object_store import RemoteStore
from storage.io.port import ObjectTooLarge
from storage.network.store_http import MAX_RESPONSE_BYTES
from tests.parts.minio import Minio
from tests.parts.recorder import Recorder, Reply
from tests.storage.cloud_fixtures import Cloud
from tests.storage.open_store_fixtures import opened, use_storage_settings

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

ROLE = "arn:aws:iam::123456789012:role/catalog"
MIB = 1024 * 1024


@pytest.fixture
def store(minio: Minio, bucket: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> RemoteStore:
    use_storage_settings(monkeypatch, retries=0)
    return opened(minio.profile(bucket, "wh", endpoint=recorder.endpoint), minio.credential)


@pytest.fixture
def elsewhere(minio: Minio) -> Iterator[Recorder]:
    """A server that must receive no request; it accepts everything."""
    with Recorder(minio.port) as other:
        headers = {"ETag": '"x"', "Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT", "Content-Type": "text/xml"}
        other.answerer = lambda *_: Reply(200, headers, b"INTERNAL")
        yield other


def require_refused_by_all(store: RemoteStore, location: str, recorder: Recorder) -> None:
    """Check that every call to the store reaches `recorder` and fails."""
    acts: list[Callable[[], Any]] = [
        lambda: store.put_new(location, b"x"),
        lambda: store.get(location, limit=100),
        lambda: store.require_exists(location),
        lambda: store.delete(location),
        lambda: store.delete_many([location, f"{location}2"]),
        lambda: store.is_empty(location, ignore=lambda _: False),
        store.list_root,
    ]
    for act in acts:
        recorder.requests.clear()
        with pytest.raises((StoreRefused, StoreUnavailable)):
            act()
        assert recorder.requests


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_client_is_redirected(
    store: RemoteStore, recorder: Recorder, elsewhere: Recorder, bucket: str, status: int
) -> None:
    address = elsewhere.endpoint.replace("127.0.0.1", "localhost") + "latest/meta-data"
    recorder.answerer = lambda *_: Reply(status, {"Location": address}, b"")
    require_refused_by_all(store, f"s3://{bucket}/wh/a", recorder)
    assert elsewhere.requests == []


def test_a_put_becomes_no_get_elsewhere(
    store: RemoteStore, recorder: Recorder, elsewhere: Recorder, bucket: str
) -> None:
    """Status 303 lets a client drop the body. (botocore fails on it, and does not follow the redirect.)"""
    address = elsewhere.endpoint.replace("127.0.0.1", "localhost") + "latest/meta-data"
    recorder.answerer = lambda *_: Reply(303, {"Location": address}, b"")
    with pytest.raises(StoreUnavailable):
        store.put_new(f"s3://{bucket}/wh/a", b"x")
    assert elsewhere.requests == []


def test_requests_use_the_proxy_of_the_environment(
    minio: Minio, bucket: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", recorder.endpoint)
    profile = minio.profile(bucket, "wh", endpoint="http://store.invalid:9000", path_style_access=True)
    recorder.answerer = lambda *_: Reply(200, {"ETag": '"x"'}, b"")
    opened(profile, minio.credential).put_new(f"s3://{bucket}/wh/a", b"x")
    assert [request.target for request in recorder.requests] == [f"http://store.invalid:9000/{bucket}/wh/a"]


@pytest.mark.parametrize("variable", [("no_proxy", "example.com"), ("https_proxy", "http://proxy.invalid")])
def test_variables_of_other_addresses_change_nothing(
    store: RemoteStore,
    minio: Minio,
    bucket: str,
    recorder: Recorder,
    elsewhere: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    variable: tuple[str, str],
) -> None:
    monkeypatch.setenv(*variable)
    fresh = opened(minio.profile(bucket, "wh", endpoint=recorder.endpoint), minio.credential)
    test_a_put_becomes_no_get_elsewhere(fresh, recorder, elsewhere, bucket)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_client_is_redirected_by_a_cloud(
    cloud: Cloud, through: Recorder, elsewhere: Recorder, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    use_storage_settings(monkeypatch, retries=0)
    address = elsewhere.endpoint.replace("127.0.0.1", "localhost") + "latest/meta-data"
    through.answerer = lambda *_: Reply(status, {"Location": address}, b"")
    require_refused_by_all(cloud.open(), f"{cloud.base}/a", through)
    assert elsewhere.requests == []


def test_responses_of_clouds_are_read_within_limits(
    cloud: Cloud, through: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_storage_settings(monkeypatch, retries=0)
    store, location = cloud.open(), f"{cloud.base}/a"
    through.answerer = lambda *_: Reply(200, {"Content-Type": "application/xml"}, b" " * (MAX_RESPONSE_BYTES + MIB))
    with pytest.raises(StoreUnavailable):
        store.is_empty(location, ignore=lambda _: False)
    through.answerer = lambda *_: Reply(200, {"Content-Length": "10", "Connection": "close"}, b"half")
    with pytest.raises(StoreUnavailable):
        store.get(location, limit=100)
    with pytest.raises(StoreUnavailable):
        store.is_empty(location, ignore=lambda _: False)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(302, {"Location": "http://127.0.0.1:1/"}, b" " * (MAX_RESPONSE_BYTES + MIB)),
        Reply(302, {"Location": "http://["}, b""),
        Reply(302, {"Location": "http://127.0.0.1:1/", "Content-Encoding": "gzip"}, gzip.compress(b" " * 64 * MIB)),
        Reply(302, {"Location": "http://127.0.0.1:1/"}, b" " * 30, pause=0.1),
    ],
    ids=["large", "nowhere", "packed", "dripping"],
)
def test_a_redirect_is_an_ordinary_response(
    cloud: Cloud, through: Recorder, monkeypatch: pytest.MonkeyPatch, reply: Reply
) -> None:
    use_storage_settings(monkeypatch, retries=0, request_timeout=1.0)
    store, location = cloud.open(), f"{cloud.base}/a"
    through.answerer = lambda *_: reply
    for act in (lambda: store.get(location, limit=100), lambda: store.is_empty(location, ignore=lambda _: False)):
        with pytest.raises((StoreRefused, StoreUnavailable)):
            act()


HTML, XML, JSON = "text/html", "application/xml", "application/json"
NO_RESPONSES = {
    "text": Reply(200, {"Content-Type": "text/plain"}, b"hello"),
    "no text": Reply(200, {"Content-Type": XML}, b"\xff\xfe"),
    "json": Reply(200, {"Content-Type": JSON}, b'{"items": null}'),
    "a list of numbers": Reply(200, {"Content-Type": JSON}, b'{"items": [{"name": 1}]}'),
    "another xml": Reply(200, {"Content-Type": XML}, b"<a/>"),
    "a range": Reply(206, {"Content-Range": "bytes x"}, b"hello"),
    "a date": Reply(206, {"Content-Range": "bytes 0-4/5", "Last-Modified": "never"}, b"hello"),
    "a denial": Reply(403, {"Content-Type": HTML}, b"\xff\xfe"),
    "a deep denial": Reply(403, {"Content-Type": JSON}, b"[" * 100_000),
}


@pytest.mark.parametrize("reply", NO_RESPONSES.values(), ids=NO_RESPONSES)
def test_an_empty_response(cloud: Cloud, through: Recorder, monkeypatch: pytest.MonkeyPatch, reply: Reply) -> None:
    """An empty response is reported as an error of the store, or accepted where it is valid for this kind of store."""
    use_storage_settings(monkeypatch, retries=0)
    store, location = cloud.open(), f"{cloud.base}/a"
    through.answerer = lambda *_: reply
    acts: list[Callable[[], Any]] = [
        lambda: store.get(location, limit=100),
        lambda: store.require_exists(location),
        lambda: store.is_empty(location, ignore=lambda _: False),
        lambda: store.delete(location),
    ]
    for act in acts:
        with suppress(StoreRefused, StoreUnavailable):
            act()
    if reply.status == 403:
        with pytest.raises((StoreRefused, StoreUnavailable)):
            store.get(location, limit=100)


def test_more_than_was_announced_is_not_taken(cloud: Cloud, through: Recorder) -> None:
    store, location = cloud.open(), f"{cloud.base}/a"
    headers = {"Content-Range": "bytes 0-0/1", "Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT", "ETag": '"x"'}
    through.answerer = lambda *_: Reply(206, headers, b"x" * 5000)
    with pytest.raises(ObjectTooLarge):
        store.get(location, limit=100)


def test_a_cloud_that_drips_is_left(cloud: Cloud, through: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    use_storage_settings(monkeypatch, retries=0, request_timeout=1.0)
    store, location = cloud.open(), f"{cloud.base}/a"
    through.answerer = lambda *_: Reply(200, {}, b"{" + b" " * 30 + b"}", pause=0.1)
    with pytest.raises(StoreUnavailable):
        store.get(location, limit=100)
    with pytest.raises(StoreUnavailable):
        store.is_empty(location, ignore=lambda _: False)


@pytest.mark.parametrize("status", [200, 500])
def test_an_endless_list_is_not_held(store: RemoteStore, recorder: Recorder, bucket: str, status: int) -> None:
    huge = b" " * (MAX_RESPONSE_BYTES + MIB)
    recorder.answerer = lambda *_: Reply(status, {"Content-Type": "application/xml"}, huge)
    with pytest.raises(StoreUnavailable, match="AwsResponseNotRead"):
        store.is_empty(f"s3://{bucket}/wh/a", ignore=lambda _: False)
    with pytest.raises(StoreUnavailable, match="AwsResponseNotRead"):
        store.delete_many([f"s3://{bucket}/wh/a", f"s3://{bucket}/wh/b"])


def test_a_response_that_is_no_list(store: RemoteStore, recorder: Recorder, bucket: str) -> None:
    recorder.answerer = lambda *_: Reply(200, {"Content-Type": "application/xml"}, b"<html")
    with pytest.raises(StoreUnavailable, match="The object store failed at"):
        store.is_empty(f"s3://{bucket}/wh/a", ignore=lambda _: False)
    body = b"<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>"
    recorder.answerer = lambda *_: Reply(200, {"Content-Type": "application/xml"}, body)
    assert store.is_empty(f"s3://{bucket}/wh/a", ignore=lambda _: False)


@pytest.mark.parametrize("announced", [{}, {"Content-Length": "5000"}])
def test_an_object_is_read_to_its_limit(
    store: RemoteStore, recorder: Recorder, bucket: str, announced: dict[str, str]
) -> None:
    recorder.answerer = lambda *_: Reply(200, announced, b"x" * 5000)
    location = f"s3://{bucket}/wh/a"
    assert store.get(location, limit=5000) == b"x" * 5000
    with pytest.raises(ObjectTooLarge, match="is larger than 4999 bytes"):
        store.get(location, limit=4999)


def test_half_an_object_is_none(store: RemoteStore, recorder: Recorder, bucket: str) -> None:
    recorder.answerer = lambda *_: Reply(200, {"Content-Length": "10", "Connection": "close"}, b"half")
    with pytest.raises(StoreUnavailable):
        store.get(f"s3://{bucket}/wh/a", limit=100)


def test_one_throttled_call_for_a_role_fails_no_commit(
    minio: Minio, bucket: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_storage_settings(monkeypatch, retries=1)
    throttled = b"<ErrorResponse><Error><Code>Throttling</Code></Error></ErrorResponse>"
    left = [Reply(400, {"Content-Type": "text/xml"}, throttled)]
    recorder.answerer = lambda _, ask: left.pop() if left else ask()
    profile = minio.profile(bucket, "wh", endpoint=recorder.endpoint) | {"assume-role-arn": ROLE}
    opened(profile, minio.credential).put_new(f"s3://{bucket}/wh/a", b"x")
    assert recorder.asked == ["POST", "POST", "PUT"]


def test_a_role_is_not_read_without_end(
    minio: Minio, bucket: str, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_storage_settings(monkeypatch, retries=0)
    recorder.answerer = lambda *_: Reply(200, {"Content-Type": "text/xml"}, b" " * (MAX_RESPONSE_BYTES + MIB))
    profile = minio.profile(bucket, "wh", endpoint=recorder.endpoint) | {"assume-role-arn": ROLE}
    with pytest.raises(StoreUnavailable, match="AwsResponseNotRead"):
        opened(profile, minio.credential).require_ready()
