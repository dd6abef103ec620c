"""The end of many objects: of every one whose name begins with a prefix, or of those with some names."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from storage.io.bucket import Bucket
from storage.io.port import StoreUnavailable

MOST_LOOKS: Final = 10
"""At one folder, each of which found something to delete: then somebody writes there faster than it is emptied."""


def sweep(bucket: Bucket, prefix: str, keep_going: Callable[[], object]) -> None:
    """Delete until nothing is left. Names are held for a page and for the deletions under way, however many there are.

    `keep_going` is called before each page and each call that deletes; what it raises ends the work when the calls
    under way have ended. Raises as the bucket does.
    """
    for _ in range(MOST_LOOKS):
        if not _swept(bucket, prefix, keep_going):
            return
    raise StoreUnavailable("The object store failed: somebody keeps writing there")


def _swept(bucket: Bucket, prefix: str, keep_going: Callable[[], object]) -> bool:
    """Whether there was anything to delete."""
    keep_going()
    bucket.prepare()
    under_way: deque[Future[None]] = deque()
    has_deleted = False
    with ThreadPoolExecutor(bucket.calls_at_once, thread_name_prefix="sweep") as pool:
        for names in bucket.list_names(prefix):
            for together in _pieces(names, bucket.deleted_at_once):
                keep_going()
                if len(under_way) >= bucket.calls_at_once:
                    under_way.popleft().result()
                under_way.append(pool.submit(bucket.delete_names, together))
                has_deleted = True
            keep_going()
        for call in under_way:
            keep_going()
            call.result()
    return has_deleted


def delete_all(bucket: Bucket, names: Sequence[str]) -> None:
    """Delete these objects; those that are not there are fine. When a call fails, the others are made all the same.

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
