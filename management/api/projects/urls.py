from __future__ import annotations

from django.urls import path

from management.api.projects.views import ProjectByIdViewSet, ProjectViewSet

_BY_ID = "v1/project/<str:project_id>"

urlpatterns = [
    path(
        "v1/project",
        ProjectViewSet.as_view({"get": "retrieve", "post": "create", "delete": "destroy"}),
        name="project",
    ),
    path("v1/project/rename", ProjectViewSet.as_view({"post": "rename"}), name="rename-project"),
    path("v1/project-list", ProjectViewSet.as_view({"get": "list"}), name="project-list"),
    path(_BY_ID, ProjectByIdViewSet.as_view({"get": "retrieve", "delete": "destroy"}), name="project-by-id"),
    path(f"{_BY_ID}/rename", ProjectByIdViewSet.as_view({"post": "rename"}), name="rename-project-by-id"),
]
