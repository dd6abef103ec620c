"""Who acts: handed to every service as its first argument."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Actor:
    """`user_id` is `<provider>~<subject>`, None for anonymous callers; `is_internal` marks the server's commands."""

    user_id: str | None = None
    is_internal: bool = False

    @property
    def name(self) -> str:
        if self.is_internal:
            return "internal"
        return self.user_id or "anonymous"


ANONYMOUS = Actor()
INTERNAL = Actor(is_internal=True)
