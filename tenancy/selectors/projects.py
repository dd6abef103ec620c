from __future__ import annotations

import re

from django.conf import settings

from icekeeper.kernel.errors import BadRequest, NotFound
from tenancy.models import Project

_PROJECT_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


class ProjectIdMissing(BadRequest):
    wire_type = "ProjectIdMissing"


class MalformedProjectId(BadRequest):
    wire_type = "MalformedProjectID"


class ProjectNotFound(NotFound):
    wire_type = "ProjectNotFound"


def requested_project_id(given: str | None) -> str | None:
    """The project that a request means: `given` by header or body, else the default one; None when there is none."""
    if given:
        if not _PROJECT_ID.fullmatch(given):
            raise MalformedProjectId("A project id is made of letters, digits, _ and -, at most 128")
        return given
    return settings.ICEKEEPER.default_project_id if settings.ICEKEEPER.enable_default_project else None


def get_project(given: str | None) -> Project:
    """Raises `ProjectIdMissing`, `MalformedProjectId` (400), or `ProjectNotFound` (404)."""
    project_id = requested_project_id(given)
    if project_id is None:
        raise ProjectIdMissing("No project: send x-project-id, or enable the default project")
    project = Project.objects.filter(pk=project_id).first()
    if project is None:
        raise ProjectNotFound(f"Project does not exist: {project_id}")
    return project


def list_projects() -> list[Project]:
    return list(Project.objects.order_by("created_at", "id"))
