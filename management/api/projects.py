from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from icekeeper.kernel.api_shapes import KebabSerializer, Text, answers
from tenancy.models import Project
from tenancy.selectors.projects import get_project, list_projects

TAGS = ["project"]
PROJECT_HEADER = OpenApiParameter(
    "x-project-id", OpenApiTypes.STR, OpenApiParameter.HEADER, description="The project; default: the default project"
)

PROJECT_REFUSALS = {400: "`ProjectIdMissing`, `MalformedProjectID`", 404: "`ProjectNotFound`"}


def header_project_id(request: Request) -> str | None:
    return request.META.get("HTTP_X_PROJECT_ID") or request.META.get("HTTP_X_PROJECT_IDENT")


def project_json(project: Project) -> dict[str, Any]:
    return {"project-id": project.pk, "project-name": project.name}


class ProjectResponse(KebabSerializer):
    project_id = Text()
    project_name = Text()


class ProjectListResponse(KebabSerializer):
    projects = ProjectResponse(many=True)


class ProjectView(APIView):
    @extend_schema(
        operation_id="get_project",
        tags=TAGS,
        summary="The project of this request",
        parameters=[PROJECT_HEADER],
        responses=answers({200: ProjectResponse}, PROJECT_REFUSALS),
    )
    def get(self, request: Request) -> Response:
        return Response(project_json(get_project(header_project_id(request))))


class ProjectListView(APIView):
    @extend_schema(
        operation_id="list_projects", tags=TAGS, summary="All projects", responses=answers({200: ProjectListResponse})
    )
    def get(self, request: Request) -> Response:
        return Response({"projects": [project_json(project) for project in list_projects()]})
