"""Remote object stores: S3 and compatible ones, Azure, Google Cloud Storage.

An object's name is the path of its location, byte by byte: `%41` stays `%41`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal

import obstore
from obstore.exceptions import BaseError

from icekeeper.kernel.errors.types import InvalidLocation
from icekeeper.kernel.request import deadline
from icekeeper.kernel.request.thread_slots import release_thread_slot
from storage.errors import StoreRefused
from storage.io.bucket import Bucket
from storage.io.port import ObjectExists, ObjectNotFound, ObjectStore, ObjectTooLarge
from storage.io.store_errors import NotImplementedByStore, obstore_error
from storage.io.sweep import delete_all, sweep
from storage.network.store_http import retry_store_call
from storage.profiles.location import location_inside

logger = logging.getLogger(__name__)

FEW: Final = 16
"""Names of a first look at a folder."""
ASKED_AGAIN_AFTER: Final = 600.0
"""Seconds for which a store that responded 501 to a condition is assumed not to support it."""


class RemoteStore(ObjectStore):
    """The objects of a warehouse in `bucket`; locations lie below `base`, that of the warehouse."""

    def __init__(self, bucket: Bucket, base: str) -> None:
        self.bucket = bucket
        self._base = base
        self._start = len("/".join(base.split("/", 3)[:3])) + 1
        self._looks_first_until = float("-inf")

    def require_ready(self) -> None:
        deadline.remaining()
        self.bucket.prepare()

    def put_new(self, location: str, data: bytes) -> None:
        """An existing object is no conflict after a put whose first response was lost, if it has exactly these bytes.

        Stores that respond 501 to the condition (If-None-Match) are asked first whether there is an object instead,
        for ten minutes; then two who write at once both succeed. The catalog never writes two files under one name.
        """
        name = self._name(location)

        def put(tried: int) -> None:
            try:
                self._put(name, location, data)
            except ObjectExists:
                if not (tried and self._holds(name, location, data)):
                    raise

        self.bucket.prepare()
        retry_store_call(put, remaining=deadline.remaining)

    def get(self, location: str, *, limit: int) -> bytes:
        name = self._name(location)
        self.bucket.prepare()
        return retry_store_call(lambda _: self._get(name, location, limit), remaining=deadline.remaining)

    def require_exists(self, location: str) -> None:
        name = self._name(location)
        self.bucket.prepare()
        retry_store_call(lambda _: self._head(name, location), remaining=deadline.remaining)

    def delete(self, location: str) -> None:
        name = self._name(location)
        self.bucket.prepare()
        with release_thread_slot():
            self.bucket.delete_name(name)

    def delete_many(self, locations: Sequence[str]) -> None:
        if len(locations) == 1:  # without a body, for which S3 wants a digest
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
            with release_thread_slot():
                delete_all(self.bucket, names)
        if outside is not None:
            raise outside

    def is_empty(self, location: str, *, apart_from: Callable[[str], bool]) -> bool:
        """One list of few names, of those only that begin with the location and a slash."""
        folder = f"{self._name(location)}/"
        deadline.remaining()
        self.bucket.prepare()
        with release_thread_slot():
            for listed in self.bucket.list_names(folder, page=FEW):
                if any(not name.endswith("/") and not apart_from(name.rpartition("/")[2]) for name in listed.names):
                    return False
                deadline.remaining()
        return True

    def list_from_the_root(self) -> None:
        """Ask for any one name of the bucket, also outside the warehouse. Raises as the store refuses it."""
        deadline.remaining()
        self.bucket.prepare()
        with release_thread_slot():
            next(self.bucket.list_names("", page=1), None)

    def delete_below(self, location: str, keep_going: Callable[[], object]) -> None:
        sweep(self.bucket, f"{self._name(location)}/", keep_going)

    def create_folder(self, location: str) -> bool:
        """Nothing to do: there are no folders."""
        return False

    def remove_empty_folder(self, location: str) -> None:
        """Nothing to do: there are no folders."""

    def _name(self, location: str) -> str:
        return location_inside(location, base=self._base)[self._start :]

    def _put(self, name: str, location: str, data: bytes) -> None:
        if time.monotonic() >= self._looks_first_until:
            try:
                self._put_as("create", name, location, data)
            except NotImplementedByStore:
                pass  # logged once it has been written without the condition
            else:
                return
        self._look_and_put(name, location, data)

    def _look_and_put(self, name: str, location: str, data: bytes) -> None:
        try:
            self._head(name, location)
        except ObjectNotFound:
            self._put_as("overwrite", name, location, data)
        else:
            raise ObjectExists(f"There is already a file at {location}")
        if time.monotonic() >= self._looks_first_until:
            self._looks_first_until = time.monotonic() + ASKED_AGAIN_AFTER
            logger.warning("The store of %s knows no If-None-Match: the catalog looks before it writes", self._base)

    def _put_as(self, mode: Literal["create", "overwrite"], name: str, location: str, data: bytes) -> None:
        try:
            with release_thread_slot():
                obstore.put(self.bucket.objects, name, data, mode=mode, use_multipart=False)
        except (BaseError, OSError, ValueError) as error:
            refused = obstore_error(error, location)
            if isinstance(refused, ObjectNotFound):  # of all things that a put needs, it can only be that which lacks
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
