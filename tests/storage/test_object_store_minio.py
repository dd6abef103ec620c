"""Object store on MinIO: names, puts that must not overwrite, size limits, listing below a location."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from icekeeper.kernel.errors.types import InvalidLocation
from storage.errors import StoreAccessDenied, StoreUnavailable
from storage.io.object_store import RemoteStore
from storage.io.port import ObjectExists, ObjectNotFound, ObjectTooLarge
from tests.parts.minio import Minio
from tests.parts.recorder import Recorded, Recorder, Reply
from tests.storage.closed_store_fixtures import require_collected_when_dropped
from tests.storage.open_store_fixtures import opened

pytestmark = pytest.mark.django_db  # waiting code closes its database connections


@pytest.fixture
def store(minio: Minio, bucket: str) -> RemoteStore:
    return opened(minio.profile(bucket, "wh"), minio.credential)


@pytest.fixture
def watched(minio: Minio, bucket: str, recorder: Recorder) -> RemoteStore:
    """The same store, with its requests recorded by `recorder`."""
    return opened(minio.profile(bucket, "wh", endpoint=recorder.endpoint), minio.credential)


@pytest.fixture
def put(minio: Minio, bucket: str) -> Callable[..., None]:
    """Put empty objects of any name, without the catalog."""
    client = minio.client()

    def put(*keys: str) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: client.put_object(Bucket=bucket, Key=key, Body=b""), keys))

    return put


def put_many(minio: Minio, bucket: str, keys: Iterable[str]) -> None:
    """Put empty objects with one request: MinIO unpacks an archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for key in keys:
            archive.addfile(tarfile.TarInfo(key))
    minio.client().put_object(
        Bucket=bucket, Key="archive.tar", Body=packed.getvalue(), Metadata={"snowball-auto-extract": "true"}
    )


def all_count(_: str) -> bool:
    return False


def proceed() -> None:
    pass


