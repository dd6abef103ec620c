"""TODO."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from tenancy.actor import Actor


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose rights count: those of a user with the roles that the token brings, or of the one role that is assumed."""

    user_id: str | None
    assumed_role: UUID | None
    provider_id: str
    token_roles: tuple[str, ...]

    @classmethod
    def of(cls, actor: Actor) -> Subject:
        if actor.assumed_role is not None:
            return cls(None, actor.assumed_role, "", ())
        identity = actor.identity
        if identity is None or not identity.roles:
            return cls(actor.user_id, None, "", ())
        return cls(actor.user_id, None, identity.provider_id, tuple(r for r in identity.roles if "\x00" not in r))


def lasting(at: datetime) -> Q:
    """What has not ended."""
    return Q(expires_at=None) | Q(expires_at__gt=at)


def is_holders(asker: Subject, roles: Iterable[UUID]) -> Q:
    """What is granted to an asker whose roles are known."""
    mine = Q(role_id__in=list(roles))
    return mine if asker.user_id is None else mine | Q(user_id=asker.user_id)
