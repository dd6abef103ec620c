"""Translate error responses of object stores into errors of the catalog.

Messages contain only the store's error code, such as `SlowDown`: its text may contain addresses with signatures.
"""

from __future__ import annotations

import re
from typing import Final

from obstore.exceptions import UnauthenticatedError

from icekeeper.kernel.errors.types import CatalogError, InvalidLocation
from storage.errors import StoreAccessDenied, StoreRefused, StoreUnavailable
from storage.io.port import ObjectExists, ObjectNotFound, ObjectTooLarge

_STATUS = re.compile(r"\bStatus \{\n +status: ([0-9]{3}),")
_CODE = re.compile(r"<Code>([A-Za-z.]{1,80})</Code>|\"reason\": ?\\?\"([A-Za-z]{1,80})\\?\"")
_NO_RESPONSE = re.compile(r"\bHttpError \{\n +kind: ([A-Za-z]{1,30}),")
_DEBUG = "\n\nDebug source:\n"

NO_BUCKET: Final = frozenset({"NoSuchBucket", "ContainerNotFound", "FilesystemNotFound", "AccountNotFound"})
BAD_KEYS: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired"})
TRANSIENT: Final = frozenset({"ConditionalRequestConflict", "OperationAborted", "SlowDown", "RequestTimeout"})
"""Codes of errors that may be retried, whatever the status."""
TAKEN: Final = frozenset({None, "PreconditionFailed", "ConditionNotMet", "BlobAlreadyExists"})
"""Codes of a conditional write that failed because the object exists."""

UNAUTHORIZED, FORBIDDEN, NOT_FOUND, REQUEST_TIMEOUT, CONFLICT = 401, 403, 404, 408, 409
PRECONDITION_FAILED, TOO_MANY, FAILED, NOT_IMPLEMENTED = 412, 429, 500, 501


class NotImplementedByStore(StoreRefused):
    """The store does not implement a feature that the request uses."""


def store_error(status: int, code: str | None, location: str) -> CatalogError:
    """Return the error for an error response about the object at `location`."""
    said = code or f"status {status}"
    if code in NO_BUCKET:
        return StoreRefused(f"The bucket of {location} does not exist: {said}")
    if code in BAD_KEYS or status in {UNAUTHORIZED, FORBIDDEN}:
        return StoreAccessDenied(f"The object store denied access to {location}: {said}")
    if code in TRANSIENT or status in {REQUEST_TIMEOUT, TOO_MANY} or (status >= FAILED and status != NOT_IMPLEMENTED):
        return StoreUnavailable(f"The object store failed at {location}: {said}")
    if status == NOT_FOUND:
        return ObjectNotFound(f"Failed to open input stream for file: {location}")
    if status in {CONFLICT, PRECONDITION_FAILED} and code in TAKEN:
        return ObjectExists(f"There is already a file at {location}")
    kind = NotImplementedByStore if status == NOT_IMPLEMENTED else StoreRefused
    return kind(f"The object store rejected a request for {location}: {said}")


def too_large_error(location: str, limit: int) -> ObjectTooLarge:
    return ObjectTooLarge(f"The file at {location} is larger than {limit} bytes")


def unavailable_error(why: str, location: str) -> StoreUnavailable:
    return StoreUnavailable(f"The object store did not respond for {location}: {why}")


def obstore_error(error: Exception, location: str) -> CatalogError:
    """Return the error for an exception of obstore, parsed from the debug description at the end of its text.

    The text before the description contains the name of the object, which a client chose. In the description, texts
    have no line breaks.
    """
    text = str(error)
    described = text.rpartition(_DEBUG)[2]
    status = _STATUS.search(described)
    if status is not None:
        code = _CODE.search(described, status.end())
        return store_error(int(status[1]), code and (code[1] or code[2]), location)
    if isinstance(error, ValueError):
        return InvalidLocation(f"Location {location!r} cannot be the name of an object")
    if isinstance(error, UnauthenticatedError):
        return StoreAccessDenied(f"There is no credential for {location}")
    no_response = _NO_RESPONSE.search(described)
    return unavailable_error(no_response[1].lower() if no_response else type(error).__name__, location)
