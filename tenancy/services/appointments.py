"""Permission to change roles of administrators and to act as service accounts that are administrators."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.conf import settings

from tenancy.actor import Actor
from tenancy.audit.occurrences import record_denial
from tenancy.authz.actions import Can
from tenancy.authz.errors import GrantActionForbidden, ProjectActionForbidden
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.authz.permissions import check_permissions, recheck_before_write, record_overrides
from tenancy.authz.privileges import grant_action
from tenancy.instance_admins import is_instance_admin, require_instance_admin
from tenancy.models import Securable
from tenancy.refs import ObjectRef
from tenancy.services.administrators import administering_privileges


def require_to_appoint(actor: Actor, role_id: UUID) -> None:
    """Require that `actor` may grant each privilege with which the role, or one that it is in, administrates something.

    Call it under the lock of the project's memberships, before members change and before the role is deleted.
    Instance admins need no grants, so that they can restore access. Raises `GrantActionForbidden` (403).
    """
    _require_to_grant(actor, administering_privileges(role_ids=[role_id]), f"which role {role_id} brings")


def require_to_dismiss(actor: Actor, role_ids: Sequence[UUID], *, project_id: str) -> None:
    """Require as `require_to_appoint` for all roles of a deleted project, except privileges on the project itself."""
    held = administering_privileges(role_ids=role_ids)
    elsewhere = [(privilege, ref) for privilege, ref in held if ref != ObjectRef(Securable.Type.PROJECT, project_id)]
    _require_to_grant(actor, elsewhere, f"which a role of project {project_id} brings")


def require_to_bind_roles(actor: Actor, project_id: str) -> None:
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


def require_to_act_as(actor: Actor, user_id: str) -> None:
    """Require that `actor` may grant each privilege with which a service account or one of its roles administrates an
    object: a token of the account has these privileges.

    Call it under the locks of the account and of its roles, against concurrent grants. Instance admins are always
    allowed, and only they for an account that is an instance admin. Raises `GrantActionForbidden`,
    `InstanceAdminRequired` (403).
    """
    if user_id in settings.ICEKEEPER.instance_admins:
        require_instance_admin(actor)
    _require_to_grant(actor, administering_privileges(user_id=user_id), f"which {user_id} has")


def _require_to_grant(actor: Actor, privileges: Sequence[tuple[str, ObjectRef]], why: str) -> None:
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
