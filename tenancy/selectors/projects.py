"""Reads of the server and its projects, and the project that a request names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from uuid import UUID

from django.conf import settings

from icekeeper.kernel.errors.types import BadRequest, NotFound
from tenancy.actor import Actor
from tenancy.authz.actions import Can
from tenancy.authz.permissions import ProjectActionForbidden, are_allowed, is_allowed, require_permission
from tenancy.models import Project, Securable, Server
from tenancy.models.securable import ObjectRef

_PROJECT_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


class ProjectIdMissing(BadRequest):
    wire_type = "ProjectIdMissing"


class MalformedProjectId(BadRequest):
    wire_type = "MalformedProjectID"


class ProjectNotFound(NotFound):
    wire_type = "ProjectNotFound"


def get_server() -> Server:
    """Return the single row of this deployment."""
    return Server.objects.get()


def server_ref() -> ObjectRef:
    """Return the reference to the server in permission checks. One statement the first time in a process."""
    return ObjectRef(Securable.Type.SERVER, server_id())


@cache
def server_id() -> UUID:
    """Return the id of this deployment, which never changes."""
    return get_server().server_id


def is_project_id(text: str) -> bool:
    return _PROJECT_ID.fullmatch(text) is not None


def named_project_id(meta: Mapping[str, Any]) -> str | None:
    """Return the header `x-project-id` (or its former name) from the WSGI environ, not validated."""
    return meta.get("HTTP_X_PROJECT_ID") or meta.get("HTTP_X_PROJECT_IDENT")


def require_project_id(text: str) -> str:
    """Return a valid project id. Raises `MalformedProjectId` (400)."""
    if not is_project_id(text):
        raise MalformedProjectId("A project id must consist of letters, digits, _ and -, at most 128")
    return text


def no_such_project(project_id: object) -> ProjectNotFound:
    return ProjectNotFound(f"Project does not exist: {project_id}")


def requested_project_id(given: str | None) -> str | None:
    """Return the id `given` by header or body, else that of the default project; None if that is disabled."""
    if given:
        return require_project_id(given)
    return settings.ICEKEEPER.default_project_id if settings.ICEKEEPER.enable_default_project else None


def get_project(given: str | None) -> Project:
    """Raises `ProjectIdMissing`, `MalformedProjectId` (400), or `ProjectNotFound` (404)."""
    project_id = requested_project_id(given)
    if project_id is None:
        raise ProjectIdMissing("No project: send x-project-id, or enable the default project")
    try:
        return Project.objects.get(pk=project_id)
    except Project.DoesNotExist:
        raise no_such_project(project_id) from None


def get_project_for(*, actor: Actor, given: str | None) -> Project:
    """As `get_project`, for callers who may see the project. Raises `ProjectActionForbidden` (403)."""
    project = get_project(given)
    require_permission(actor, Can.GET_METADATA, Securable.Type.PROJECT, project.pk)
    return project


def get_visible_project_for(*, actor: Actor, given: str | None) -> Project:
    """As `get_project_for`, but a project that is hidden from `actor` does not exist for them: `ProjectNotFound`."""
    try:
        return get_project_for(actor=actor, given=given)
    except ProjectActionForbidden:
        raise no_such_project(given) from None


def list_projects_for(*, actor: Actor) -> list[Project]:
    """Return the projects that `actor` may see, in order of creation."""
    projects = list(Project.objects.order_by("created_at", "id"))
    if is_allowed(actor, Can.LIST_ALL_PROJECTS, *server_ref()):
        return projects
    shown = are_allowed(actor, Can.INCLUDE_IN_LIST, [ObjectRef(Securable.Type.PROJECT, each.pk) for each in projects])
    return [each for each, is_shown in zip(projects, shown, strict=True) if is_shown]
