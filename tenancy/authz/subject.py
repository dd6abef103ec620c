"""`Subject`: the user or role whose grants decide a permission check, and filters for grants that count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from tenancy.actor import Actor


@dataclass(frozen=True, slots=True)
class Subject:
    """A user with the roles of the token, or one assumed role."""

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


def is_unexpired(at: datetime) -> Q:
    """Filter grants and memberships that have not expired at `at`."""
    return Q(expires_at=None) | Q(expires_at__gt=at)


def is_granted_to(subject: Subject, roles: Iterable[UUID]) -> Q:
    """Filter grants to the subject or to one of its roles."""
    to_roles = Q(role_id__in=list(roles))
    return to_roles if subject.user_id is None else to_roles | Q(user_id=subject.user_id)
