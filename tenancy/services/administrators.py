"""Administrators of projects and of the server: protection of the last one, and permission to appoint them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from django.conf import settings

from icekeeper.kernel.db.sql import as_uuid, fetch_all
from icekeeper.kernel.errors.types import Conflict
from tenancy.actor import Actor, is_instance_admin, require_instance_admin
from tenancy.audit.occurrences import record_denial
from tenancy.authz.actions import ADMINISTRATORS, Can, grant_action
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.permissions import (
    GrantActionForbidden,
    ProjectActionForbidden,
    check_permissions,
    recheck_before_write,
    record_overrides,
)
from tenancy.models import Securable
from tenancy.models.securable import ObjectRef, parse_securable_id

_PRIVILEGES: Final = sorted({each for names in ADMINISTRATORS.values() for each in names})

# Owners of a role are members. Grants with an expiry and roles without members do not count.
_ADMINISTRATED: Final = """
WITH RECURSIVE holder(securable_id, role_id) AS (
    SELECT securable_id, role_id FROM tenancy_grant
     WHERE securable_id = ANY(%s) AND privilege = ANY(%s) AND role_id IS NOT NULL AND expires_at IS NULL
    UNION
    SELECT holder.securable_id, inside.inner_id
      FROM holder JOIN (
        SELECT role_id AS outer_id, member_role_id AS inner_id FROM tenancy_rolemember
         WHERE member_role_id IS NOT NULL AND expires_at IS NULL
        UNION ALL
        SELECT owned_role_id, role_id FROM tenancy_grant
         WHERE owned_role_id IS NOT NULL AND role_id IS NOT NULL AND expires_at IS NULL
      ) AS inside ON inside.outer_id = holder.role_id
)
SELECT g.securable_id FROM tenancy_grant AS g JOIN tenancy_user AS u ON u.id = g.user_id
 WHERE g.securable_id = ANY(%s) AND g.privilege = ANY(%s) AND g.expires_at IS NULL
   AND u.deleted_at IS NULL AND u.is_active
UNION
SELECT holder.securable_id
  FROM holder JOIN tenancy_rolemember AS m ON m.role_id = holder.role_id JOIN tenancy_user AS u ON u.id = m.user_id
 WHERE m.expires_at IS NULL AND u.deleted_at IS NULL AND u.is_active
UNION
SELECT holder.securable_id
  FROM holder JOIN tenancy_grant AS o ON o.owned_role_id = holder.role_id JOIN tenancy_user AS u ON u.id = o.user_id
 WHERE o.expires_at IS NULL AND u.deleted_at IS NULL AND u.is_active
"""

# The roles of a user, and the roles that these are members or owners of.
_MEMBER_OF: Final = """
WITH RECURSIVE member_of(role_id) AS (
    SELECT id FROM tenancy_role WHERE id = ANY(%s)
    UNION
    SELECT role_id FROM tenancy_rolemember WHERE user_id = %s
    UNION
    SELECT owned_role_id FROM tenancy_grant WHERE user_id = %s AND owned_role_id IS NOT NULL
    UNION
    SELECT around.outer_id
      FROM member_of JOIN (
        SELECT member_role_id AS inner_id, role_id AS outer_id FROM tenancy_rolemember WHERE member_role_id IS NOT NULL
        UNION ALL
        SELECT role_id, owned_role_id FROM tenancy_grant WHERE role_id IS NOT NULL AND owned_role_id IS NOT NULL
      ) AS around ON around.inner_id = member_of.role_id
)
"""
_ADMINISTERING: Final = f"""{_MEMBER_OF}
SELECT DISTINCT securable_id, privilege FROM tenancy_grant
 WHERE privilege = ANY(%s) AND (user_id = %s OR role_id IN (SELECT role_id FROM member_of))
 ORDER BY securable_id, privilege
"""  # noqa: S608 - constant texts
_LOCK_ROLES: Final = f"""{_MEMBER_OF}
SELECT id, project_id FROM tenancy_role
 WHERE id = ANY(%s) OR id IN (SELECT role_id FROM member_of)
 ORDER BY id FOR NO KEY UPDATE
