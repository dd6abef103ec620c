"""Deletes many objects of a bucket: those below a folder, or those of a list."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Final, TypeVar

from icekeeper.kernel.errors.types import CatalogError
from storage.errors import StoreUnavailable
from storage.io.bucket import Bucket, ListedPage
from storage.io.port import OnDeleted, ignore_count

MAX_PASSES: Final = 10
"""Limit of passes over a folder that is being deleted while clients keep writing to it."""
MAX_FOLDERS: Final = 10_000
"""Limit of directories that one pass collects."""
FOLDER_BATCH: Final = 50
"""Directories that are removed between two calls of `checkpoint`."""

CHECKPOINT_SECONDS: Final = 1.0
"""Interval of `checkpoint` while requests are under way."""
MAX_CHECKPOINT_AGE_SECONDS: Final = 20.0
"""No request begins after this time without a `checkpoint`, for example because the database does not respond."""

T = TypeVar("T")
Errors = Mapping[str, CatalogError]


def sweep(bucket: Bucket, prefix: str, checkpoint: Callable[[], object], on_deleted: OnDeleted = ignore_count) -> None:
    """Delete all objects with the prefix, and the directory itself, in bounded memory.

    `checkpoint` is called before each page and each deletion, and every second while requests are under way. After it
    raises, no request begins: those that are under way are not retried. `on_deleted` also counts what they delete.
    Raises as the bucket does.
    """
    passes = 0
    while passes < MAX_PASSES:
        listing = _Pass(bucket, prefix, checkpoint, on_deleted)
        listing.run()
        folders = sorted(listing.folders, key=lambda folder: -folder.count("/"))  # inner ones first
        if not listing.calls and not folders:
            if bucket.is_folder(own := prefix.removesuffix("/")):
                bucket.remove_folders([own])
            return
        removed = 0
        for together in _pieces(folders, FOLDER_BATCH):
            checkpoint()
            removed += bucket.remove_folders(together)
        passes += bool(listing.calls) or not removed  # nested directories need several passes
    raise StoreUnavailable("The object store failed: a client keeps writing there")


class _Pass:
    """One listing, whose objects are deleted: the next page is listed during the deletion of the former ones.

    Requests run in other threads, so that `checkpoint` and `on_deleted` are called in this one at any time. At most two
    pages and the batches of `max_parallel_deletes` calls are in memory.
    """

    def __init__(self, bucket: Bucket, prefix: str, checkpoint: Callable[[], object], on_deleted: OnDeleted) -> None:
        self.calls = 0
        self.folders: list[str] = []
        self._bucket, self._prefix = bucket, prefix
        self._checkpoint, self._on_deleted = checkpoint, on_deleted
        self._checked_at = float("-inf")
        self._is_stopped = False
        self._under_way: deque[tuple[Future[dict[str, CatalogError]], Mapping[str, int]]] = deque()

    def run(self) -> None:
        """Delete the objects; count the calls of `delete_names`, and collect at most `MAX_FOLDERS` directories."""
        self._check()
        self._bucket.prepare()
        with ThreadPoolExecutor(self._bucket.max_parallel_deletes + 1, thread_name_prefix="sweep") as pool:
            try:
                self._delete_listed(pool)
            except BaseException:
                self._is_stopped = True
                raise
            finally:
                pool.shutdown()
                for call, objects in self._under_way:
                    if call.exception() is None:
                        self._count(call.result(), objects)

    def _delete_listed(self, pool: ThreadPoolExecutor) -> None:
        pages = self._bucket.list_names(self._prefix, remaining=self._require_checked)
        page: Future[ListedPage | None] = pool.submit(next, pages, None)
        while (listed := self._result(page)) is not None:
            page = pool.submit(next, pages, None)
            self.folders += listed.folders[: MAX_FOLDERS - len(self.folders)]
            for objects in _batches(listed.objects, self._bucket.delete_batch_size):
                self._start(pool, objects)
        while self._under_way:
            self._end_first()

    def _start(self, pool: ThreadPoolExecutor, objects: Mapping[str, int]) -> None:
        if len(self._under_way) >= self._bucket.max_parallel_deletes:
            self._end_first()
        self._check()
        call = pool.submit(self._bucket.delete_names, list(objects), remaining=self._require_checked)
        self._under_way.append((call, objects))
        self.calls += 1

    def _end_first(self) -> None:
        errors = self._result(self._under_way[0][0])
        _, objects = self._under_way.popleft()
        self._count(errors, objects)
        _raise_first(errors)

    def _result(self, future: Future[T]) -> T:
        self._check()
        while not wait([future], timeout=CHECKPOINT_SECONDS).done:
            self._check()
        return future.result()

    def _count(self, errors: Errors, objects: Mapping[str, int]) -> None:
        sizes = [size for name, size in objects.items() if name not in errors]
        if sizes:
            self._on_deleted(len(sizes), sum(sizes))

    def _check(self) -> None:
        self._checkpoint()
        self._checked_at = time.monotonic()

    def _require_checked(self) -> None:
        """Called before each attempt of a request: raises when it must not begin."""
        if self._is_stopped or time.monotonic() - self._checked_at > MAX_CHECKPOINT_AGE_SECONDS:
            raise StoreUnavailable("The deletion was interrupted")


def delete_all(bucket: Bucket, names: Sequence[str]) -> None:
    """Delete objects, if they exist, in batches. A failed batch does not stop the others; its error is raised."""
    bucket.prepare()
    pieces = list(_pieces(names, bucket.delete_batch_size))
    if len(pieces) == 1:
        _raise_first(bucket.delete_names(pieces[0]))
        return
    with ThreadPoolExecutor(bucket.max_parallel_deletes, thread_name_prefix="delete") as pool:
        calls = [pool.submit(bucket.delete_names, piece) for piece in pieces]
    for call in calls:
        _raise_first(call.result())


def _raise_first(errors: Errors) -> None:
    for error in errors.values():
        raise error


def _batches(objects: Mapping[str, int], size: int) -> Iterator[Mapping[str, int]]:
    items = iter(objects.items())
    while batch := dict(islice(items, size)):
        yield batch


def _pieces(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]
