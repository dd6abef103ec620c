"""One bucket, container or file system of an object store, asked as the warehouse's credential."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal
from urllib.parse import urlsplit

from django.conf import settings
from obstore.store import AzureStore, GCSStore, S3Store
from requests.utils import get_environ_proxies, select_proxy

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig  # not there at run time

PAGE: Final = 1000
"""Names that a store lists at once, at most."""
NO_RETRIES: Final[RetryConfig] = {"max_retries": 0}
"""Of obstore's own: `attempts` knows what is left of the request's time, and which puts are in doubt."""

UNRESOLVABLE_PROXY: Final = "http://redirected.invalid"
"""A proxy whose name cannot be resolved: https://www.rfc-editor.org/rfc/rfc6761#section-6.4."""


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page of names; those of `folders`, which some stores keep beside objects, end without a slash."""

    names: Sequence[str]
    folders: Sequence[str] = ()


class Bucket(ABC):
    """What each kind of store does in a way of its own.

    `objects` writes single objects. It takes no names with empty, `.` or `..` parts or control characters, and
    drops slashes at their ends; the catalog creates none of these, but others may have. So lists and deletions of what
    lies below a folder, by any writer, do not go through it: `list_names` and `delete_names` take every name.
    """

    kind: ClassVar[Literal["s3", "azure", "gcs"]]
    objects: S3Store | AzureStore | GCSStore
    delete_batch_size: ClassVar[int]
    """Names that `delete_names` takes in one call."""
    max_parallel_deletes: ClassVar[int]
    """Calls of `delete_names` that may run side by side."""

    @abstractmethod
    def prepare(self) -> None:
        """See that there are keys to ask with. Raises `CredentialNotIssued`, `StoreUnavailable`."""

    @abstractmethod
    def read(self, name: str, location: str, limit: int) -> bytes:
        """The whole object. Raises `ObjectNotFound`, `ObjectTooLarge`, and as `list_names`."""

    @abstractmethod
    def require(self, name: str, location: str) -> None:
        """Raises `ObjectNotFound`, and as `list_names`."""

    @abstractmethod
    def list_names(self, prefix: str, *, page: int = PAGE) -> Iterator[ListedPage]:
        """What begins with `prefix`, in pages of at most `page`, each when it is asked for.

        A page may be empty, also one that others follow: so the caller can check the time before the next one.
        Raises `StoreUnavailable`, `StoreRefused`.
        """

    @abstractmethod
    def delete_names(self, names: Sequence[str]) -> None:
        """Delete these objects; those that are not there are fine.

        When some cannot be deleted, the others are all the same, and then it raises as `list_names`.
        """

    def delete_name(self, name: str) -> None:
        """Delete one object; if it is not there, that is fine. Raises as `list_names`."""
        self.delete_names([name])

    def is_folder(self, name: str) -> bool:
        """Whether the store keeps a folder under this name."""
        return False

    def remove_folders(self, folders: Sequence[str]) -> int:
        """Remove those of these folders that are empty, in this order; how many are gone."""
        return 0


def client_options(endpoint: str) -> ClientConfig:
    """Return how obstore connects to `endpoint`, by the settings. Reads the file of the authorities.

    It follows redirects, and cannot be configured otherwise. So all other hosts get a proxy that does not exist, unless
    this server's environment names one that the endpoint itself is behind.
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
