"""What access reviews tell: who has which rights on an object, and from which grants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings

from tenancy.authz.actions import Can
from tenancy.authz.effective_rights import EVERYBODYS, Effective
from tenancy.authz.standing_rights import NOT_BY_OVERRIDE
from tenancy.authz.vocabulary import ACTIONS_ON
from tenancy.models import Securable


@dataclass(frozen=True, slots=True)
class Source:
    """A grant that gives somebody something: directly, or to the last of `through`, roles each of which is in the next.

    `expires_at` is when the grant or the first of the memberships before it ends.
    """

    privilege: str
    securable_id: str
    through: tuple[UUID, ...]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Rights:
    """`is_shown_from_below`: some of it only because something in the object can be seen."""

    effective: Effective
    sources: tuple[Source, ...]
    is_shown_from_below: bool


def instance_admins() -> tuple[str, ...]:
    """Who has rights that are no grants, in whatever object."""
    return tuple(sorted(settings.ICEKEEPER.instance_admins))


def standing_actions(securable_type: Securable.Type) -> tuple[Can, ...]:
    """What instance admins may do on objects of a type whatever is granted."""
    return tuple(
        each
        for each in ACTIONS_ON[securable_type]
        if each not in NOT_BY_OVERRIDE and (securable_type, each) not in EVERYBODYS
    )
