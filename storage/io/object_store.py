"""Remote object stores: S3 and compatible stores, Azure, Google Cloud Storage.

An object's name is the path of its location, byte by byte: `%41` stays `%41`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal

import obstore
from obstore.exceptions import BaseError

from icekeeper.kernel import request_context
from icekeeper.kernel.errors.types import InvalidLocation
from icekeeper.kernel.threads import release_thread_slot
from storage.errors import StoreRefused
from storage.io.bucket import Bucket, NotImplementedByStore, obstore_error
from storage.io.deletion import delete_all, sweep
from storage.io.port import (
    ObjectExists,
    ObjectNotFound,
    ObjectStore,
    ObjectTooLarge,
    OnDeleted,
    ignore_count,
    timed,
)
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
    def delete_below(
        self, location: str, checkpoint: Callable[[], object], on_deleted: OnDeleted = ignore_count
    ) -> None:
        sweep(self.bucket, f"{self._name(location)}/", checkpoint, on_deleted)

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
