"""Names of users and roles, for lists of principals.

Names are no secret to callers who know the ids: every caller may read a user, and the metadata of a role.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tenancy.actor import Grantee
from tenancy.models import Role, User
from tenancy.models.role import OWN_PROVIDER


@dataclass(frozen=True, slots=True)
class PrincipalName:
    """A principal as lists show it. `name` is the id where there is no other; `note` is an email address, or the ident
    of a role of an identity provider.
    """

    kind: str
    name: str
    note: str = ""
    is_blocked: bool = False


def name_principals(grantees: Collection[Grantee]) -> dict[Grantee, PrincipalName]:
    """Return the name of each principal, also of those that do not exist. At most two statements."""
    user_ids = {each.user_id for each in grantees if each.user_id is not None}
    role_ids = {each.role_id for each in grantees if each.role_id is not None}
    users = {row.pk: row for row in User.objects.existing().filter(pk__in=user_ids)} if user_ids else {}
    roles = {row.pk: row for row in Role.objects.filter(pk__in=role_ids)} if role_ids else {}
    found = {}
    for each in grantees:
        if each.role_id is not None:
            role = roles.get(each.role_id)
            found[each] = name_role(role) if role is not None else PrincipalName("role", str(each.role_id))
        else:
            user = users.get(each.user_id or "")
            found[each] = name_user(user) if user is not None else PrincipalName("user", each.user_id or "")
    return found


def name_role(role: Role) -> PrincipalName:
    return PrincipalName("role", role.name, "" if role.provider_id == OWN_PROVIDER else role.ident)


def name_user(user: User) -> PrincipalName:
    kind = "service" if user.user_type == User.Type.APPLICATION else "user"
    return PrincipalName(kind, user.name or user.pk, user.email or "", is_blocked=not user.is_active)
