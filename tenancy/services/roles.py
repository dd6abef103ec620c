"""Services that create, update and delete roles."""

from __future__ import annotations

import re
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError

from icekeeper.kernel import request_context
from icekeeper.kernel.clock import now
from icekeeper.kernel.db.deletion import delete_rows
from icekeeper.kernel.db.transactions import is_foreign_key_violation
from icekeeper.kernel.errors.types import BadRequest, CatalogError, Conflict
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import hidden_character, name_key, require_description, require_trimmed_name
from tenancy.actor import Actor
from tenancy.authn.requests import known_roles, unknown_assumed_role
from tenancy.authz.actions import Can
from tenancy.authz.model import OWNERSHIP
from tenancy.authz.openfga.outbox import enqueue_role_deletion
from tenancy.authz.permissions import require_permission
from tenancy.authz.securables import add_securable, remove_securable
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import ChangeTransaction, change
from tenancy.models import Project, Role, Securable
from tenancy.models.role import OWN_PROVIDER
from tenancy.models.securable import ObjectRef
from tenancy.selectors.projects import no_such_project
from tenancy.selectors.roles import get_role_for, role_not_found
from tenancy.services.administrators import (
    administrated_by,
    keeping_administrators,
    lock_roles,
    require_permission_to_appoint,
    require_permission_to_bind_roles,
)
from tenancy.services.automatic_grants import delete_grants_of_roles, grant_creator, rights_of_role
from tenancy.services.role_members import lock_memberships, require_nestable

SYSTEM_PROVIDER: Final = "system"
"""Provider of roles that only the server itself creates and updates."""

MAX_DESCRIPTION_LENGTH, MAX_SOURCE_ID_LENGTH = 4096, 255
"""Characters."""

_PROVIDER_ID = re.compile(r"[a-z0-9-]{1,128}")


class EmptyRoleName(BadRequest):
    wire_type = "EmptyRoleName"


class InvalidRoleIdentifier(BadRequest):
    wire_type = "InvalidRoleIdentifier"


class RoleProviderIdReserved(BadRequest):
    wire_type = "RoleProviderIdReserved"


class SystemRoleImmutable(BadRequest):
    wire_type = "SystemRoleImmutable"


class RoleNameExists(Conflict):
    wire_type = "RoleNameAlreadyExists"


class RoleSourceIdConflict(Conflict):
    wire_type = "RoleSourceIdConflict"


class RoleChanged(Conflict):
    """The role was updated after the caller read it."""

    wire_type = "RoleChanged"


def create_role(
    *,
    actor: Actor,
    project: Project,
    name: str,
    description: str | None = None,
    provider_id: str | None = None,
    source_id: str | None = None,
) -> Role:
    """Create a role in `project`, by default one of this server; tokens of `provider_id` name it `source_id`.

    Raises `EmptyRoleName`, `InvalidRoleIdentifier`, `RoleProviderIdReserved`, `BadRequest` (400),
    `ProjectActionForbidden` (403) for a role of another provider without permission to bind roles, `RoleNameExists` or
    `RoleSourceIdConflict` (409), `ProjectNotFound` (404); with an assumed role, which owns new roles, also
    `UnknownAssumedRole` (400), `RoleMembershipDepthExceeded` and `RoleMembershipLockTimeout` (409).
    """
    require_permission(actor, Can.CREATE_ROLE, Securable.Type.PROJECT, project.pk)
    role_id = new_id()
    if provider_id is None and source_id is None:
        provider_id, source_id = OWN_PROVIDER, str(role_id)
    elif provider_id is None or source_id is None:
        raise InvalidRoleIdentifier("provider-id and source-id must be given together", field="source-id")
    else:
        _require_identifier(provider_id, source_id)
    if provider_id != OWN_PROVIDER:
        require_permission_to_bind_roles(actor, project.pk)
    role = Role(
        id=role_id,
        project=project,
        name=_checked_name(name),
        name_key=name_key(name),
        description=description and require_description(description, max_length=MAX_DESCRIPTION_LENGTH),
        provider_id=provider_id,
        source_id=source_id,
    )
    try:
        with change(actor) as tx:
            if actor.assumed_role is not None:
                _lock_memberships_of(actor.assumed_role)
            role.save(force_insert=True)
            request_context.recheck_permissions()  # the insert may have waited for another transaction
            add_securable(Securable.Type.ROLE, role_id, parent=ObjectRef(Securable.Type.PROJECT, project.pk))
            if actor.assumed_role is not None:
                require_nestable(role_id, [actor.assumed_role])  # the assumed role will own the new one
            granted = grant_creator(actor, OWNERSHIP, ObjectRef(Securable.Type.ROLE, role_id))
            tx.record(Change.ROLE_CREATED, subject=role_id, **_details(role), **granted)
            if role.provider_id != OWN_PROVIDER:
                tx.change_permissions()  # users whose tokens name it are members from now on
    except Securable.DoesNotExist:
        raise no_such_project(project.pk) from None
    except IntegrityError as error:
        raise _conflict(error, role) from error
    return role


def update_role(
    *,
    actor: Actor,
    project: Project,
    role_id: UUID,
    name: str,
    description: str | None,
    unchanged_since: datetime | None = None,
) -> Role:
    """Update a role's name and description; with `unchanged_since` only if `changed_at` of the role still is that.

    Raises as `create_role`, `RoleNotFoundInProject` (404), and `RoleChanged` (409).
    """
    role = _get_changeable(actor, Can.UPDATE, project, role_id)
    role.name, role.name_key = _checked_name(name), name_key(name)
    role.description = description and require_description(description, max_length=MAX_DESCRIPTION_LENGTH)
    try:
        with change(actor) as tx:
            return _store(tx, role, "name", "name_key", "description", unchanged_since=unchanged_since)
    except IntegrityError as error:
        raise _conflict(error, role) from error


