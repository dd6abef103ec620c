"""Who may change the membership of a role that administrates, and who may act as an account that does."""

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

    To be called under the lock of the project's memberships, before anybody joins or leaves the role and before it is
    deleted. Instance admins need no grants, so that a locked server can be opened. Raises `GrantActionForbidden` (403).
    """
    _require_to_grant(actor, administering_privileges(role_ids=[role_id]), f"which role {role_id} brings")


def require_to_dismiss(actor: Actor, role_ids: Sequence[UUID], *, project_id: str) -> None:
    """As `require_to_appoint`, of all roles of a project that is deleted: its own administrators go with it."""
    held = administering_privileges(role_ids=role_ids)
    elsewhere = [(privilege, ref) for privilege, ref in held if ref != ObjectRef(Securable.Type.PROJECT, project_id)]
    _require_to_grant(actor, elsewhere, f"which a role of project {project_id} brings")


def require_to_bind_roles(actor: Actor, project_id: str) -> None:
    """Require that `actor` may bind roles of the project to groups of an identity provider.

    Whoever owns a role is in it, so who may only create roles could join what others take for a group. It takes what
    granting `role_creator` takes; instance admins need no grants. Raises `ProjectActionForbidden` (403).
    """
    stamp, question = (
        permission_epoch.current(),
        (Can.GRANT_ROLE_CREATOR, ObjectRef(Securable.Type.PROJECT, project_id)),
    )
    if is_instance_admin(actor):
        record_overrides(actor, [question])
        return
    if not check_permissions(actor, [question])[0]:
        action = Can.UPDATE_SOURCE_SYSTEM
        record_denial(actor=actor, action=action, object_type=Securable.Type.PROJECT.value, object_id=project_id)
        raise ProjectActionForbidden(
            f"{actor.name} may not bind roles of project {project_id} to an identity provider; security_admin may"
        )
    recheck_before_write(actor, [question], stamp)


def require_to_act_as(actor: Actor, user_id: str) -> None:
    """That `actor` may grant each privilege with which a service account, or a role that it is in, administrates
    something: who has a token of the account does what it may do.

    To be asked under the locks of the account and of the roles that it is in: it is not appointed meanwhile. Instance
    admins may whatever is granted, and they alone may for an account that is one. Raises `GrantActionForbidden`,
    `InstanceAdminRequired` (403).
    """
    if user_id in settings.ICEKEEPER.instance_admins:
        require_instance_admin(actor)
    _require_to_grant(actor, administering_privileges(user_id=user_id), f"which {user_id} has")


def _require_to_grant(actor: Actor, privileges: Sequence[tuple[str, ObjectRef]], why: str) -> None:
    if not privileges:
        return
    stamp = permission_epoch.current()
    questions = [(grant_action(privilege), ref) for privilege, ref in privileges]
    if is_instance_admin(actor):
        record_overrides(actor, questions)
        return
    for (privilege, ref), answer in zip(privileges, check_permissions(actor, questions), strict=True):
        if not answer:
            action, (on_type, object_id) = grant_action(privilege), ref
            record_denial(
                actor=actor, action=action, object_type=on_type.value, object_id=object_id, reason="ActionForbidden"
            )
            raise GrantActionForbidden(f"{actor.name} may not grant on {on_type} {object_id}: {privilege}, {why}")
    recheck_before_write(actor, questions, stamp)
