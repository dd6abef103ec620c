"""Stores that fail, are unreachable, deny requests or lose responses: real servers behind a proxy."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icekeeper.kernel.errors.types import CatalogError, RequestTimeout
from icekeeper.kernel.request_context import deadline
from storage.errors import StoreAccessDenied, StoreRefused, StoreUnavailable
from storage.io.deletion import delete_all
from storage.io.object_store import RemoteStore
from storage.io.port import ObjectExists, ObjectNotFound
from tests.parts.certificates import create_authority
from tests.parts.minio import Minio
from tests.parts.recorder import Answerer, Recorded, Recorder, Reply
from tests.storage.open_store_fixtures import count_requests_until_the_deadline, opened, use_storage_settings

pytestmark = pytest.mark.django_db  # waiting code closes its database connections

SLOW_DOWN = Reply(503, {}, b"<Error><Code>SlowDown</Code><Message>secret-canary</Message></Error>")
FORBIDDEN = Reply(403, {}, b"<Error><Code>AccessDenied</Code></Error>")


@pytest.fixture
def store(minio: Minio, bucket: str, recorder: Recorder) -> RemoteStore:
    return opened(minio.profile(bucket, "wh", endpoint=recorder.endpoint), minio.credential)


@pytest.fixture
def location(bucket: str) -> str:
    return f"s3://{bucket}/wh/t/a"


def replying(*replies: Reply | None) -> Answerer:
    """Return these replies in turn instead of the server's, then those of the server."""
    left = list(replies)
    return lambda _, ask: left.pop(0) if left else ask()


def every_call(store: RemoteStore, location: str) -> list[Callable[[], Any]]:
    return [
        lambda: store.put_new(location, b"x"),
        lambda: store.get(location, limit=10),
        lambda: store.require_exists(location),
        lambda: store.delete(location),
        lambda: store.is_empty(location, ignore=lambda _: False),
        lambda: store.delete_below(location, lambda: None),
    ]


def count_tries(store: RemoteStore, recorder: Recorder, act: Callable[[], Any]) -> int:
    store.bucket.prepare()
    recorder.requests.clear()
    with pytest.raises(StoreUnavailable):
        act()
    return len(recorder.requests)


# --- failures that pass ----------------------------------------------------------------------------------------------


def test_failed_requests_are_retried(store: RemoteStore, recorder: Recorder, location: str) -> None:
    recorder.answerer = replying(SLOW_DOWN, None, Reply(500, {}, b""))
    store.put_new(location, b"x")
    assert recorder.asked == ["PUT"] * 4
    for act in every_call(store, location)[1:]:
        recorder.answerer = replying(SLOW_DOWN, Reply(502, {}, b"<html>"))
        act()


