"""The actor of an operation, which every service takes as an argument."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from tenancy.identity import Identity


@dataclass(frozen=True, slots=True)
class Actor:
    """`user_id` is `<provider>~<subject>`, None for anonymous callers; `is_internal` marks the server's commands.

    With `assumed_role` (`x-assume-role`) only the rights of the role apply; operations on the user's own account, such
    as `whoami`, still refer to the user. `identity` contains the verified claims of the user's token.
    `is_check_subject` marks an actor whose permissions another caller checks; `is_blocked` marks a blocked user.

    `delegated_by` is the engine that reads a view owned by this user, without a token of the user. Then only grants to
    the user and to stored role memberships apply, not roles from a token.
    """

    user_id: str | None = None
    is_internal: bool = False
    assumed_role: UUID | None = None
    is_check_subject: bool = False
    is_blocked: bool = False
    identity: Identity | None = field(default=None, compare=False)
    delegated_by: Actor | None = None

    @property
    def name(self) -> str:
        if self.is_internal:
            return "internal"
        if self.assumed_role is not None:
            return f"role {self.assumed_role} assumed by {self.user_id}"
        if self.delegated_by is not None:
            return f"{self.user_id} (owner of a view that {self.delegated_by.name} reads)"
        return self.user_id or "anonymous"

    @property
    def is_anonymous(self) -> bool:
        return self.user_id is None and not self.is_internal


ANONYMOUS = Actor()
INTERNAL = Actor(is_internal=True)
