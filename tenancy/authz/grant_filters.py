"""Which grants and memberships count: what lasts, and what is granted to whom."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from tenancy.authz.builtin.records import Asker


def lasting(at: datetime) -> Q:
    """What has not ended."""
    return Q(expires_at=None) | Q(expires_at__gt=at)


def is_holders(asker: Asker, roles: Iterable[UUID]) -> Q:
    """What is granted to an asker whose roles are known."""
    mine = Q(role_id__in=list(roles))
    return mine if asker.user_id is None else mine | Q(user_id=asker.user_id)
