"""Interface of secret stores, which keep the credentials of warehouses by an id."""

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


class SecretStoreUnavailable(CatalogError):
    """The secret store cannot be reached, is sealed or fails; the caller may retry."""

    status: ClassVar = 503
    wire_type: ClassVar = "SecretStoreUnavailable"
    retry_after: ClassVar = 5


class SecretUnreadable(CatalogError):
    """A stored secret cannot be read."""

    status: ClassVar = 500
    wire_type: ClassVar = "SecretUnreadable"


class SecretMissing(SecretUnreadable):
    """The secret does not exist."""


class SecretStore(ABC):
    """Stores secrets, which are never updated: a new secret has a new id, and the old one is deleted.

    `shares_transactions`: writes are part of the caller's database transaction. Otherwise they take effect at once, and
    no transaction may be open meanwhile. `storage.secrets.stores` handles both cases.
    """

    shares_transactions: ClassVar[bool]

    @abstractmethod
    def require_ready(self) -> None:
        """Check the configuration before a transaction that stores a secret; may be slow.

        Raises `SecretStoreNotConfigured` (412).
        """

    @abstractmethod
    def require_readable(self) -> None:
        """Check at startup that the settings fit the stored secrets, with a small sample of them.

        Raises `SecretStoreNotConfigured` or `SecretUnreadable` with the setting and how to fix it. A store that is
        unavailable only logs a warning.
        """

    @abstractmethod
    def put(self, secret_id: UUID, document: dict[str, Any]) -> None:
        """Store a JSON document with a new id. Raises as `require_ready`."""

    @abstractmethod
    def get(self, secret_id: UUID) -> dict[str, Any]:
        """Return the document. Raises `SecretMissing`, `SecretUnreadable`, and as `require_ready`."""

    @abstractmethod
    def delete(self, secret_id: UUID) -> None:
        """Delete a secret, if it exists."""

    @abstractmethod
    def ids(self) -> Iterator[UUID]:
        """Return the ids of all secrets, including orphaned ones."""
