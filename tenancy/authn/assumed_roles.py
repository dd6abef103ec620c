"""`x-assume-role`: a caller who acts with the rights of one role instead of all of their own."""

from __future__ import annotations

from dataclasses import replace

from icekeeper.kernel.errors import BadRequest, Forbidden
from icekeeper.kernel.ids import parse_id
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.port import require
from tenancy.models import Role, Securable


class InvalidRoleId(BadRequest):
    wire_type = "InvalidRoleIdError"


class UnknownAssumedRole(BadRequest):
    wire_type, is_final = "InvalidAssumeRoleId", False


class AssumeRoleForbidden(Forbidden):
    wire_type = "AssumeRoleForbidden"


def assume_role(actor: Actor, wanted: str) -> Actor:
    """`actor` in the role whose id is `wanted`, of any project.

    Raises `InvalidRoleId` or `UnknownAssumedRole` (400), or `AssumeRoleForbidden` (403).
    """
    role_id = parse_id(wanted.strip())
    if role_id is None:
        raise InvalidRoleId("x-assume-role must be the UUID of one role")
    if not Role.objects.filter(pk=role_id).exists():
        raise UnknownAssumedRole(f"There is no role {role_id} to assume (x-assume-role)")
    try:
        require(actor, Can.ASSUME, Securable.Type.ROLE, role_id)
    except Forbidden as refusal:
        raise AssumeRoleForbidden(f"{actor.name} may not assume the role {role_id}") from refusal
    return replace(actor, assumed_role=role_id)
