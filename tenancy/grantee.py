"""The user or role that a privilege is granted to."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from tenancy.actor import Actor


@dataclass(frozen=True, slots=True)
class Grantee:
    """A user or a role with all its members: exactly one of the two is set."""

    user_id: str | None = None
    role_id: UUID | None = None

    def __str__(self) -> str:
        return self.user_id if self.user_id is not None else f"role {self.role_id}"


def acting_as(actor: Actor) -> Grantee | None:
    """Return the grantee whose rights `actor` has: the assumed role, else the user; None for anonymous callers."""
    if actor.assumed_role is not None:
        return Grantee(role_id=actor.assumed_role)
    return None if actor.user_id is None else Grantee(user_id=actor.user_id)
