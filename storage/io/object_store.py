"""Remote object stores: S3 and compatible stores, Azure, Google Cloud Storage.

An object's name is the path of its location, byte by byte: `%41` stays `%41`.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Literal

import obstore
from obstore.exceptions import BaseError

from icekeeper.kernel import request_context
from icekeeper.kernel.errors.types import InvalidLocation
from icekeeper.kernel.threads import release_thread_slot
from storage.errors import StoreRefused, StoreUnavailable
from storage.io.bucket import Bucket, NotImplementedByStore, obstore_error
from storage.io.port import ObjectExists, ObjectNotFound, ObjectStore, ObjectTooLarge, timed
from storage.network.store_http import retry_store_call
from storage.profiles.location import location_inside

logger = logging.getLogger(__name__)

FIRST_PAGE: Final = 16
"""Page size of the check whether a folder is empty."""
FALLBACK_SECONDS: Final = 600.0
"""Seconds for which a store that responded 501 to If-None-Match is assumed not to support it."""


class RemoteStore(ObjectStore):
    """The objects of a warehouse in `bucket`; locations are below `base`, the location of the warehouse."""

    def __init__(self, bucket: Bucket, base: str) -> None:
        self.bucket, self.kind = bucket, bucket.kind
        self._base = base
        self._start = len("/".join(base.split("/", 3)[:3])) + 1
        self._fallback_until = float("-inf")

    def require_ready(self) -> None:
        request_context.remaining_seconds()
        self.bucket.prepare()

    @timed("put")
    def put_new(self, location: str, data: bytes) -> None:
        """After an attempt whose response was lost, an existing object with the same content is not a conflict.

        If the store responds 501 to If-None-Match, the existence of the object is checked before writes for ten
        minutes. Of two concurrent writers both succeed then; the catalog never writes two files with one name.
        """
        name = self._name(location)

        def put(tried: int) -> None:
            try:
                self._put(name, location, data)
            except ObjectExists:
                if not (tried and self._holds(name, location, data)):
                    raise

        self.bucket.prepare()
        retry_store_call(put, remaining=request_context.remaining_seconds)

    @timed("get")
    def get(self, location: str, *, limit: int) -> bytes:
        name = self._name(location)
        self.bucket.prepare()
        return retry_store_call(lambda _: self._get(name, location, limit), remaining=request_context.remaining_seconds)

    @timed("head")
    def require_exists(self, location: str) -> None:
        name = self._name(location)
        self.bucket.prepare()
        retry_store_call(lambda _: self._head(name, location), remaining=request_context.remaining_seconds)

    @timed("delete")
    def delete(self, location: str) -> None:
        name = self._name(location)
        self.bucket.prepare()
        with release_thread_slot():
            self.bucket.delete_name(name)

    def delete_many(self, locations: Sequence[str]) -> None:
        if len(locations) == 1:  # without a body: DeleteObjects needs a digest
            self.delete(locations[0])
            return
        names: list[str] = []
        outside: InvalidLocation | None = None
        for location in locations:
            try:
                names.append(self._name(location))
            except InvalidLocation as error:
                outside = error
        if names:
            self._delete_names(names)
        if outside is not None:
            raise outside

    @timed("list")
    def is_empty(self, location: str, *, ignore: Callable[[str], bool]) -> bool:
        """Lists a few names that begin with the location and a slash."""
        folder = f"{self._name(location)}/"
        self.bucket.prepare()
        remaining = request_context.remaining_seconds
        with release_thread_slot():
            for listed in self.bucket.list_names(folder, page=FIRST_PAGE, remaining=remaining):
                if any(not name.endswith("/") and not ignore(name.rpartition("/")[2]) for name in listed.names):
                    return False
        return True

    @timed("list")
    def list_root(self) -> None:
        """List one name of the whole bucket, outside of the warehouse. Raises the error of the store."""
        self.bucket.prepare()
        with release_thread_slot():
            next(self.bucket.list_names("", page=1, remaining=request_context.remaining_seconds), None)

    @timed("sweep")
    def delete_below(self, location: str, checkpoint: Callable[[], object]) -> None:
        sweep(self.bucket, f"{self._name(location)}/", checkpoint)

    def create_folder(self, location: str) -> bool:
        """Nothing to do: object stores have no folders."""
        return False

    def remove_empty_folder(self, location: str) -> None:
        """Nothing to do: object stores have no folders."""

    def _name(self, location: str) -> str:
        return location_inside(location, base=self._base)[self._start :]

    @timed("delete")
    def _delete_names(self, names: Sequence[str]) -> None:
        with release_thread_slot():
            delete_all(self.bucket, names)

    def _put(self, name: str, location: str, data: bytes) -> None:
        if time.monotonic() >= self._fallback_until:
            try:
                self._put_as("create", name, location, data)
            except NotImplementedByStore:
                pass  # logged after the object was written without the condition
            else:
                return
        self._check_and_put(name, location, data)

    def _check_and_put(self, name: str, location: str, data: bytes) -> None:
        try:
            self._head(name, location)
        except ObjectNotFound:
            self._put_as("overwrite", name, location, data)
        else:
            raise ObjectExists(f"There is already a file at {location}")
        if time.monotonic() >= self._fallback_until:
            self._fallback_until = time.monotonic() + FALLBACK_SECONDS
            logger.warning(
                "The store of %s does not support If-None-Match: the catalog checks for an object before it writes",
                self._base,
            )

    def _put_as(self, mode: Literal["create", "overwrite"], name: str, location: str, data: bytes) -> None:
        try:
            with release_thread_slot():
                obstore.put(self.bucket.objects, name, data, mode=mode, use_multipart=False)
        except (BaseError, OSError, ValueError) as error:
            refused = obstore_error(error, location)
            if isinstance(refused, ObjectNotFound):  # a put needs only the bucket
                raise StoreRefused(f"The bucket of {location} does not exist") from None
            raise refused from None

    def _holds(self, name: str, location: str, data: bytes) -> bool:
        try:
            return self._get(name, location, len(data)) == data
        except (ObjectNotFound, ObjectTooLarge):
            return False

    def _get(self, name: str, location: str, limit: int) -> bytes:
        with release_thread_slot():
            return self.bucket.read(name, location, limit)

    def _head(self, name: str, location: str) -> None:
        with release_thread_slot():
            self.bucket.require(name, location)


MAX_PASSES: Final = 10
"""Limit of passes over a folder that is being deleted while clients keep writing to it."""
MAX_FOLDERS: Final = 10_000
"""Limit of directories that one pass collects."""
FOLDER_BATCH: Final = 50
"""Directories that are removed between two calls of `checkpoint`."""


def sweep(bucket: Bucket, prefix: str, checkpoint: Callable[[], object]) -> None:
    """Delete all objects with the prefix, and the directory itself, in bounded memory.

    `checkpoint` is called before each page and each deletion; what it raises ends the deletion, after the calls that
    are running. Raises as the bucket does.
    """
    passes = 0
    while passes < MAX_PASSES:
        deleted, folders = _delete_listed(bucket, prefix, checkpoint)
        if not deleted and not folders:
            if bucket.is_folder(own := prefix.removesuffix("/")):
                bucket.remove_folders([own])
            return
        removed = 0
        for together in _pieces(folders, FOLDER_BATCH):
            checkpoint()
            removed += bucket.remove_folders(together)
        passes += bool(deleted) or not removed  # nested directories need several passes
    raise StoreUnavailable("The object store failed: a client keeps writing there")


def _delete_listed(bucket: Bucket, prefix: str, checkpoint: Callable[[], object]) -> tuple[int, list[str]]:
    """Delete the objects that one listing returns. Return the number of calls, and the directories, inner ones first.

    At most `MAX_FOLDERS` directories are collected.
    """
    checkpoint()
    bucket.prepare()
    under_way: deque[Future[None]] = deque()
    calls = 0
    folders: list[str] = []
    with ThreadPoolExecutor(bucket.max_parallel_deletes, thread_name_prefix="sweep") as pool:
        for listed in bucket.list_names(prefix):
            folders += listed.folders[: MAX_FOLDERS - len(folders)]
            for together in _pieces(listed.names, bucket.delete_batch_size):
                checkpoint()
                if len(under_way) >= bucket.max_parallel_deletes:
                    under_way.popleft().result()
                under_way.append(pool.submit(bucket.delete_names, together))
                calls += 1
            checkpoint()
        for call in under_way:
            checkpoint()
            call.result()
    return calls, sorted(folders, key=lambda folder: -folder.count("/"))


def delete_all(bucket: Bucket, names: Sequence[str]) -> None:
    """Delete objects, if they exist, in batches. A failed batch does not stop the others; its error is raised."""
    bucket.prepare()
    pieces = list(_pieces(names, bucket.delete_batch_size))
    if len(pieces) == 1:
        bucket.delete_names(pieces[0])
        return
    with ThreadPoolExecutor(bucket.max_parallel_deletes, thread_name_prefix="delete") as pool:
        calls = [pool.submit(bucket.delete_names, piece) for piece in pieces]
    for call in calls:
        call.result()


def _pieces(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]
