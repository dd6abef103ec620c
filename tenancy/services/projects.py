"""Services that create, rename and delete projects."""

from __future__ import annotations

from functools import partial

from django.db import IntegrityError
from django.db.models import RestrictedError

from icekeeper.kernel.db.sql import lock_row
from icekeeper.kernel.errors.types import BadRequest, Conflict
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import name_key, require_trimmed_name
from tasks.queue.cleanup import delete_project_tasks
from tenancy.actor import Actor
from tenancy.authn.requests import known_roles
from tenancy.authz.actions import Can
from tenancy.authz.openfga.outbox import enqueue_role_deletion
from tenancy.authz.permissions import require_permission
from tenancy.authz.securables import add_securable, remove_securables
from tenancy.changes.kinds import Change
from tenancy.changes.transaction import change
from tenancy.models import Project, Role, Securable, TagDefinition
from tenancy.models.securable import ObjectRef, securable_id
from tenancy.selectors.projects import get_server, no_such_project, require_project_id
from tenancy.services.administrators import administrated_by, keeping_administrators, require_permission_to_delete_roles
from tenancy.services.automatic_grants import PROJECT_ADMIN, delete_grants_of_roles, grant_creator, rights_of_project

MAX_NAME_BYTES = 128


class EmptyProjectName(BadRequest):
    wire_type = "EmptyProjectName"


class ProjectNameTooLong(BadRequest):
    wire_type = "ProjectNameTooLong"


class ProjectIdAlreadyExists(Conflict):
    wire_type = "ProjectIdAlreadyExists"


class ProjectNameAlreadyExists(Conflict):
    wire_type = "ProjectNameAlreadyExists"


class ProjectNotEmpty(Conflict):
    wire_type = "ProjectNotEmpty"


class ProjectChanged(Conflict):
    wire_type = "ProjectChanged"


def create_project(*, actor: Actor, name: str, project_id: str | None = None) -> Project:
    """Create a project, by default with a new UUID; grants `project_admin` to its creator.

    Raises `EmptyProjectName`, `ProjectNameTooLong`, `MalformedProjectId` (400), `ProjectIdAlreadyExists`,
    `ProjectNameAlreadyExists` (409).
    """
    checked = checked_project_name(name)
    wanted = str(new_id()) if project_id is None else require_project_id(project_id)
    server_id = get_server().server_id
    require_permission(actor, Can.CREATE_PROJECT, Securable.Type.SERVER, server_id)
    try:
        with change(actor) as tx:
            # Checked first, since the integrity error does not name the constraint.
            if Project.objects.filter(pk=wanted).exists():
                raise _id_taken(wanted)
            project = Project(id=wanted, name=checked, name_key=name_key(checked))
            project.save(force_insert=True)
            add_securable(Securable.Type.PROJECT, wanted, parent=ObjectRef(Securable.Type.SERVER, server_id))
            granted = grant_creator(actor, PROJECT_ADMIN, ObjectRef(Securable.Type.PROJECT, wanted))
            tx.record(Change.PROJECT_CREATED, subject=wanted, project=wanted, named=checked, **granted)
    except IntegrityError:
        if Project.objects.filter(pk=wanted).exists():
            raise _id_taken(wanted) from None
        if Project.objects.named(checked).exists():
            raise _name_taken(checked) from None
        raise
    return project


def rename_project(*, actor: Actor, project_id: str, new_name: str, former_name: str | None = None) -> None:
    """Rename a project; with `former_name` only if that still is its name.

    Raises `ProjectNotFound`, `EmptyProjectName`, `ProjectNameTooLong`, `ProjectNameAlreadyExists`, `ProjectChanged`
    (409).
    """
    checked = checked_project_name(new_name, field="new-name")
    _require_on_project(actor, Can.RENAME, project_id)
    try:
        with change(actor) as tx:
            project = _lock(project_id)
            former = project.name
            if former_name is not None and former not in {former_name, checked}:  # a repeated request succeeds
                raise ProjectChanged("The project was renamed meanwhile")
            project.name, project.name_key = checked, name_key(checked)
            project.save(update_fields=["name", "name_key"])
            if former != checked:
                tx.record(
                    Change.PROJECT_RENAMED, subject=project_id, project=project_id, named=checked,
                    formerly=former,
                )  # fmt: skip
    except IntegrityError:
        raise _name_taken(checked, field="new-name") from None


def delete_project(*, actor: Actor, project_id: str) -> None:
    """Delete a project without warehouses, also the default one, with its roles, tags and their grants.

    Raises `ProjectNotFound`, `ProjectNotEmpty` (409), `GrantActionForbidden` (403) where one of its roles administrates
    the server and the caller may not appoint its administrators, `LastAdministrator` (409) where the
    last administrator has that privilege through such a role.
    """
    not_empty = ProjectNotEmpty(f"Project {project_id} is not empty: delete its warehouses first")
    _require_on_project(actor, Can.DELETE, project_id)
    try:
        with change(actor) as tx:
            # New references to the project wait for this lock.
            project = _lock(project_id)
            rows = Role.objects.filter(project_id=project_id).order_by("pk").select_for_update()
            roles = list(rows.values_list("pk", flat=True))  # in the lock order of grants to several roles
            tags = list(TagDefinition.objects.filter(project_id=project_id).values_list("pk", flat=True))
            deleted: list[ObjectRef] = [ObjectRef(Securable.Type.ROLE, role_id) for role_id in roles]
            deleted += [ObjectRef(Securable.Type.TAG, definition_id) for definition_id in tags]
            deleted.append(ObjectRef(Securable.Type.PROJECT, project_id))
            own_id = securable_id(Securable.Type.PROJECT, project_id)
            require_permission_to_delete_roles(actor, roles, project_id=project_id)
            with keeping_administrators([own_id, *administrated_by(role_ids=roles)], deleted=own_id):
                ended = rights_of_project(roles, deleted)
                enqueue_role_deletion(roles)
                delete_grants_of_roles(roles)
                delete_project_tasks(project_id)
                project.delete()
            remove_securables(deleted)
            tx.record(
                Change.PROJECT_DELETED, subject=project_id, project=project_id, named=project.name,
                roles=len(roles), **ended,
            )  # fmt: skip
            tx.call_afterwards(partial(known_roles.evict, *roles))
    except (RestrictedError, IntegrityError):
        raise not_empty from None


def _require_on_project(actor: Actor, action: Can, project_id: str) -> None:
    """Check before any lock is taken, so that denied requests block no others."""
    if not Project.objects.filter(pk=project_id).exists():
        raise no_such_project(project_id)
    require_permission(actor, action, Securable.Type.PROJECT, project_id)


def _lock(project_id: str) -> Project:
    project = lock_row(Project, "id = %s", [project_id], mode="UPDATE")
    if project is None:
        raise no_such_project(project_id)
    return project


def checked_project_name(name: str, *, field: str = "project-name") -> str:
    """Raises `EmptyProjectName`, `ProjectNameTooLong`, `BadRequest`."""
    if not name.strip():
        raise EmptyProjectName("The name of a project must not be empty", field=field)
    if len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        message = f"The name of a project must not be longer than {MAX_NAME_BYTES} bytes"
        raise ProjectNameTooLong(message, field=field)
    return require_trimmed_name(name, "project name")


def _id_taken(project_id: str) -> ProjectIdAlreadyExists:
    return ProjectIdAlreadyExists(f"A project with the id {project_id} already exists", field="project-id")


def _name_taken(name: str, *, field: str = "project-name") -> ProjectNameAlreadyExists:
    return ProjectNameAlreadyExists(f"A project named {name!r} already exists", field=field)
