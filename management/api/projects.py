from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.api_shapes import KebabSerializer, Text, answers
from management.api.base import PROJECT_HEADER, PROJECT_REFUSALS, ManagementView
from tenancy.models import Project
from tenancy.selectors.projects import list_projects

TAGS = ["project"]


def project_json(project: Project) -> dict[str, Any]:
    return {"project-id": project.pk, "project-name": project.name}


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
        responses=answers({200: ProjectResponse}, PROJECT_REFUSALS),
    )
    def get(self, request: Request) -> Response:
        return Response(project_json(self.project()))


class ProjectListView(ManagementView):
    @extend_schema(
        operation_id="list_projects", tags=TAGS, summary="All projects", responses=answers({200: ProjectListResponse})
    )
    def get(self, request: Request) -> Response:
        return Response({"projects": [project_json(project) for project in list_projects()]})
