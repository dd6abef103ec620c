"""OpenAPI descriptions of the operations on projects."""

from __future__ import annotations

from functools import partial
from typing import Any

from icekeeper.kernel.http.openapi import empty_response
from management.api.projects.serializers import (
    CreateProjectRequest,
    CreateProjectResponse,
    ProjectListResponse,
    ProjectResponse,
    RenameProjectRequest,
)
from management.api.schema import (
    BAD_PROJECT,
    LAST_ADMINISTRATOR,
    NO_PROJECT,
    PROJECT_ERRORS,
    PROJECT_HEADER,
    PROJECT_ID,
    describe,
    operation,
)

_operation = partial(operation, tag="project")
_BAD_NAME = "`EmptyProjectName`, `ProjectNameTooLong`"
_NAME_TAKEN = "`ProjectNameAlreadyExists`"
_CONFLICT = f"`ProjectNotEmpty`: the project has warehouses; {LAST_ADMINISTRATOR}"
_OF_REQUEST: dict[str, Any] = {"parameters": [PROJECT_HEADER]}
_BY_ID: dict[str, Any] = {"parameters": [PROJECT_ID], "deprecated": True}
_retrieve = partial(_operation, success={200: ProjectResponse}, errors=PROJECT_ERRORS)
_destroy = partial(_operation, success=empty_response("Deleted"), errors={**PROJECT_ERRORS, 409: _CONFLICT})
_rename = partial(
    _operation,
    request=RenameProjectRequest,
    success=empty_response("Renamed", status=200),
    errors={400: f"{BAD_PROJECT}, {_BAD_NAME}", 404: NO_PROJECT, 409: _NAME_TAKEN},
)

describe_projects = describe(
    retrieve=_retrieve("get_project", "Get the project of the request", **_OF_REQUEST),
    create=_operation(
        "create_project",
        "Create a project",
        description="The caller becomes its `project_admin`.",
        request=CreateProjectRequest,
        success={201: CreateProjectResponse},
        errors={400: f"{_BAD_NAME}, `MalformedProjectID`", 409: f"{_NAME_TAKEN}, `ProjectIdAlreadyExists`"},
    ),
    destroy=_destroy("delete_project", "Delete the project of the request, its roles and grants", **_OF_REQUEST),
    rename=_rename("rename_project", "Update the name of the project of the request", **_OF_REQUEST),
    list=_operation(
        "list_projects", "List the projects that are visible to the caller", success={200: ProjectListResponse}
    ),
)

describe_projects_by_id = describe(
    retrieve=_retrieve("get_project_by_id_deprecated", "Get a project", **_BY_ID),
    destroy=_destroy("delete_project_by_id_deprecated", "Delete a project, its roles and its grants", **_BY_ID),
    rename=_rename("rename_project_by_id_deprecated", "Update the name of a project", **_BY_ID),
)
