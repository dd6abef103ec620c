"""The identity that a verified token proves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Identity:
    """The verified claims of a token.

    `user_id` is `<provider id>~<subject>`. `name` and `email` are None where the token has none. `roles` are the
    names that the provider gives the user, each the `source-id` of a role with the provider's id. `scopes` bound what
    may be done with the token, None when nothing does; `access_token_id` is set for a token that this server issued:
    for a session token (`is_short_lived`) it is the id of its parent. `audiences` are those of a
    provider's token; tokens of this server have none.
    """

    user_id: str
    provider_id: str
    user_type: Literal["human", "application"]
    name: str | None = None
    email: str | None = None
    roles: tuple[str, ...] = ()
    scopes: frozenset[str] | None = None
    access_token_id: UUID | None = None
    is_short_lived: bool = False
    audiences: tuple[str, ...] = ()