def set_source_system(*, actor: Actor, project: Project, role_id: UUID, provider_id: str, source_id: str) -> Role:
    """Bind a role to a group of an identity provider: users whose tokens name the group become members, too.

    Raises as `create_role`, `RoleNotFoundInProject` (404), `GrantActionForbidden` (403) for a role of administrators
    whom the caller may not appoint, and `RoleMembershipLockTimeout` (409).
    """
    role = _get_changeable(actor, Can.UPDATE_SOURCE_SYSTEM, project, role_id)
    _require_identifier(provider_id, source_id)
    require_permission_to_bind_roles(actor, project.pk)
    role.provider_id, role.source_id = provider_id, source_id
    try:
        with change(actor) as tx:
            lock_memberships(project)
            require_permission_to_appoint(actor, role_id)
            return _store(tx, role, "provider_id", "source_id")
    except IntegrityError as error:
        raise _conflict(error, role) from error


def delete_role(*, actor: Actor, project: Project, role_id: UUID) -> None:
    """Delete a role, its members and memberships, and the grants to it and on it.

    Raises `RoleNotFoundInProject` (404), `SystemRoleImmutable` (400), `GrantActionForbidden` (403) for a role of
    administrators whom the caller may not appoint, `LastAdministrator` and
    `RoleMembershipLockTimeout` (409).
    """
    role = _get_changeable(actor, Can.DELETE, project, role_id)
    with change(actor) as tx:
        lock_memberships(project)
        if role_id not in lock_roles(within=[role_id]):
            raise role_not_found(role_id, project)
        require_permission_to_appoint(actor, role_id)
        with keeping_administrators(administrated_by(role_ids=[role_id])):
            ended = rights_of_role(role_id)
            enqueue_role_deletion([role_id])
            delete_grants_of_roles([role_id])
            delete_rows(Role, [role_id])
        remove_securable(Securable.Type.ROLE, role_id)
        tx.record(Change.ROLE_DELETED, subject=role_id, **_details(role), **ended)
        tx.call_afterwards(partial(known_roles.evict, role_id))


def _lock_memberships_of(role_id: UUID) -> None:
    """Lock the memberships in the project of an assumed role. Raises `UnknownAssumedRole` (400) if it was deleted."""
    role = Role.objects.select_related("project").filter(pk=role_id).first()
    if role is None:
        raise unknown_assumed_role(role_id)
    lock_memberships(role.project)


def _get_changeable(actor: Actor, action: Can, project: Project, role_id: UUID) -> Role:
    role = get_role_for(actor=actor, action=action, project=project, role_id=role_id)
    if role.provider_id == SYSTEM_PROVIDER:
        raise SystemRoleImmutable(f"Roles of the provider {SYSTEM_PROVIDER!r} cannot be changed")
    return role


def _store(tx: ChangeTransaction, role: Role, *fields: str, unchanged_since: datetime | None = None) -> Role:
    role.updated_at = now()
    values = {field: getattr(role, field) for field in (*fields, "updated_at")}
    rows = Role.objects.filter(pk=role.pk).exclude(provider_id=SYSTEM_PROVIDER)
    wanted = rows if unchanged_since is None else rows.changed_at(unchanged_since)
    if not wanted.update(**values):
        if unchanged_since is not None and rows.exists():
            raise RoleChanged("The role was changed by another user meanwhile")
        raise role_not_found(role.pk, role.project)  # it was deleted in between
    request_context.recheck_permissions()  # the update may have waited
    stored = Role.objects.get(pk=role.pk)
    tx.record(Change.ROLE_UPDATED, subject=role.pk, **_details(stored))
    return stored


def _details(role: Role) -> dict[str, Any]:
    """Return the audit details of a role."""
    return {"project": role.project_id, "named": role.name, "ident": role.ident}


def _conflict(error: IntegrityError, role: Role) -> CatalogError:
    """Return the error for the name or identifier that is taken, found by a query: messages of databases differ."""
    if is_foreign_key_violation(error):
        return no_such_project(role.project_id)
    others = Role.objects.filter(project_id=role.project_id).exclude(pk=role.pk)
    if others.filter(provider_id=role.provider_id, source_id=role.source_id).exists():
        return RoleSourceIdConflict(f"Another role of this project is known as {role.ident!r}", field="source-id")
    return RoleNameExists(f"A role named {role.name!r} exists already in this project", field="name")


def _require_identifier(provider_id: str, source_id: str) -> None:
    if not _PROVIDER_ID.fullmatch(provider_id):
        raise InvalidRoleIdentifier("provider-id: lower-case letters, digits and -, at most 128", field="provider-id")
    if provider_id == SYSTEM_PROVIDER:
        raise RoleProviderIdReserved(f"The provider {SYSTEM_PROVIDER!r} is reserved", field="provider-id")
    if not source_id.strip() or len(source_id) > MAX_SOURCE_ID_LENGTH or hidden_character(source_id) is not None:
        raise InvalidRoleIdentifier(
            f"source-id: 1 to {MAX_SOURCE_ID_LENGTH} characters, no control characters, not only spaces",
            field="source-id",
        )


def _checked_name(name: str) -> str:
    if not name.strip():
        raise EmptyRoleName("The name of a role must not be empty", field="name")
    return require_trimmed_name(name, "role name")
