"""Projects, named by the `x-project-id` header or, deprecated, by their id in the path."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from management.api.base import ManagementViewSet
from management.api.projects.schema import describe_projects, describe_projects_by_id
from management.api.projects.serializers import (
    CreateProjectRequest,
    CreateProjectResponse,
    ProjectListResponse,
    ProjectResponse,
    RenameProjectRequest,
)
from tenancy.selectors.projects import get_project_for, list_projects_for, named_project_id, require_project_id
from tenancy.services.projects import create_project, delete_project, rename_project


@describe_projects
class ProjectViewSet(ManagementViewSet):
    def list(self, request: Request) -> Response:
        return self.respond(ProjectListResponse, {"projects": list_projects_for(actor=self.actor)})

    def create(self, request: Request) -> Response:
        body = self.body(CreateProjectRequest)
        project = create_project(actor=self.actor, name=body["project_name"], project_id=body.get("project_id"))
        return self.respond(CreateProjectResponse, project, status=201)

    def retrieve(self, request: Request) -> Response:
        return self.respond(ProjectResponse, get_project_for(actor=self.actor, given=named_project_id(request.META)))

    def rename(self, request: Request) -> Response:
        new_name = self.body(RenameProjectRequest)["new_name"]
        rename_project(actor=self.actor, project_id=self.project().pk, new_name=new_name)
        return Response(status=200)

    def destroy(self, request: Request) -> Response:
        delete_project(actor=self.actor, project_id=self.project().pk)
        return Response(status=204)


@describe_projects_by_id
class ProjectByIdViewSet(ManagementViewSet):
    @property
    def project_id(self) -> str:
        return require_project_id(self.path_text("project_id"))

    def retrieve(self, request: Request, **path: str) -> Response:
        return self.respond(ProjectResponse, get_project_for(actor=self.actor, given=self.project_id))

    def rename(self, request: Request, **path: str) -> Response:
        new_name = self.body(RenameProjectRequest)["new_name"]
        rename_project(actor=self.actor, project_id=self.project_id, new_name=new_name)
        return Response(status=200)

    def destroy(self, request: Request, **path: str) -> Response:
        delete_project(actor=self.actor, project_id=self.project_id)
        return Response(status=204)
