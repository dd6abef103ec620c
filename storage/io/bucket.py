"""Base class of the client of one bucket, with the credential of a warehouse; translates errors of stores.

Messages contain only the store's error code, such as `SlowDown`: its text may contain addresses with signatures.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal
from urllib.parse import urlsplit

from django.conf import settings
from obstore.exceptions import UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store
from requests.utils import get_environ_proxies, select_proxy

from icekeeper.kernel.errors.types import CatalogError, InvalidLocation
from storage.errors import StoreAccessDenied, StoreRefused, StoreUnavailable
from storage.io.port import ObjectExists, ObjectNotFound, ObjectTooLarge
from storage.network.store_http import RemainingTime, unlimited

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig  # not there at run time

PAGE: Final = 1000
"""Maximum of names in one page of a list."""
MAX_SIZE_DIGITS: Final = 18
NO_RETRIES: Final[RetryConfig] = {"max_retries": 0}
"""obstore does not retry: `retry_store_call` knows the deadline, and which writes have an unknown result."""

UNRESOLVABLE_PROXY: Final = "http://redirected.invalid"
"""A proxy whose name never resolves (https://www.rfc-editor.org/rfc/rfc6761#section-6.4), see `client_options`."""


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page of objects: their sizes in bytes by name.

    `folders` are directories, which some stores have; without a trailing slash.
    """

    objects: Mapping[str, int]
    folders: Sequence[str] = ()

    @property
    def names(self) -> list[str]:
        return list(self.objects)


class Bucket(ABC):
    """The operations that differ between stores.

    `objects`, of obstore, writes single objects. It rejects names with empty, `.` or `..` segments or control
    characters and strips trailing slashes. Other writers may have created such objects, so `list_names` and
    `delete_names` do not use it and accept every name.
    """

    kind: ClassVar[Literal["s3", "azure", "gcs"]]
    objects: S3Store | AzureStore | GCSStore
    delete_batch_size: ClassVar[int] = 1
    """Maximum of names in one call of `delete_names`; more than one in stores that delete several with one request."""
    max_parallel_deletes: ClassVar[int]
    """Maximum of calls of `delete_names` at the same time."""

    @abstractmethod
    def prepare(self) -> None:
        """Get valid keys or a token. Raises `CredentialNotIssued`, `StoreUnavailable`."""

    @abstractmethod
    def read(self, name: str, location: str, limit: int) -> bytes:
        """Return the object. Raises `ObjectNotFound`, `ObjectTooLarge`, and as `list_names`."""

    @abstractmethod
    def require(self, name: str, location: str) -> None:
        """Raises `ObjectNotFound`, and as `list_names`."""

    @abstractmethod
    def list_names(
        self, prefix: str, *, page: int = PAGE, remaining: RemainingTime = unlimited
    ) -> Iterator[ListedPage]:
        """List the objects whose names begin with `prefix`, in pages of at most `page`, one request each.

        A page may be empty even if others follow. `remaining` is as in `retry_store_call`. Raises what it raises,
        `StoreUnavailable`, `StoreRefused`.
        """

    @abstractmethod
    def delete_name(self, name: str, *, remaining: RemainingTime = unlimited) -> None:
        """Delete one object, if it exists. Raises as `list_names`."""

    def delete_names(self, names: Sequence[str], *, remaining: RemainingTime = unlimited) -> dict[str, CatalogError]:
        """Delete objects, if they exist. An error does not stop the others.

        Returns the errors by name, those of `list_names`. The deletion of all other objects is confirmed.
        """
        (name,) = names
        try:
            self.delete_name(name, remaining=remaining)
        except CatalogError as error:
            return {name: error}
        return {}

    def is_folder(self, name: str) -> bool:
        """Return whether a directory with this name exists, in stores that have directories."""
        return False

    def remove_folders(self, folders: Sequence[str]) -> int:
        """Remove those of these directories that are empty, in this order; return how many no longer exist."""
        return 0


def listed_size(text: object) -> int:
    """Return the size of an object in a list, which stores write as a decimal number; 0 for anything else."""
    if isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= MAX_SIZE_DIGITS:
        return int(text)
    return 0


def client_options(endpoint: str) -> ClientConfig:
    """Return obstore's connection options for `endpoint`. Reads the CA bundle.

    obstore always follows redirects. To prevent that, requests to all other hosts use a proxy that does not exist,
    unless the environment of this server has a proxy for the endpoint.
    """
    limits = settings.ICEKEEPER.storage
    options: ClientConfig = {
        "connect_timeout": f"{int(1000 * limits.connect_timeout)}ms",
        "timeout": f"{int(1000 * limits.request_timeout)}ms",
        "allow_http": endpoint.startswith("http://"),
    }
    if limits.ca_bundle is not None:
        options["root_certificate"] = limits.ca_bundle.read_bytes()
    if select_proxy(endpoint, get_environ_proxies(endpoint)) is None:
        options |= {"proxy_url": UNRESOLVABLE_PROXY, "proxy_excludes": urlsplit(endpoint).hostname or ""}
    return options


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
