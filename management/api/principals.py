"""Users and roles in requests about grants and permissions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.http import QueryDict
from rest_framework import serializers

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.serializers import Text
from management.api.serializers import IdText, StrictSerializer, read_uuid
from tenancy.actor import Grantee
from tenancy.selectors.users import find_unregistered_users
from tenancy.user_ids import require_user_id


class InvalidGetAccessQuery(BadRequest):
    wire_type = "InvalidGetAccessQuery"


class MissingGrantPrincipal(BadRequest):
    wire_type = "MissingGrantPrincipal"


class AmbiguousGrantPrincipal(BadRequest):
    wire_type = "AmbiguousGrantPrincipal"


class UserOrRole(serializers.Serializer[Any]):
    """Exactly one of the two."""

    user = Text(required=False, help_text="`<provider>~<subject>`")
    role = IdText(required=False, help_text="The role's id: the role with all its members")


class GrantPrincipal(UserOrRole, StrictSerializer):
    """Exactly one of the two."""


def render_grantee(grantee: Grantee) -> dict[str, str]:
    return {"user": grantee.user_id} if grantee.user_id is not None else {"role": str(grantee.role_id)}


def unseen_users(grantees: Iterable[Grantee], *, with_extensions: bool) -> dict[str, Any]:
    """Return the context of responses with the member `seen`: the users who have never called, None to omit it."""
    users = {each.user_id for each in grantees if each.user_id is not None}
    return {"unseen": find_unregistered_users(users) if with_extensions else None}


def is_seen(grantee: Grantee, context: Mapping[str, Any]) -> bool | None:
    """Return the member `seen`: whether a user has ever called, None to omit it."""
    unseen = context["unseen"]
    return None if unseen is None or grantee.user_id is None else grantee.user_id not in unseen


def read_grantee(given: dict[str, Any], where: str) -> Grantee:
    """Read the checked members `user` and `role`. Raises `BadRequest`, or what `require_user_id` raises."""
    user, role = given.get("user"), given.get("role")
    if (user is None) == (role is None):
        raise BadRequest(f"{where}: exactly one of user and role is required")
    return (
        Grantee(user_id=require_user_id(user))
        if user is not None
        else Grantee(role_id=read_uuid(role, f"{where}.role"))
    )


def principal_of_query(query: QueryDict) -> Grantee | None:
    """Read `principalUser` or `principalRole`, None without either.

    Raises `InvalidGetAccessQuery` (400) for more than one, else as `read_grantee`.
    """
    users, roles = query.getlist("principalUser"), query.getlist("principalRole")
    if len(users) + len(roles) > 1:
        raise InvalidGetAccessQuery("Only one of principalUser and principalRole is allowed, once")
    if users:
        return Grantee(user_id=require_user_id(users[0]))
    return Grantee(role_id=read_uuid(roles[0], "principalRole")) if roles else None


def grant_principal(query: QueryDict) -> Grantee | None:
    """Like `principal_of_query`, but raises `AmbiguousGrantPrincipal` (400) for more than one."""
    try:
        return principal_of_query(query)
    except InvalidGetAccessQuery as error:
        raise AmbiguousGrantPrincipal(error.message) from error


def required_grant_principal(query: QueryDict) -> Grantee:
    """Like `grant_principal`, but raises `MissingGrantPrincipal` (400) without one."""
    grantee = grant_principal(query)
    if grantee is None:
        raise MissingGrantPrincipal("One of principalUser and principalRole is required")
    return grantee
