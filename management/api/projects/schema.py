"""OpenAPI descriptions of the operations on projects."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema

from icekeeper.kernel.http.serializers import empty_response, operation_responses
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
    Operation,
    describe,
)

TAGS = ["project"]
_BAD_NAME = "`EmptyProjectName`, `ProjectNameTooLong`"
_NAME_TAKEN = "`ProjectNameAlreadyExists`"
_CONFLICT = f"`ProjectNotEmpty`: the project has warehouses; {LAST_ADMINISTRATOR}"


def _retrieve(operation_id: str, summary: str, *, is_by_id: bool) -> Operation:
    return extend_schema(
        operation_id=operation_id,
        tags=TAGS,
        summary=summary,
        deprecated=is_by_id,
        parameters=[PROJECT_ID if is_by_id else PROJECT_HEADER],
        responses=operation_responses({200: ProjectResponse}, PROJECT_ERRORS),
    )


def _destroy(operation_id: str, summary: str, *, is_by_id: bool) -> Operation:
    return extend_schema(
        operation_id=operation_id,
        tags=TAGS,
        summary=summary,
        deprecated=is_by_id,
        parameters=[PROJECT_ID if is_by_id else PROJECT_HEADER],
        responses=operation_responses(empty_response("Deleted"), {**PROJECT_ERRORS, 409: _CONFLICT}),
    )


def _rename(operation_id: str, summary: str, *, is_by_id: bool) -> Operation:
    return extend_schema(
        operation_id=operation_id,
        tags=TAGS,
        summary=summary,
        deprecated=is_by_id,
        parameters=[PROJECT_ID if is_by_id else PROJECT_HEADER],
        request=RenameProjectRequest,
        responses=operation_responses(
            empty_response("Renamed", status=200),
            {400: f"{BAD_PROJECT}, {_BAD_NAME}", 404: NO_PROJECT, 409: _NAME_TAKEN},
        ),
    )


describe_projects = describe(
    retrieve=_retrieve("get_project", "Get the project of the request", is_by_id=False),
    create=extend_schema(
        operation_id="create_project",
        tags=TAGS,
        summary="Create a project",
        description="The caller becomes its `project_admin`.",
        request=CreateProjectRequest,
        responses=operation_responses(
            {201: CreateProjectResponse},
            {400: f"{_BAD_NAME}, `MalformedProjectID`", 409: f"{_NAME_TAKEN}, `ProjectIdAlreadyExists`"},
        ),
    ),
    destroy=_destroy("delete_project", "Delete the project of the request, its roles and grants", is_by_id=False),
    rename=_rename("rename_project", "Update the name of the project of the request", is_by_id=False),
    list=extend_schema(
        operation_id="list_projects",
        tags=TAGS,
        summary="List the projects that are visible to the caller",
        responses=operation_responses({200: ProjectListResponse}),
    ),
)

describe_projects_by_id = describe(
    retrieve=_retrieve("get_project_by_id_deprecated", "Get a project", is_by_id=True),
    destroy=_destroy("delete_project_by_id_deprecated", "Delete a project, its roles and its grants", is_by_id=True),
    rename=_rename("rename_project_by_id_deprecated", "Update the name of a project", is_by_id=True),
)
