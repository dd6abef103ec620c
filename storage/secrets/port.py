"""Where the credentials of warehouses are kept: apart from the warehouses, known by an id."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar
from uuid import UUID

from icekeeper.kernel.errors import CatalogError


class SecretStoreNotConfigured(CatalogError):
    """This server has no place where a secret would be safe. The message says which setting makes one."""

    status: ClassVar = 412
    wire_type: ClassVar = "SecretStoreNotConfigured"


class SecretUnreadable(CatalogError):
    """What is stored cannot be read, or is not there any more."""

    status: ClassVar = 500
    wire_type: ClassVar = "SecretUnreadable"


class SecretStore(ABC):
    """A secret is never changed: a new one gets a new id, and the old one is deleted."""

    @abstractmethod
    def require_ready(self) -> None:
        """To be called before the transaction of a `put`, as it may take its time.

        Raises `SecretStoreNotConfigured` (412).
        """

    @abstractmethod
    def put(self, document: dict[str, Any]) -> UUID:
        """Keep a JSON document; its id. Raises as `require_ready`."""

    @abstractmethod
    def get(self, secret_id: UUID) -> dict[str, Any]:
        """The document. Raises `SecretUnreadable`, and as `require_ready`."""

    @abstractmethod
    def delete(self, secret_id: UUID) -> None:
        """Forget it; one that is not there is fine."""
