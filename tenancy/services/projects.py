"""Writes of projects."""

from __future__ import annotations

from typing import Final

from django.db import IntegrityError

from icekeeper.kernel.errors import BadRequest, Conflict
from icekeeper.kernel.ids import new_id
from icekeeper.kernel.names import name_key, require_name
from icekeeper.kernel.write_transaction import write_transaction
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.port import require
from tenancy.authz.securables import add_securable
from tenancy.models import Project, Securable, Server
from tenancy.selectors.projects import ProjectNotFound, requested_project_id

MAX_NAME_BYTES: Final = 128


class ProjectExists(Conflict):
    wire_type = "ProjectIdAlreadyExists"


class ProjectNameExists(Conflict):
    wire_type = "ProjectNameAlreadyExists"


def create_project(*, actor: Actor, name: str, project_id: str | None = None) -> Project:
    """Make a project, with a new UUID as its id unless one is chosen.

    Raises `ProjectExists`, `ProjectNameExists` (409), `MalformedProjectId`, `BadRequest` (400).
    """
    server = Server.objects.get()
    require(actor, Can.CREATE_PROJECT, Securable.Type.SERVER, server.server_id)
    name = _checked_name(name)
    chosen = (requested_project_id(project_id) if project_id else None) or str(new_id())
    try:
        with write_transaction():
            Server.objects.select_for_update().get()
            if Project.objects.filter(pk=chosen).exists():
                raise ProjectExists(f"A project with the id {chosen} already exists")
            project = Project.objects.create(id=chosen, name=name, name_key=name_key(name))
            add_securable(Securable.Type.PROJECT, project.pk, parent=(Securable.Type.SERVER, server.server_id))
    except IntegrityError:
        raise ProjectNameExists(f"A project named {name!r} already exists") from None
    return project


def rename_project(*, actor: Actor, project_id: str, new_name: str) -> None:
    """Raises `ProjectNotFound` (404), `ProjectNameExists` (409), `BadRequest`."""
    require(actor, Can.RENAME, Securable.Type.PROJECT, project_id)
    name = _checked_name(new_name)
    try:
        with write_transaction():
            if not Project.objects.filter(pk=project_id).update(name=name, name_key=name_key(name)):
                raise ProjectNotFound(f"Project does not exist: {project_id}")
    except IntegrityError:
        raise ProjectNameExists(f"A project named {name!r} already exists") from None


def _checked_name(name: object) -> str:
    checked = require_name(name, "project-name")
    if len(checked.encode()) > MAX_NAME_BYTES:
        raise BadRequest(f"project-name: longer than {MAX_NAME_BYTES} bytes")
    return checked
