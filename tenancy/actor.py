"""Who acts: handed to every service as its first argument."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from tenancy.identity import Identity


@dataclass(frozen=True, slots=True)
class Actor:
    """`user_id` is `<provider>~<subject>`, None for anonymous callers; `is_internal` marks the server's commands.

    With `assumed_role` (`x-assume-role`) rights are those of the role alone, while what concerns the person, such as
    `whoami`, is still about the user. `identity` is what the verified token says of the user. `is_asked_about` marks
    somebody who does not act: others ask what they may do; `is_blocked`, that they are locked out.

    With `delegated_by`, an engine that was called, nobody showed a token of this user: the engine reads a view that the
    user owns. Then rights are what was granted to the user and to roles that we keep, nothing else.
    """

    user_id: str | None = None
    is_internal: bool = False
    assumed_role: UUID | None = None
    is_asked_about: bool = False
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
