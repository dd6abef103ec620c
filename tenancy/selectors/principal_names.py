"""Names of users and roles, for lists of principals.

Names are no secret to callers who know the ids: every caller may read a user, and the metadata of a role.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from icekeeper.kernel.db.sql import as_uuid, fetch_all
from tenancy.actor import Grantee
from tenancy.models import Role, User
from tenancy.models.role import OWN_PROVIDER, ident_of


@dataclass(frozen=True, slots=True)
class PrincipalName:
    """A principal as lists show it. `name` is the id where there is no other; `note` is an email address, or the ident
    of a role of an identity provider. Without `exists` there is no such principal.
    """

    kind: str
    name: str
    note: str = ""
    is_blocked: bool = False
    exists: bool = True


_NAMES: Final = """
SELECT 'user', id, name, email, user_type, is_active FROM tenancy_user WHERE id = ANY(%s) AND deleted_at IS NULL
UNION ALL
SELECT 'role', CAST(id AS text), name, source_id, provider_id, TRUE FROM tenancy_role WHERE id = ANY(%s)
"""


def name_principals(grantees: Collection[Grantee]) -> dict[Grantee, PrincipalName]:
    """Return the name of each principal, also of those that do not exist. At most one statement."""
    user_ids = sorted({each.user_id for each in grantees if each.user_id is not None})
    role_ids = sorted({each.role_id for each in grantees if each.role_id is not None}, key=str)
    known: dict[Grantee, PrincipalName] = {}
    rows = fetch_all("default", _NAMES, [user_ids, role_ids]) if grantees else []
    for kind, own_id, name, note, source, is_active in rows:
        if kind == "user":
            known[Grantee(user_id=own_id)] = _user_name(own_id, name, note, source, is_active=bool(is_active))
        else:
            known[Grantee(role_id=as_uuid(own_id))] = _role_name(name, provider_id=source, source_id=note)
    for each in grantees:
        if each not in known:
            kind, own_id = ("user", each.user_id) if each.role_id is None else ("role", each.role_id)
            known[each] = PrincipalName(kind, str(own_id), exists=False)
    return known


def name_role(role: Role) -> PrincipalName:
    return _role_name(role.name, provider_id=role.provider_id, source_id=role.source_id)


def _role_name(name: str, *, provider_id: str, source_id: str) -> PrincipalName:
    return PrincipalName("role", name, "" if provider_id == OWN_PROVIDER else ident_of(provider_id, source_id))


def name_user(user: User) -> PrincipalName:
    return _user_name(user.pk, user.name, user.email, user.user_type, is_active=user.is_active)


def _user_name(user_id: str, name: str, email: str | None, user_type: str, *, is_active: bool) -> PrincipalName:
    kind = "service" if user_type == User.Type.APPLICATION else "user"
    return PrincipalName(kind, name or user_id, email or "", is_blocked=not is_active)
