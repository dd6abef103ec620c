"""What tells that somebody staged a table somewhere, so that requests to its files are signed before it exists.

That its place is held (`catalog.services.staged_places`) does not tell in which namespace the table will be, whose
rights are asked: the client carries the proof of that in the address of the signer.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self
from uuid import UUID

from django.core import signing

from catalog.identifiers import Levels, path_key
from icekeeper.kernel.errors.types import BadRequest
from tenancy.actor import Actor

GOOD_FOR: Final = timedelta(days=1)
"""The longest that a query may write to a table before it commits."""

_SALT: Final = "icekeeper.staged-table"


class InvalidStagingTicket(BadRequest):
    """It ended, or was never handed out by this server."""

    wire_type = "InvalidStagingTicket"


@dataclass(frozen=True, slots=True)
class StagingTicket:
    """`location` is as the client was told it, without a slash at its end."""

    actor_name: str
    warehouse_id: UUID
    namespace_key: str
    location: str

    @classmethod
    def of(cls, *, actor: Actor, warehouse_id: UUID, levels: Levels, location: str) -> Self:
        return cls(actor.name, warehouse_id, path_key(levels), location)

    @classmethod
    def read(cls, text: str) -> Self:
        """Raises `InvalidStagingTicket`."""
        try:
            name, warehouse, namespace, location = signing.loads(text, salt=_SALT, max_age=GOOD_FOR)
        except signing.BadSignature:
            raise InvalidStagingTicket("This address is no longer good for a table that was staged") from None
        return cls(name, UUID(warehouse), namespace, location)

    def written(self) -> str:
        """Letters, digits, `-`, `_` and `:`."""
        members = [self.actor_name, str(self.warehouse_id), self.namespace_key, self.location]
        return signing.dumps(members, salt=_SALT)

    def is_for(self, actor: Actor, warehouse_id: UUID) -> bool:
        return (self.actor_name, self.warehouse_id) == (actor.name, warehouse_id)
