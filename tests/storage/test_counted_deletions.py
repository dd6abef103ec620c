"""Deletions below a location report what the store has deleted, and end when they must."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.errors import StoreAccessDenied, StoreUnavailable
from storage.io import deletion
from storage.io.local import LocalStore
from storage.io.object_store import RemoteStore
from tests.parts.minio import Minio
from tests.parts.recorder import Recorded, Recorder, Reply
from tests.storage.cloud_fixtures import Cloud
from tests.storage.open_store_fixtures import opened, use_storage_settings
from tests.storage.test_object_store_failures import SLOW_DOWN, batch_errors
from tests.storage.test_object_store_minio import put_many

pytestmark = pytest.mark.django_db  # waiting code closes its database connections


class Counter:
    """Adds up what a store reports."""

    def __init__(self) -> None:
        self.files = self.size = 0

    def __call__(self, files: int, size: int) -> None:
        self.files += files
        self.size += size

    @property
    def total(self) -> tuple[int, int]:
        return self.files, self.size


@pytest.fixture
def deleted() -> Counter:
    return Counter()


@pytest.fixture
def watched(minio: Minio, bucket: str, recorder: Recorder) -> RemoteStore:
    """A store on MinIO, with its requests recorded by `recorder`."""
    return opened(minio.profile(bucket, "wh", endpoint=recorder.endpoint), minio.credential)


def proceed() -> None:
    pass


def posts(recorder: Recorder) -> int:
    return recorder.asked.count("POST")


def test_local_files_and_links_are_counted(store: LocalStore, root: Path, deleted: Counter) -> None:
    (root / "wh/t/data").mkdir(parents=True)
    (root / "wh/t/data/a").write_bytes(b"x" * 70)
    (root / "wh/t/b").write_bytes(b"x" * 7)
    (root / "wh/t/link").symlink_to("/nowhere")
    store.delete_below(f"file://{root}/wh/t", proceed, deleted)
    assert deleted.total == (3, 77 + len("/nowhere"))
    store.delete_below(f"file://{root}/wh/t", proceed, deleted)
    assert deleted.files == 3


def test_objects_of_clouds_are_counted(cloud: Cloud, deleted: Counter) -> None:
    store = cloud.open()
    for number in range(1, 11):
        store.put_new(f"{cloud.base}/t/{number}", b"x" * number)
    store.put_new(f"{cloud.base}/t2", b"x")
    store.delete_below(f"{cloud.base}/t", proceed, deleted)
    assert deleted.total == (10, 55)
    assert cloud.list_names() == ["wh/t2"]


def test_objects_of_s3_are_counted_without_more_requests(
    watched: RemoteStore, recorder: Recorder, minio: Minio, bucket: str, deleted: Counter
) -> None:
    put_many(minio, bucket, (f"wh/t/{number}" for number in range(1100)))
    for name in ("a&b", "<c>", "d\te", "f%2F ü"):  # one of them cannot be in a batch
        minio.client().put_object(Bucket=bucket, Key=f"wh/t/{name}", Body=b"12345")
    watched.delete_below(f"s3://{bucket}/wh/t", proceed, deleted)
    assert deleted.total == (1104, 20)
    assert sorted(recorder.asked) == ["DELETE", "GET", "GET", "GET", "POST", "POST"]
    assert minio.keys(bucket, "wh/") == []


def test_objects_that_a_batch_failed_to_delete_are_not_counted(
    watched: RemoteStore, recorder: Recorder, bucket: str, deleted: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_storage_settings(monkeypatch, retries=0)
    for name, size in {"a": 1, "b": 10, "c": 100, "d": 1000}.items():
        watched.put_new(f"s3://{bucket}/wh/t/{name}", b"x" * size)
    refused = batch_errors(a="SlowDown", b="AccessDenied", d="NoSuchKey")
    recorder.answerer = lambda request, ask: refused if request.method == "POST" else ask()
    with pytest.raises(StoreUnavailable, match="SlowDown"):
        watched.delete_below(f"s3://{bucket}/wh/t", proceed, deleted)
    assert deleted.total == (2, 1100)


def test_a_denied_batch_is_not_counted(
    watched: RemoteStore, recorder: Recorder, minio: Minio, bucket: str, deleted: Counter
) -> None:
    put_many(minio, bucket, (f"wh/t/{number}" for number in range(1100)))

    def refuse_the_larger(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        return Reply(403, {}, b"") if request.body.count(b"<Key>") == 1000 else ask()

    recorder.answerer = refuse_the_larger
    with pytest.raises(StoreAccessDenied):
        watched.delete_below(f"s3://{bucket}/wh/t", proceed, deleted)
    left = len(minio.keys(bucket, "wh/"))
    assert (left, deleted.files) in {(1000, 100), (1100, 0)}, "the smaller batch may not have begun"


def test_what_is_deleted_during_an_interruption_is_counted(
    watched: RemoteStore, minio: Minio, bucket: str, recorder: Recorder, deleted: Counter
) -> None:
    put_many(minio, bucket, (f"wh/t/{number}" for number in range(10)))

    def stop() -> None:
        if posts(recorder):
            raise KeyboardInterrupt

    def respond_late(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        reply = ask()
        time.sleep(1.5 * deletion.CHECKPOINT_SECONDS if request.method == "POST" else 0)
        return reply

    recorder.answerer = respond_late
    with pytest.raises(KeyboardInterrupt):
        watched.delete_below(f"s3://{bucket}/wh/t", stop, deleted)
    assert minio.keys(bucket, "wh/") == []
    assert deleted.files == 10


def test_after_an_interruption_nothing_is_retried(
    watched: RemoteStore, recorder: Recorder, minio: Minio, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint raises during a request, for example because the lease on the task is lost."""
    monkeypatch.setattr(deletion, "CHECKPOINT_SECONDS", 0.02)
    use_storage_settings(monkeypatch, retries=10)
    put_many(minio, bucket, (f"wh/t/{number}" for number in range(10)))
    interrupted: list[int] = []

    def stop() -> None:
        if posts(recorder) == 2:
            interrupted.append(1)
            raise KeyboardInterrupt

    def fail_slowly(request: Recorded, ask: Callable[[], Reply]) -> Reply:
        if request.method != "POST":
            return ask()
        time.sleep(0.3)
        return SLOW_DOWN

    recorder.answerer = fail_slowly
    with pytest.raises(KeyboardInterrupt):
        watched.delete_below(f"s3://{bucket}/wh/t", stop)
    time.sleep(0.5)
    assert (posts(recorder), len(interrupted)) == (2, 1)


def test_no_request_begins_without_a_recent_checkpoint(
    watched: RemoteStore, recorder: Recorder, minio: Minio, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "MAX_CHECKPOINT_AGE_SECONDS", -1.0)
    put_many(minio, bucket, ["wh/t/a"])
    with pytest.raises(StoreUnavailable, match="interrupted"):
        watched.delete_below(f"s3://{bucket}/wh/t", proceed)
    assert recorder.requests == []


def test_checkpoints_continue_while_a_store_is_slow(
    watched: RemoteStore, recorder: Recorder, minio: Minio, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat must not wait for a request, which may take minutes with its retries."""
    monkeypatch.setattr(deletion, "CHECKPOINT_SECONDS", 0.02)
    put_many(minio, bucket, ["wh/t/a"])
    steps: list[float] = []

    def respond_late(_: Recorded, ask: Callable[[], Reply]) -> Reply:
        time.sleep(0.3)
        return ask()

    recorder.answerer = respond_late
    watched.delete_below(f"s3://{bucket}/wh/t", lambda: steps.append(time.monotonic()))
    assert len(steps) > 15, "3 requests of 0.3 s each"
