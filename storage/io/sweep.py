"""The end of many objects: of every one whose name begins with a prefix, or of those with some names."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from storage.errors import StoreUnavailable
from storage.io.bucket import Bucket

MAX_PASSES: Final = 10
"""Passes over one folder that each found something to delete: then a client writes faster than it is emptied."""
MAX_FOLDERS: Final = 10_000
"""Folders that one pass collects."""
FOLDERS_AT_ONCE: Final = 50
"""That are removed between two calls of `keep_going`."""


def sweep(bucket: Bucket, prefix: str, keep_going: Callable[[], object]) -> None:
    """Delete until nothing is left, and the folder itself. What is held in memory is bounded, however much there is.

    `keep_going` is called before each page and each call that deletes; what it raises ends the work when the calls
    under way have ended. Raises as the bucket does.
    """
    looks = 0
    while looks < MAX_PASSES:
        deleted, folders = _delete_listed(bucket, prefix, keep_going)
        if not deleted and not folders:
            if bucket.is_folder(own := prefix.removesuffix("/")):
                bucket.remove_folders([own])
            return
        removed = 0
        for together in _pieces(folders, FOLDERS_AT_ONCE):
            keep_going()
            removed += bucket.remove_folders(together)
        looks += bool(deleted) or not removed  # folders in folders are removed by several looks
    raise StoreUnavailable("The object store failed: a client keeps writing there")


def _delete_listed(bucket: Bucket, prefix: str, keep_going: Callable[[], object]) -> tuple[int, list[str]]:
    """Delete every object that one look finds; how many calls it took, and the folders that were seen, inner first.

    At most `MAX_FOLDERS` folders are collected.
    """
    keep_going()
    bucket.prepare()
    under_way: deque[Future[None]] = deque()
    calls = 0
    folders: list[str] = []
    with ThreadPoolExecutor(bucket.calls_at_once, thread_name_prefix="sweep") as pool:
        for listed in bucket.list_names(prefix):
            folders += listed.folders[: MAX_FOLDERS - len(folders)]
            for together in _pieces(listed.names, bucket.deleted_at_once):
                keep_going()
                if len(under_way) >= bucket.calls_at_once:
                    under_way.popleft().result()
                under_way.append(pool.submit(bucket.delete_names, together))
                calls += 1
            keep_going()
        for call in under_way:
            keep_going()
            call.result()
    return calls, sorted(folders, key=lambda folder: -folder.count("/"))


def delete_all(bucket: Bucket, names: Sequence[str]) -> None:
    """Delete these objects; those that are not there are fine. When a call fails, the others are still sent.

    Raises what one of them raised.
    """
    bucket.prepare()
    pieces = list(_pieces(names, bucket.deleted_at_once))
    if len(pieces) == 1:
        bucket.delete_names(pieces[0])
        return
    with ThreadPoolExecutor(bucket.calls_at_once, thread_name_prefix="delete") as pool:
        calls = [pool.submit(bucket.delete_names, piece) for piece in pieces]
    for call in calls:
        call.result()


def _pieces(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]