"""  # noqa: S608 - constant texts


class LastAdministrator(Conflict):
    """The change would remove the last administrator."""

    wire_type = "LastAdministrator"


@contextmanager
def keeping_administrators(securable_ids: Sequence[str], *, deleted: str | None = None) -> Iterator[None]:
    """Guard a change of administrators of these projects or the server, in the caller's transaction.

    Locks their securables. Raises `LastAdministrator` (409) if the change removes the last administrator of one of
    them, except of `deleted`, which is itself deleted.
    """
    administrated = [each for each in securable_ids if each.partition(":")[0] in ADMINISTRATORS]
    if not administrated:
        yield
        return
    rows = Securable.objects.filter(pk__in=administrated).order_by("pk").select_for_update(no_key=True)
    ids = list(rows.values_list("pk", flat=True))
    before = administrated_among(ids)
    yield
    orphaned = sorted(before - administrated_among(ids) - {deleted})
    if orphaned:
        raise LastAdministrator(f"{orphaned[0]} would lose its last administrator: appoint another one first")


def administrated_by(*, user_id: str | None = None, role_ids: Sequence[UUID] = ()) -> list[str]:
    """Return the securable ids of the projects and server that a user or roles administrate, also through roles."""
    return list(dict.fromkeys(own_id for own_id, _ in _administering(user_id, role_ids)))


def administering_privileges(
    *, user_id: str | None = None, role_ids: Sequence[UUID] = ()
) -> list[tuple[str, ObjectRef]]:
    """Return the privileges, with their objects, with which a user or the members of roles are administrators; also
    those through other roles."""
    return [(privilege, parse_securable_id(own_id)) for own_id, privilege in _administering(user_id, role_ids)]


def lock_roles(
    *, role_ids: Sequence[UUID] = (), within: Sequence[UUID] = (), user_id: str | None = None
) -> dict[UUID, str]:
    """Lock roles in the order of ids, for `within` and `user_id` with all roles that they are members of.

    Returns the project of each existing role. The lock excludes grants to these roles until the end of the caller's
    transaction, which must have locked the project's row for `within`, the user's row for `user_id`, and no securable.
    """
    rows = fetch_all("default", _LOCK_ROLES, [list(within), user_id, user_id, list(role_ids)])
    return {as_uuid(own_id): project_id for own_id, project_id in rows}


def _administering(user_id: str | None, role_ids: Sequence[UUID]) -> list[tuple[str, str]]:
    params = [list(role_ids), user_id, user_id, _PRIVILEGES, user_id]
    return [(row[0], row[1]) for row in fetch_all("default", _ADMINISTERING, params)]


def administrated_among(ids: Sequence[str]) -> set[str]:
    """Return the securable ids of these projects and server that have an administrator."""
    params: list[Any] = [list(ids), _PRIVILEGES]
    return {row[0] for row in fetch_all("default", _ADMINISTRATED, [*params, *params])}


def require_permission_to_appoint(actor: Actor, role_id: UUID) -> None:
    """Require that `actor` may grant each privilege with which the role, or one that it is in, administrates something.

    Call it under the lock of the project's memberships, before members change and before the role is deleted.
    Instance admins need no grants, so that they can restore access. Raises `GrantActionForbidden` (403).
    """
    _require_permission_to_grant(actor, administering_privileges(role_ids=[role_id]), f"which role {role_id} brings")


def require_permission_to_delete_roles(actor: Actor, role_ids: Sequence[UUID], *, project_id: str) -> None:
    """Require as `require_permission_to_appoint` for all roles of a deleted project.

    Privileges on the project itself, which is deleted too, do not count.
    """
    privileges = administering_privileges(role_ids=role_ids)
    elsewhere = [
        (privilege, ref) for privilege, ref in privileges if ref != ObjectRef(Securable.Type.PROJECT, project_id)
    ]
    _require_permission_to_grant(actor, elsewhere, f"which a role of project {project_id} brings")


def require_permission_to_bind_roles(actor: Actor, project_id: str) -> None:
    """Require that `actor` may bind roles of the project to groups of an identity provider.

    Owners of a role are members, so a caller who may only create roles could join what others take for a group. It
    needs the permission to grant `role_creator`; instance admins need no grants. Raises `ProjectActionForbidden` (403).
    """
    epoch, check = (
        permission_epoch.current(),
        (Can.GRANT_ROLE_CREATOR, ObjectRef(Securable.Type.PROJECT, project_id)),
    )
    if is_instance_admin(actor):
        record_overrides(actor, [check])
        return
    if not check_permissions(actor, [check])[0]:
        action = Can.UPDATE_SOURCE_SYSTEM
        record_denial(actor=actor, action=action, object_type=Securable.Type.PROJECT.value, object_id=project_id)
        raise ProjectActionForbidden(
            f"{actor.name} may not bind roles of project {project_id} to an identity provider; security_admin may"
        )
    recheck_before_write(actor, [check], epoch)


def require_permission_to_act_as(actor: Actor, user_id: str) -> None:
    """Require that `actor` may grant each privilege with which a service account or one of its roles administrates an
    object: a token of the account has these privileges.

    Call it under the locks of the account and of its roles, against concurrent grants. Instance admins are always
    allowed, and only they for an account that is an instance admin. Raises `GrantActionForbidden`,
    `InstanceAdminRequired` (403).
    """
    if user_id in settings.ICEKEEPER.instance_admins:
        require_instance_admin(actor)
    _require_permission_to_grant(actor, administering_privileges(user_id=user_id), f"which {user_id} has")


def _require_permission_to_grant(actor: Actor, privileges: Sequence[tuple[str, ObjectRef]], why: str) -> None:
    if not privileges:
        return
    epoch = permission_epoch.current()
    checks = [(grant_action(privilege), ref) for privilege, ref in privileges]
    if is_instance_admin(actor):
        record_overrides(actor, checks)
        return
    for (privilege, ref), is_granted in zip(privileges, check_permissions(actor, checks), strict=True):
        if not is_granted:
            action, (on_type, object_id) = grant_action(privilege), ref
            record_denial(
                actor=actor, action=action, object_type=on_type.value, object_id=object_id, reason="ActionForbidden"
            )
            raise GrantActionForbidden(f"{actor.name} may not grant on {on_type} {object_id}: {privilege}, {why}")
    recheck_before_write(actor, checks, epoch)
