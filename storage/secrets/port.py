"""Where the credentials of warehouses are kept: apart from the warehouses, known by an id."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar
from uuid import UUID

from icekeeper.kernel.errors.types import CatalogError


class SecretStoreNotConfigured(CatalogError):
    """No secret store is configured. The message names the settings for one."""

    status: ClassVar = 412
    wire_type: ClassVar = "SecretStoreNotConfigured"


class SecretUnreadable(CatalogError):
    """What is stored cannot be read."""

    status: ClassVar = 500
    wire_type: ClassVar = "SecretUnreadable"


class SecretMissing(SecretUnreadable):
    """The secret does not exist, or was deleted."""


class SecretStore(ABC):
    """A secret is never changed: a new one gets a new id, and the old one is deleted.

    `shares_transactions` says whether what is put and deleted becomes true with the caller's transaction of the
    database. Else both happen at once and elsewhere, and no transaction may be open meanwhile:
    `storage.secrets.stores` sees to both.
    """

    shares_transactions: ClassVar[bool]

    @abstractmethod
    def require_ready(self) -> None:
        """To be called before a transaction in which something is put, as it may take its time.

        Raises `SecretStoreNotConfigured` (412).
        """

    @abstractmethod
    def require_readable(self) -> None:
        """Before a process begins: that the settings fit what is stored. Cheap, so a few secrets are tried at most.

        Raises `SecretStoreNotConfigured` or `SecretUnreadable` naming the setting and the cure. A store that cannot be
        asked now is no reason: it logs that.
        """

    @abstractmethod
    def put(self, secret_id: UUID, document: dict[str, Any]) -> None:
        """Keep a JSON document under an id that nothing else has. Raises as `require_ready`."""

    @abstractmethod
    def get(self, secret_id: UUID) -> dict[str, Any]:
        """The document. Raises `SecretMissing`, `SecretUnreadable`, and as `require_ready`."""

    @abstractmethod
    def delete(self, secret_id: UUID) -> None:
        """Delete it; no error if it does not exist."""

    @abstractmethod
    def ids(self) -> Iterator[UUID]:
        """Of all that it keeps, also those that no warehouse names."""
