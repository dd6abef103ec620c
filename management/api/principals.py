"""Users and roles as the APIs of rights name them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.http import QueryDict
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.serializers import Text
from icekeeper.kernel.ids import parse_id
from management.api.serializers import IdText
from tenancy.grantee import Grantee
from tenancy.selectors.users import unseen_among
from tenancy.user_ids import require_user_id

PRINCIPAL = [
    OpenApiParameter("principalUser", OpenApiTypes.STR, description="The user that is meant; default: who asks"),
    OpenApiParameter("principalRole", OpenApiTypes.UUID, description="The role that is meant; not with a user"),
]


class InvalidGetAccessQuery(BadRequest):
    wire_type = "InvalidGetAccessQuery"


class UserOrRole(serializers.Serializer[Any]):
    """Exactly one of the two."""

    user = Text(required=False, help_text="`<provider>~<subject>`")
    role = IdText(required=False, help_text="Its id: the role with all its members")


def seen_json(grantees: Collection[Grantee], *, wants_extensions: bool) -> list[dict[str, bool]]:
    """For each of those whom something is granted to, in their order, whether they have called; nothing for roles."""
    if not wants_extensions:
        return [{}] * len(grantees)
    unseen = unseen_among({each.user_id for each in grantees if each.user_id is not None})
    return [{} if each.user_id is None else {"seen": each.user_id not in unseen} for each in grantees]


def read_grantee(given: dict[str, Any], where: str) -> Grantee:
    """Whom the checked members `user` and `role` mean. Raises `BadRequest` or what `require_user_id` raises."""
    user, role = given.get("user"), given.get("role")
    if (user is None) == (role is None):
        raise BadRequest(f"{where}: there must be either user or role")
    return Grantee(user_id=require_user_id(user)) if user is not None else _role(str(role), f"{where}.role")


def asked_principal(query: QueryDict) -> Grantee | None:
    """Whom `principalUser` or `principalRole` means; None: nobody but who asks.

    Raises `InvalidGetAccessQuery` (400) for both, else as `read_grantee`.
    """
    users, roles = query.getlist("principalUser"), query.getlist("principalRole")
    if len(users) + len(roles) > 1:
        raise InvalidGetAccessQuery("There may be one of principalUser and principalRole, once")
    if users:
        return Grantee(user_id=require_user_id(users[0]))
    return _role(roles[0], "principalRole") if roles else None


def _role(text: str, where: str) -> Grantee:
    role_id = parse_id(text)
    if role_id is None:
        raise BadRequest(f"{where}: {text[:100]!r} is not a UUID")
    return Grantee(role_id=role_id)
