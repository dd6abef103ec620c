"""The object store as the catalog needs it: small whole objects, written once, named by their location."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import update_wrapper
from time import perf_counter
from typing import Concatenate, ParamSpec, TypeVar

from icekeeper.kernel.errors.types import CatalogError, Conflict, NotFound
from icekeeper.kernel.metrics import Operation, store_call_ended


class ObjectNotFound(NotFound):
    """There is no object at the location."""


class ObjectExists(Conflict):
    """Put-if-absent met an object."""


class ObjectTooLarge(CatalogError):
    status, wire_type = 400, "BadRequestException"


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="ObjectStore")
Method = Callable[Concatenate[S, P], R]


def timed(operation: Operation) -> Callable[[Method[S, P, R]], Method[S, P, R]]:
    """Count and time the calls of a method. An object that is missing, too large or in the way is no error."""

    def decorate(method: Method[S, P, R]) -> Method[S, P, R]:
        def call(self: S, /, *args: P.args, **options: P.kwargs) -> R:
            started, is_error = perf_counter(), True
            try:
                result = method(self, *args, **options)
                is_error = False
            except (ObjectNotFound, ObjectExists, ObjectTooLarge):
                is_error = False
                raise
            finally:
                store_call_ended(self.kind, operation, perf_counter() - started, is_error=is_error)
            return result

        update_wrapper(call, method)
        return call

    return decorate


class ObjectStore(ABC):
    """Locations are complete (`file:///…`, `s3://…`) and were checked to lie in the warehouse.

    Each call but deletions asks the request's deadline first. Raises `StoreUnavailable` when the store itself fails,
    `StoreRefused` when it rejects the request.
    """

    kind: str
    """`s3`, `azure`, `gcs` or `local`."""

    @abstractmethod
    def require_ready(self) -> None:
        """Get what the store is asked with, keys or a token, when there is no good one at hand; it is asked nothing.

        Raises the errors of the service that issues them.
        """

    @abstractmethod
    def put_new(self, location: str, data: bytes) -> None:
        """Write an object that is not there yet; on return it survives a power cut. Raises `ObjectExists`.

        After `StoreUnavailable` it may be there all the same.
        """

    @abstractmethod
    def get(self, location: str, *, limit: int) -> bytes:
        """The whole object. Raises `ObjectNotFound`, or `ObjectTooLarge` above `limit` bytes."""

    @abstractmethod
    def require_exists(self, location: str) -> None:
        """Raises `ObjectNotFound` unless there is an object at a location that this catalog wrote; nothing is read."""

    @abstractmethod
    def delete(self, location: str) -> None:
        """Delete an object; one that is not there is fine. Cleaning up has no deadline."""

    @abstractmethod
    def delete_many(self, locations: Sequence[str]) -> None:
        """Delete objects, with few requests; those that are not there are fine. Cleaning up has no deadline.

        When some cannot be deleted, the others are all the same, and then it raises the reason of one of them.
        """

    @abstractmethod
    def is_empty(self, location: str, *, ignore: Callable[[str], bool]) -> bool:
        """Whether there is no object below the location; folders without objects are nothing.

        Objects do not count when `ignore` is true of the last part of their name. At the location itself a file
        of the local file system counts, while an object of an object store is in no way a conflict.
        """

    @abstractmethod
    def delete_below(self, location: str, keep_going: Callable[[], object]) -> None:
        """Delete every object below the location, and nothing else; what was deleted before is fine.

        `keep_going` is called before each step; what it raises ends the deletion there. Raises `InvalidLocation` when
        the location itself is no folder, and `StoreUnavailable` when another process keeps writing there.
        """

    @abstractmethod
    def create_folder(self, location: str) -> bool:
        """Create the folder of a warehouse's base; return whether it is new. Object stores have nothing to do."""

    @abstractmethod
    def remove_empty_folder(self, location: str) -> None:
        """Remove the folder that `create_folder` created, unless it contains something or does not exist."""