NAMES = (
    "a/b.metadata.json", "%41", "a%2Fb", "%", "%%", "%zz", "a+b", "a b", " ", "a ", "ü/é", "e\u0301", "日本/語", "*",
    "$", "${aws:x}", '"q"', "'", "a\\b", "a|b", "~", "{}", "[1]", "<&>", "^`", "a&b=c;d,e:f@g!()", "...", ".a", "😀",
    "x" * 200,
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_key_is_the_path_of_the_location_byte_by_byte(
    store: RemoteStore, minio: Minio, bucket: str, name: str
) -> None:
    location = f"s3://{bucket}/wh/t/{name}"
    store.put_new(location, b"x")
    assert minio.keys(bucket) == [f"wh/t/{name}"]
    assert store.get(location, limit=1) == b"x"
    store.require_exists(location)
    assert not store.is_empty(f"s3://{bucket}/wh/t", ignore=all_count)
    store.delete(location)
    assert minio.keys(bucket) == []
    minio.client().put_object(Bucket=bucket, Key=f"wh/t/{name}/{name}", Body=b"")
    assert not store.is_empty(location, ignore=all_count)
    store.delete_below(location, proceed)
    assert minio.keys(bucket) == []


@pytest.mark.parametrize("spelled", ["s3a", "s3n"])
def test_other_spellings_of_the_scheme_name_the_same_objects(store: RemoteStore, bucket: str, spelled: str) -> None:
    store.put_new(f"{spelled}://{bucket}/wh/a", b"x")
    assert store.get(f"s3://{bucket}/wh/a", limit=1) == b"x"


@pytest.mark.parametrize(
    "location",
    [
        "s3://{}/other/a", "s3://{}/wh", "s3://{}/wh2/a", "s3://{}/a", "s3://other/wh/a", "s3://{}/wh/../a",
        "s3://{}/wh/a//b", "s3://{}/wh/./a", "s3://{}/wh/a?versionId=1", "s3://{}/wh/a#b", "s3://{}/wh/a\tb",
        "s3://{}/wh/\x7f", "s3://{}/wh/a\nb", "gs://{}/wh/a", "file:///wh/a", "/wh/a", "", "s3://{}/wh/\ud800",
    ],
)  # fmt: skip
def test_objects_outside_the_warehouse_are_not_touched(
    watched: RemoteStore, recorder: Recorder, bucket: str, location: str
) -> None:
    location = location.format(bucket)
    for act in (
        lambda: watched.put_new(location, b"x"),
        lambda: watched.get(location, limit=1),
        lambda: watched.require_exists(location),
        lambda: watched.delete(location),
        lambda: watched.delete_many([location]),
        lambda: watched.is_empty(location, ignore=all_count),
        lambda: watched.delete_below(location, proceed),
    ):
        with pytest.raises(InvalidLocation):
            act()
    assert recorder.requests == []


def test_a_warehouse_may_be_all_of_a_bucket(minio: Minio, bucket: str) -> None:
    store = opened(minio.profile(bucket), minio.credential)
    store.put_new(f"s3://{bucket}/a", b"x")
    assert minio.keys(bucket) == ["a"]


def test_existing_objects_are_not_overwritten(store: RemoteStore, bucket: str) -> None:
    location = f"s3://{bucket}/wh/a"
    store.put_new(location, b"first")
    for data in (b"second", b"first"):
        with pytest.raises(ObjectExists, match=f"There is already a file at {location}"):
            store.put_new(location, data)
    assert store.get(location, limit=10) == b"first"


def test_an_unused_store_is_released(minio: Minio, bucket: str) -> None:
    require_collected_when_dropped(lambda: opened(minio.profile(bucket, "wh"), minio.credential), f"s3://{bucket}/wh/a")


def test_missing_objects(store: RemoteStore, bucket: str) -> None:
    location = f"s3://{bucket}/wh/a"
    for act in (lambda: store.get(location, limit=1), lambda: store.require_exists(location)):
        with pytest.raises(ObjectNotFound, match=f"Failed to open input stream for file: {location}"):
            act()
    store.delete(location)
    store.delete_below(location, proceed)
    assert store.is_empty(location, ignore=all_count)


@pytest.mark.parametrize("size", [0, 1, 100_000, 9_000_000])
def test_sizes(store: RemoteStore, bucket: str, size: int) -> None:
    location, data = f"s3://{bucket}/wh/a", bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    store.put_new(location, data)
    assert store.get(location, limit=size) == data
    if size:
        with pytest.raises(ObjectTooLarge, match=f"larger than {size - 1} bytes"):
            store.get(location, limit=size - 1)


def test_only_the_size_of_too_large_objects_is_read(watched: RemoteStore, recorder: Recorder, bucket: str) -> None:
    """The rest of the body never arrives: reading it would block."""
    watched.put_new(f"s3://{bucket}/wh/a", b"x")

    def larger(_: Recorded, ask: Callable[[], Reply]) -> Reply:
        return replace(ask(), headers=ask().headers | {"Content-Length": "5000"})

    recorder.answerer = larger
    with pytest.raises(ObjectTooLarge, match="larger than 4999 bytes"):
        watched.get(f"s3://{bucket}/wh/a", limit=4999)


# --- what lies below -------------------------------------------------------------------------------------------------


def test_whether_anything_is_below(store: RemoteStore, bucket: str, put: Callable[..., None]) -> None:
    location = f"s3://{bucket}/wh/t"
    put("wh/t2/a", "wh/t-a", "wh/t/", "wh/t/folder/", "wh/s/a")
    assert store.is_empty(location, ignore=all_count)
    assert store.is_empty(f"{location}/", ignore=all_count)
    put("wh/t/folder/mine", "wh/t/mine")
    assert not store.is_empty(location, ignore=all_count)
    assert store.is_empty(location, ignore=lambda name: name == "mine")
    put("wh/t/z\ty")
    assert not store.is_empty(location, ignore=lambda name: name == "mine")


def test_is_empty_takes_one_short_list_request(
    watched: RemoteStore, recorder: Recorder, bucket: str, put: Callable[..., None]
) -> None:
    put(*(f"wh/t/{number:03}" for number in range(40)))
    assert not watched.is_empty(f"s3://{bucket}/wh/t", ignore=all_count)
    (request,) = recorder.requests
    assert (request.method, "max-keys=16" in request.target) == ("GET", True)
    recorder.requests.clear()
    assert watched.is_empty(f"s3://{bucket}/wh/t", ignore=lambda _: True)
    assert recorder.asked == ["GET"] * 3


ODD = (
    "wh/t/",
    "wh/t/a/",
    "wh/t/\tb",
    "wh/t/c\x01",
    "wh/t/d\r\ne",
    "wh/t/<&>\"'",
    "wh/t/%zz",
    "wh/t/é",
    "wh/t/\ufffe",
    "wh/t/ ",
)


def test_only_objects_below_the_location_are_deleted(
    store: RemoteStore, minio: Minio, bucket: str, put: Callable[..., None]
) -> None:
    others = ["wh/t-", "wh/t.x/a", "wh/t0", "wh/t2/a", "wh/ta", "wh/u/t/a", "x"]
    put(*others, *ODD, "wh/t/a/b/c/d", "wh/t/metadata/x.json")
    store.delete_below(f"s3://{bucket}/wh/t/", proceed)
    assert minio.keys(bucket) == sorted(others)


def test_many_are_deleted_a_thousand_at_once(
    watched: RemoteStore, recorder: Recorder, bucket: str, minio: Minio
) -> None:
    put_many(minio, bucket, (f"wh/t/{number}" for number in range(1100)))
    steps: list[str] = []
    watched.delete_below(f"s3://{bucket}/wh/t", lambda: steps.append("step"))
    assert minio.keys(bucket) == []
    bodies = [request.body.count(b"<Key>") for request in recorder.requests if request.method == "POST"]
    assert sorted(bodies) == [100, 1000]
    assert recorder.asked.count("GET") == 3, "two pages, and a last look"
    assert len(steps) >= 6


def test_many_names_are_deleted_with_few_requests(
    watched: RemoteStore, recorder: Recorder, bucket: str, minio: Minio, put: Callable[..., None]
) -> None:
    names = [f"wh/t/{number}" for number in range(1100)]
    put(*names[:20], "wh/t/1x", "wh/u/1", "other")
    watched.delete_many([])
    assert recorder.requests == []
    locations = [f"s3://{bucket}/{name}" for name in names]
    with pytest.raises(InvalidLocation):
        watched.delete_many([f"s3://{bucket}/other", *locations, f"s3://{bucket}/wh/t/../u/1"])
    assert minio.keys(bucket) == ["other", "wh/t/1x", "wh/u/1"]
    assert sorted(request.body.count(b"<Key>") for request in recorder.requests) == [100, 1000]
    watched.delete_many([f"s3a://{bucket}/wh/t/1x"])
    assert minio.keys(bucket) == ["other", "wh/u/1"]


def test_when_a_request_fails_the_others_are_sent_all_the_same(
    watched: RemoteStore, recorder: Recorder, bucket: str, minio: Minio, put: Callable[..., None]
) -> None:
    put("wh/t/0", "wh/t/1050")

    def refuse_the_larger(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        return Reply(403, {}, b"") if request.body.count(b"<Key>") == 1000 else ask()

    recorder.answerer = refuse_the_larger
    with pytest.raises(StoreAccessDenied):
        watched.delete_many([f"s3://{bucket}/wh/t/{number}" for number in range(1100)])
    assert minio.keys(bucket) == ["wh/t/0"]


def test_a_deletion_that_is_to_end_ends_between_two_steps(store: RemoteStore, minio: Minio, bucket: str) -> None:
    put_many(minio, bucket, (f"wh/t/{number}" for number in range(1100)))
    left = [4]

    def stop() -> None:
        left[0] -= 1
        if not left[0]:
            time.sleep(0.2)  # the first batch has begun
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.delete_below(f"s3://{bucket}/wh/t", stop)
    assert 0 < len(minio.keys(bucket)) <= 100
    store.delete_below(f"s3://{bucket}/wh/t", proceed)
    assert minio.keys(bucket) == []


def test_a_continuous_writer_does_not_block_a_purge(store: RemoteStore, bucket: str, put: Callable[..., None]) -> None:
    put("wh/t/0")
    with pytest.raises(StoreUnavailable, match="a client keeps writing"):
        store.delete_below(f"s3://{bucket}/wh/t", lambda: put("wh/t/0"))
