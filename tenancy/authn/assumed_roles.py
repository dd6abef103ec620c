"""Assumed roles (`x-assume-role`): the caller acts with the rights of one role instead of their own."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock
from typing import Final
from uuid import UUID

from cachetools import TTLCache
from django.conf import settings

from icekeeper.kernel.db.sql import fetch_one
from icekeeper.kernel.errors.types import BadRequest, Forbidden
from icekeeper.kernel.ids import parse_id
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import require_permission
from tenancy.models import Securable

CACHE_SECONDS: Final = 5.0
MAX_CACHED: Final = 10_000

_ROLE_EXISTS: Final = "SELECT 1 FROM tenancy_role WHERE id = %s"


class InvalidRoleId(BadRequest):
    wire_type = "InvalidRoleIdError"


class UnknownAssumedRole(BadRequest):
    wire_type, is_final = "InvalidAssumeRoleId", False


class AssumeRoleForbidden(Forbidden):
    wire_type = "AssumeRoleForbidden"


class KnownRoles:
    """Cache of existing role ids. A role that was deleted meanwhile has no rights left to use."""

    def __init__(self) -> None:
        self._ids: TTLCache[UUID, None] = TTLCache(MAX_CACHED, CACHE_SECONDS)
        self._lock = Lock()

    def has(self, role_id: UUID) -> bool:
        with self._lock:
            if role_id in self._ids:
                return True
        if fetch_one(settings.READ_DATABASE, _ROLE_EXISTS, [role_id]) is None:
            return False
        with self._lock:
            self._ids[role_id] = None
        return True

    def invalidate(self, *role_ids: UUID) -> None:
        with self._lock:
            for role_id in role_ids:
                self._ids.pop(role_id, None)

    def clear(self) -> None:
        with self._lock:
            self._ids.clear()


known_roles: Final = KnownRoles()


def unknown_assumed_role(role_id: UUID) -> UnknownAssumedRole:
    return UnknownAssumedRole(f"Role {role_id} of x-assume-role does not exist")


def assume_role(actor: Actor, wanted: str) -> Actor:
    """Return `actor` with the role `wanted`, of any project, assumed.

    Raises `InvalidRoleId` or `UnknownAssumedRole` (400), or `AssumeRoleForbidden` (403).
    """
    role_id = parse_id(wanted.strip())
    if role_id is None:
        raise InvalidRoleId("x-assume-role must be the UUID of one role")
    if not known_roles.has(role_id):
        raise unknown_assumed_role(role_id)
    try:
        require_permission(actor, Can.ASSUME, Securable.Type.ROLE, role_id)
    except Forbidden as error:
        raise AssumeRoleForbidden(f"{actor.name} may not assume the role {role_id}") from error
    return replace(actor, assumed_role=role_id)
