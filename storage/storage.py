"""The storage of a warehouse, as the row of the warehouse has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True)
class WarehouseStorage:
    """Where the files of a warehouse are (`profile`, as stored) and where the secret store has the credential for it.

    `version` counts the changes of the warehouse: two with equal `key` are the same, which caches go by.
    """

    warehouse_id: UUID
    version: int
    profile: dict[str, Any]
    secret_id: UUID | None
    enforced_signatures: str | None = None
    """See `storage.signing.enforcement`; None: the store was not probed."""

    @property
    def key(self) -> tuple[UUID, int]:
        return self.warehouse_id, self.version
