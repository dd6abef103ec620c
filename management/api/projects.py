from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.http.raw_path import decode_segment
from icekeeper.kernel.http.serializers import KebabSerializer, Text, empty_response, operation_responses
from management.api.base import LAST_ADMINISTRATOR, PROJECT_HEADER, PROJECT_REFUSALS, ManagementView
from tenancy.models import Project
from tenancy.selectors.projects import get_project_for, list_projects_for, named_project_id, require_project_id
from tenancy.services.projects import create_project, delete_project, rename_project

TAGS = ["project"]
PROJECT_ID = OpenApiParameter("project_id", OpenApiTypes.STR, OpenApiParameter.PATH, description="The project's id")
_BAD_NAME = "`EmptyProjectName`, `ProjectNameTooLong`"
_STAYS = f"`ProjectNotEmpty`: it has warehouses; {LAST_ADMINISTRATOR}"
_NAME_TAKEN = "`ProjectNameAlreadyExists`"


def project_json(project: Project) -> dict[str, Any]:
    return {"project-id": project.pk, "project-name": project.name}


class CreateProjectRequest(KebabSerializer):
    project_name = Text(allow_blank=True, help_text="At most 128 bytes; unique on the server, whatever the case")
    project_id = Text(
        required=False, allow_null=True, help_text="Letters, digits, _ and -, at most 128; default: a new UUID"
    )


class CreateProjectResponse(KebabSerializer):
    project_id = Text()


class RenameProjectRequest(KebabSerializer):
    new_name = Text(allow_blank=True, help_text="As `project-name` of a new project")


class ProjectResponse(KebabSerializer):
    project_id = Text()
    project_name = Text()


class ProjectListResponse(KebabSerializer):
    projects = ProjectResponse(many=True)


class ProjectView(ManagementView):
    @extend_schema(
        operation_id="get_project",
        tags=TAGS,
        summary="The project of this request",
        parameters=[PROJECT_HEADER],
        responses=operation_responses({200: ProjectResponse}, PROJECT_REFUSALS),
    )
    def get(self, request: Request) -> Response:
        return Response(project_json(get_project_for(actor=self.actor, given=named_project_id(request.META))))

    @extend_schema(
        operation_id="create_project",
        tags=TAGS,
        summary="Make a project; its maker becomes its `project_admin`",
        request=CreateProjectRequest,
        responses=operation_responses(
            {201: CreateProjectResponse},
            {400: f"{_BAD_NAME}, `MalformedProjectID`", 409: f"{_NAME_TAKEN}, `ProjectIdAlreadyExists`"},
        ),
    )
    def post(self, request: Request) -> Response:
        body = self.body(CreateProjectRequest)
        project = create_project(actor=self.actor, name=body["project_name"], project_id=body.get("project_id"))
        return Response({"project-id": project.pk}, status=201)

    @extend_schema(
        operation_id="delete_project",
        tags=TAGS,
        summary="Forget the project of this request, with its roles and all rights on it",
        parameters=[PROJECT_HEADER],
        responses=operation_responses(empty_response("Deleted"), {**PROJECT_REFUSALS, 409: _STAYS}),
    )
    def delete(self, request: Request) -> Response:
        delete_project(actor=self.actor, project_id=self.project().pk)
        return Response(status=204)


class ProjectByIdView(ManagementView):
    @extend_schema(
        operation_id="get_project_by_id_deprecated",
        tags=TAGS,
        summary="One project",
        deprecated=True,
        parameters=[PROJECT_ID],
        responses=operation_responses({200: ProjectResponse}, PROJECT_REFUSALS),
    )
    def get(self, request: Request, project_id: str) -> Response:
        return Response(project_json(get_project_for(actor=self.actor, given=_named(project_id))))

    @extend_schema(
        operation_id="delete_project_by_id_deprecated",
        tags=TAGS,
        summary="Forget a project, with its roles and all rights on it",
        deprecated=True,
        parameters=[PROJECT_ID],
        responses=operation_responses(empty_response("Deleted"), {**PROJECT_REFUSALS, 409: _STAYS}),
    )
    def delete(self, request: Request, project_id: str) -> Response:
        delete_project(actor=self.actor, project_id=_named(project_id))
        return Response(status=204)


class RenameProjectView(ManagementView):
    @extend_schema(
        operation_id="rename_project",
        tags=TAGS,
        summary="Give the project of this request another name",
        parameters=[PROJECT_HEADER],
        request=RenameProjectRequest,
        responses=operation_responses(
            empty_response("Renamed", status=200),
            {400: f"{PROJECT_REFUSALS[400]}, {_BAD_NAME}", 404: PROJECT_REFUSALS[404], 409: _NAME_TAKEN},
        ),
    )
    def post(self, request: Request) -> Response:
        body = self.body(RenameProjectRequest)
        rename_project(actor=self.actor, project_id=self.project().pk, new_name=body["new_name"])
        return Response(status=200)


class RenameProjectByIdView(ManagementView):
    @extend_schema(
        operation_id="rename_project_by_id_deprecated",
        tags=TAGS,
        summary="Give a project another name",
        deprecated=True,
        parameters=[PROJECT_ID],
        request=RenameProjectRequest,
        responses=operation_responses(
            empty_response("Renamed", status=200),
            {400: f"{PROJECT_REFUSALS[400]}, {_BAD_NAME}", 404: PROJECT_REFUSALS[404], 409: _NAME_TAKEN},
        ),
    )
    def post(self, request: Request, project_id: str) -> Response:
        body = self.body(RenameProjectRequest)
        rename_project(actor=self.actor, project_id=_named(project_id), new_name=body["new_name"])
        return Response(status=200)


class ProjectListView(ManagementView):
    @extend_schema(
        operation_id="list_projects",
        tags=TAGS,
        summary="The projects that the caller may see",
        responses=operation_responses({200: ProjectListResponse}),
    )
    def get(self, request: Request) -> Response:
        return Response({"projects": [project_json(each) for each in list_projects_for(actor=self.actor)]})


def _named(segment: str) -> str:
    """The project id in a path."""
    return require_project_id(decode_segment(segment))
