"""Interface of object stores: small objects, read and written as a whole, addressed by their location."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

from icekeeper.kernel.errors.types import CatalogError, Conflict, NotFound
from icekeeper.kernel.metrics import time_store_calls


class ObjectNotFound(NotFound):
    """No object exists at the location."""


class ObjectExists(Conflict):
    """An object already exists at the location."""


class ObjectTooLarge(CatalogError):
    status, wire_type = 400, "BadRequestException"


OnDeleted = Callable[[int, int], object]
"""Gets the numbers of files and bytes of which the store has confirmed the deletion since the last call."""


def ignore_count(_files: int, _size: int) -> None:
    """Count nothing."""


timed = partial(time_store_calls, expected=(ObjectNotFound, ObjectExists, ObjectTooLarge))
"""Decorator of a store's method, with the name of the operation in the metrics."""


class ObjectStore(ABC):
    """Locations are complete (`file:///…`, `s3://…`) and were checked to lie in the warehouse.

    Each call but deletions asks the request's deadline first. Raises `StoreUnavailable` when the store itself fails,
    `StoreRefused` when it rejects the request.
    """

    kind: str
    """`s3`, `azure`, `gcs` or `local`."""

    @abstractmethod
    def require_ready(self) -> None:
        """Get valid keys or a token, from a cache or the service that issues them. The store itself is not called.

        Raises the errors of that service.
        """

    @abstractmethod
    def put_new(self, location: str, data: bytes) -> None:
        """Create an object durably. Raises `ObjectExists`.

        After `StoreUnavailable` it may have been created.
        """

    @abstractmethod
    def get(self, location: str, *, limit: int) -> bytes:
        """Return the object. Raises `ObjectNotFound`, or `ObjectTooLarge` above `limit` bytes."""

    @abstractmethod
    def require_exists(self, location: str) -> None:
        """Raises `ObjectNotFound` unless an object exists at a location that this catalog wrote; it is not read."""

    @abstractmethod
    def delete(self, location: str) -> None:
        """Delete an object, if it exists. Not limited by the deadline of the request."""

    @abstractmethod
    def delete_many(self, locations: Sequence[str]) -> None:
        """Delete objects, if they exist, with few requests. Not limited by the deadline of the request.

        An error does not stop the deletion of the others; one of the errors is raised in the end.
        """

    @abstractmethod
    def is_empty(self, location: str, *, ignore: Callable[[str], bool]) -> bool:
        """Return whether no object exists below the location; empty folders do not count.

        Objects are ignored when `ignore` returns true for the last part of their name. A local file at the location
        itself counts; an object of an object store there does not, as it does not conflict.
        """

    @abstractmethod
    def delete_below(
        self, location: str, checkpoint: Callable[[], object], on_deleted: OnDeleted = ignore_count
    ) -> None:
        """Delete all objects below the location, and nothing else. May be repeated.

        `checkpoint` is called before each step, and every second during long ones; what it raises ends the deletion.
        `on_deleted` is called in the same thread, also for what is deleted before an error. Raises `InvalidLocation`
        when the location is not a folder, `StoreUnavailable` when another process keeps writing there.
        """

    @abstractmethod
    def create_folder(self, location: str) -> bool:
        """Create the folder of a warehouse's base; return whether it is new. Object stores have nothing to do."""

    @abstractmethod
    def remove_empty_folder(self, location: str) -> None:
        """Remove the folder that `create_folder` created, unless it contains something or does not exist."""
