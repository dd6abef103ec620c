"""What the audit trail tells of the grants and memberships that go with whoever has them."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from django.db.models import Q

from tenancy.authz.securables import securable_id
from tenancy.models import Grant, RoleMember, Securable

MOST_TOLD: Final = 100
"""Grants, and memberships, that are named; of more it is told how many there were."""


def rights_of_user(user_id: str) -> dict[str, Any]:
    """To be looked at before they are deleted: all that was granted to a user, and the roles that they were in."""
    return _told(Q(user_id=user_id), Q(user_id=user_id))


def rights_of_role(role_id: UUID) -> dict[str, Any]:
    """To be looked at before the role is deleted: what was granted to it and on it, its members, and what it was in."""
    on_it = Q(securable_id=securable_id(Securable.Type.ROLE, role_id))
    return _told(Q(role_id=role_id) | on_it, Q(role_id=role_id) | Q(member_role_id=role_id))


def _told(grants: Q, memberships: Q) -> dict[str, Any]:
    """How many there were, and the first of them, as `PRIVILEGE on OBJECT to WHOM` and `WHO in ROLE`."""
    granted = Grant.objects.filter(grants).order_by("securable_id", "privilege", "id")
    named = list(granted[: MOST_TOLD + 1])
    members = RoleMember.objects.filter(memberships).order_by("id")
    names = [
        f"{user_id or f'role:{member_role_id}'} in role:{role_id}"
        for role_id, user_id, member_role_id in members.values_list("role_id", "user_id", "member_role_id")[
            : MOST_TOLD + 1
        ]
    ]
    return {
        "grants": len(named) if len(named) <= MOST_TOLD else granted.count(),
        "granted": [
            f"{each.privilege} on {each.securable_id} to {each.user_id or f'role:{each.role_id}'}"
            for each in named[:MOST_TOLD]
        ],
        "memberships": len(names) if len(names) <= MOST_TOLD else members.count(),
        "members": names[:MOST_TOLD],
    }