def test_continued_failure_is_reported_after_the_configured_attempts(
    store: RemoteStore, recorder: Recorder, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_storage_settings(monkeypatch, retries=2)
    recorder.answerer = lambda *_: SLOW_DOWN
    for act in every_call(store, location)[:4]:
        assert count_tries(store, recorder, act) == 3
    with pytest.raises(StoreUnavailable) as error:
        store.put_new(location, b"x")
    assert error.value.message == f"The object store failed at {location}: SlowDown"
    with pytest.raises(StoreUnavailable, match="SlowDown"):
        store.is_empty(location, ignore=lambda _: False)


def test_an_unreachable_store(minio: Minio, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_storage_settings(monkeypatch, retries=1)
    store = opened(minio.profile(bucket, "wh"), minio.credential)
    with minio.relay.refusing():
        for act in every_call(store, f"s3://{bucket}/wh/a"):
            with pytest.raises(StoreUnavailable, match=f"The object store did not respond for s3://{bucket}/wh/a"):
                act()
    store.put_new(f"s3://{bucket}/wh/a", b"x")


def test_a_store_that_is_silent(minio: Minio, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_storage_settings(monkeypatch, retries=1, request_timeout=0.3)
    store = opened(minio.profile(bucket, "wh"), minio.credential)
    with minio.relay.silent():
        for act in every_call(store, f"s3://{bucket}/wh/a"):
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match="did not respond"):
                act()
            assert 0.6 <= time.monotonic() - began < 5
    store.put_new(f"s3://{bucket}/wh/a", b"x")


# --- lost responses --------------------------------------------------------------------------------------------------


def lose_first_response(_: Recorded, ask: Callable[[], Reply], lost: list[Reply]) -> Reply | None:
    response = ask()
    if lost:
        return response
    lost.append(response)
    return None


def test_a_put_with_a_lost_response_does_not_conflict_with_itself(
    store: RemoteStore, recorder: Recorder, location: str
) -> None:
    lost: list[Reply] = []
    recorder.answerer = lambda request, ask: lose_first_response(request, ask, lost)
    store.put_new(location, b"mine")
    assert [reply.status for reply in lost] == [200]
    assert recorder.asked == ["PUT", "PUT", "GET"]
    assert store.get(location, limit=10) == b"mine"


@pytest.mark.parametrize("theirs", [b"them", b"longer than mine", b""])
def test_a_failed_put_does_not_claim_an_object_of_another_writer(
    store: RemoteStore, recorder: Recorder, location: str, minio: Minio, bucket: str, theirs: bytes
) -> None:
    def meanwhile(_: Recorded, ask: Callable[[], Reply]) -> Reply:
        if len(recorder.requests) > 1:
            return ask()
        minio.client().put_object(Bucket=bucket, Key="wh/t/a", Body=theirs)
        return SLOW_DOWN

    recorder.answerer = meanwhile
    with pytest.raises(ObjectExists):
        store.put_new(location, b"mine")
    assert store.get(location, limit=100) == theirs


def test_a_put_that_lost_a_race_at_the_store_is_tried_again(
    store: RemoteStore, recorder: Recorder, location: str
) -> None:
    recorder.answerer = replying(Reply(409, {}, b"<Error><Code>ConditionalRequestConflict</Code></Error>"))
    store.put_new(location, b"x")
    assert recorder.asked == ["PUT", "PUT"]


def test_a_deletion_with_a_lost_response(store: RemoteStore, recorder: Recorder, location: str) -> None:
    store.put_new(location, b"x")
    lost: list[Reply] = []
    recorder.answerer = lambda request, ask: lose_first_response(request, ask, lost)
    store.delete(location)
    with pytest.raises(ObjectNotFound):
        store.get(location, limit=1)


# --- the request's deadline ------------------------------------------------------------------------------------------


def test_no_store_request_after_the_deadline(store: RemoteStore, recorder: Recorder, location: str) -> None:
    put, get, exists, delete, is_empty, delete_below = every_call(store, location)
    with deadline(time.monotonic() - 1):
        for act in (put, get, exists, is_empty):
            with pytest.raises(RequestTimeout):
                act()
        assert recorder.requests == []
        delete()
        delete_below()


def test_tries_end_with_the_request(
    store: RemoteStore, recorder: Recorder, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_storage_settings(monkeypatch, retries=10)
    recorder.answerer = lambda *_: SLOW_DOWN
    began = time.monotonic()
    # The deadline expires between two attempts; on a slow machine, during one.
    with deadline(began + 1), pytest.raises((StoreUnavailable, RequestTimeout)):
        store.put_new(location, b"x")
    assert time.monotonic() - began < 3
    assert 1 < len(recorder.requests) < 7


def test_no_request_is_repeated_after_the_deadline(store: RemoteStore, recorder: Recorder, location: str) -> None:
    put, get, exists, delete, is_empty, delete_below = every_call(store, location)
    for act in (put, get, exists, is_empty, store.list_root):
        assert count_requests_until_the_deadline(recorder, act) == 1
    with deadline(time.monotonic() - 1):
        for act in (delete, delete_below):
            recorder.answerer = replying(SLOW_DOWN)
            act()


# --- denied requests -------------------------------------------------------------------------------------------------


def secrets_in(text: str) -> list[str]:
    return [
        secret
        for secret in (Minio.user, Minio.password, "another-secret", "Signature=", "http:", "canary")
        if secret in text
    ]


@pytest.mark.parametrize(
    ("key", "code"), [({"secret-access-key": "another-secret"}, "SignatureDoesNotMatch"),
                      ({"access-key-id": "unknown"}, "InvalidAccessKeyId")],
)  # fmt: skip
def test_a_credential_that_the_store_does_not_know(minio: Minio, bucket: str, key: dict[str, str], code: str) -> None:
    store = opened(minio.profile(bucket, "wh"), minio.credential | key)
    location = f"s3://{bucket}/wh/a"
    for act in every_call(store, location):
        with pytest.raises(StoreAccessDenied) as error:
            act()
        assert error.value.message.startswith(f"The object store denied access to {location}")
        assert error.value.message.endswith((code, "status 403")), "a response to HEAD has no error code"
        assert not secrets_in(error.value.message)
        assert error.value.__cause__ is None
        assert error.value.__suppress_context__


def test_denied_requests_are_not_retried(store: RemoteStore, recorder: Recorder, location: str) -> None:
    recorder.answerer = lambda *_: FORBIDDEN
    for act in every_call(store, location):
        recorder.requests.clear()
        with pytest.raises(StoreAccessDenied):
            act()
        assert len(recorder.requests) == 1


def test_a_bucket_that_does_not_exist(minio: Minio) -> None:
    store = opened(minio.profile("no-such-bucket", "wh"), minio.credential)
    put, get, _, delete, is_empty, delete_below = every_call(store, "s3://no-such-bucket/wh/a")
    for act in (put, get, is_empty, delete_below, delete):
        with pytest.raises(StoreRefused, match=r"The bucket of s3://no-such-bucket/wh/a/? does not exist"):
            act()


@pytest.mark.parametrize("status", [400, 405, 411, 501])
def test_other_errors_are_reported_by_their_code(
    store: RemoteStore, recorder: Recorder, location: str, status: int
) -> None:
    recorder.answerer = lambda *_: Reply(status, {}, b"<Error><Code>XSome</Code><Message>canary</Message></Error>")
    for act in every_call(store, location):
        with pytest.raises(CatalogError) as error:
            act()
        assert (error.value.status, error.value.wire_type) == (412, "StorageRefusedException")
        assert not secrets_in(error.value.message)


def test_object_names_do_not_affect_the_error_classification(
    store: RemoteStore, recorder: Recorder, bucket: str
) -> None:
    """Error texts of obstore contain the name of the object."""
    name = "Status {  status: 503, <Code>SlowDown<|Code> Debug source: Server returned non-2xx status code: 503"
    recorder.answerer = lambda *_: FORBIDDEN
    with pytest.raises(StoreAccessDenied, match=r": AccessDenied$"):
        store.get(f"s3://{bucket}/wh/{name}", limit=1)


def test_one_denied_deletion_of_many_ends_the_purge(store: RemoteStore, recorder: Recorder, location: str) -> None:
    store.put_new(location, b"x")

    def refusing_one(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        if request.method != "POST":
            return ask()
        body = b"<DeleteResult><Error><Key>wh/t/a</Key><Code>%s</Code></Error></DeleteResult>"
        return Reply(200, {"Content-Type": "application/xml"}, body % code)

    recorder.answerer = refusing_one
    code = b"AccessDenied"
    with pytest.raises(StoreAccessDenied, match=re.escape(f"{location}: AccessDenied")):
        store.delete_below(location.removesuffix("/a"), lambda: None)
    code = b"InternalError"
    with pytest.raises(StoreUnavailable):
        store.delete_below(location.removesuffix("/a"), lambda: None)


def batch_errors(**codes: str) -> Reply:
    """Return a response of DeleteObjects with these errors by object of the table."""
    errors = "".join(f"<Error><Key>wh/t/{name}</Key><Code>{code}</Code></Error>" for name, code in codes.items())
    return Reply(200, {"Content-Type": "application/xml"}, f"<DeleteResult>{errors}</DeleteResult>".encode())


def keys_by_request(recorder: Recorder) -> list[list[str]]:
    return [re.findall("<Key>wh/t/(.*?)</Key>", request.body.decode()) for request in recorder.requests]


def test_objects_that_a_batch_failed_to_delete_are_tried_again(
    store: RemoteStore, recorder: Recorder, minio: Minio, bucket: str
) -> None:
    locations = [f"s3://{bucket}/wh/t/{name}" for name in "abcd"]
    for location in locations:
        store.put_new(location, b"x")
    recorder.requests.clear()
    recorder.answerer = replying(
        batch_errors(a="SlowDown", b="AccessDenied", c="InternalError", d="NoSuchKey"), SLOW_DOWN
    )
    with pytest.raises(StoreAccessDenied, match="wh/t/b: AccessDenied"):
        store.delete_many(locations)
    assert keys_by_request(recorder) == [["a", "b", "c", "d"], ["a", "c"], ["a", "c"]]
    assert minio.keys(bucket) == ["wh/t/b", "wh/t/d"], "the replaced response was not one of the server"


@pytest.mark.parametrize(("named", "again"), [("a", ["a"]), ("unknown", ["a", "b"])])
def test_objects_that_a_store_never_deletes_are_tried_as_often_as_configured(
    store: RemoteStore,
    recorder: Recorder,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    named: str,
    again: list[str],
) -> None:
    """All of them, when the store names none of them."""
    use_storage_settings(monkeypatch, retries=2)
    recorder.answerer = lambda *_: batch_errors(**{named: "InternalError"})
    assert count_tries(store, recorder, lambda: store.delete_many([f"s3://{bucket}/wh/t/{name}" for name in "ab"])) == 3
    assert keys_by_request(recorder) == [["a", "b"], again, again]


# --- stores with fewer features --------------------------------------------------------------------------------------


def no_conditions(request: Recorded, ask: Callable[[], Reply]) -> Reply:
    if "if-none-match" in request.headers:
        return Reply(501, {}, b"<Error><Code>NotImplemented</Code></Error>")
    return ask()


def test_a_store_without_conditional_puts_is_asked_first(
    store: RemoteStore,
    recorder: Recorder,
    location: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder.answerer = no_conditions
    store.put_new(location, b"x")
    assert recorder.asked == ["PUT", "HEAD", "PUT"]
    bucket_url = location.removesuffix("/t/a")
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"The store of {bucket_url} does not support If-None-Match: the catalog checks for an object before it writes"
    ]
    recorder.requests.clear()
    store.put_new(f"{location}2", b"x")
    assert recorder.asked == ["HEAD", "PUT"], "it is not asked again whether it knows them"
    with pytest.raises(ObjectExists):
        store.put_new(location, b"y")
    assert store.get(location, limit=10) == b"x"
    recorder.requests.clear()
    recorder.answerer = lambda _, ask: ask()
    monkeypatch.setattr(store, "_fallback_until", time.monotonic())
    store.put_new(f"{location}3", b"x")
    assert recorder.asked == ["PUT"], "the result of one response is not cached"


@pytest.mark.parametrize("status", [501, 405])
def test_a_store_that_deletes_one_by_one(
    store: RemoteStore, recorder: Recorder, minio: Minio, bucket: str, status: int
) -> None:
    for name in "abc":
        store.put_new(f"s3://{bucket}/wh/t/{name}", b"x")
    code = {501: b"NotImplemented", 405: b"MethodNotAllowed"}[status]
    refused = Reply(status, {}, b"<Error><Code>" + code + b"</Code></Error>")
    recorder.answerer = lambda request, ask: refused if request.method == "POST" else ask()
    store.delete_below(f"s3://{bucket}/wh/t", lambda: None)
    assert minio.keys(bucket) == []


def test_of_names_that_are_deleted_one_by_one_each_is_tried(
    store: RemoteStore, recorder: Recorder, minio: Minio, bucket: str
) -> None:
    for name in "abc":
        store.put_new(f"s3://{bucket}/wh/t/{name}", b"x")

    def refusing(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        if request.method == "POST":
            return Reply(501, {}, b"<Error><Code>NotImplemented</Code></Error>")
        return FORBIDDEN if request.target.endswith("/a") else ask()

    recorder.answerer = refusing
    with pytest.raises(StoreAccessDenied, match=f"s3://{bucket}/wh/t/a: AccessDenied"):
        store.delete_many([f"s3://{bucket}/wh/t/{name}" for name in "abc"])
    assert minio.keys(bucket) == ["wh/t/a"]


def test_of_a_failed_batch_and_failed_single_deletions_the_first_error_is_raised(
    store: RemoteStore, recorder: Recorder, minio: Minio, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names with control characters cannot be in a batch. A retry may help here, whatever the later error says."""
    use_storage_settings(monkeypatch, retries=0)
    names = ["wh/t/a", "wh/t/\tb", "wh/t/\tc"]
    for name in names:
        minio.client().put_object(Bucket=bucket, Key=name, Body=b"x")

    def failing(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        if request.method == "POST":
            return SLOW_DOWN
        return FORBIDDEN if request.target.endswith("b") else ask()

    recorder.answerer = failing
    with pytest.raises(StoreUnavailable, match="SlowDown"):
        delete_all(store.bucket, names)
    assert recorder.asked == ["POST", "DELETE", "DELETE"]
    assert minio.keys(bucket) == ["wh/t/\tb", "wh/t/a"]


# --- a private certificate authority ---------------------------------------------------------------------------------


def test_only_known_authorities_are_trusted(
    minio: Minio, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_storage_settings(monkeypatch, retries=0)
    authority, tls = create_authority(tmp_path)
    location = f"s3://{bucket}/wh/a"
    with Recorder(minio.port, tls) as recorder:
        profile = minio.profile(bucket, "wh", endpoint=recorder.endpoint)
        for act in every_call(opened(profile, minio.credential), location):
            with pytest.raises(StoreUnavailable, match="did not respond"):
                act()
        assert recorder.requests == []
        use_storage_settings(monkeypatch, ca_bundle=authority)
        for act in every_call(opened(profile, minio.credential), location):
            act()
        assert recorder.asked[:4] == ["PUT", "GET", "HEAD", "DELETE"]
