"""Requests and responses about projects."""

from __future__ import annotations

from management.api.serializers import KebabSerializer, ResponseSerializer, Text


class CreateProjectRequest(KebabSerializer):
    project_name = Text(allow_blank=True, help_text="At most 128 bytes; unique on the server, case-insensitive")
    project_id = Text(
        required=False, allow_null=True, help_text="Letters, digits, _ and -, at most 128; default: a new UUID"
    )


class CreateProjectResponse(ResponseSerializer):
    project_id = Text(source="pk")


class RenameProjectRequest(KebabSerializer):
    new_name = Text(allow_blank=True, help_text="The rules for `project-name` of a new project apply")


class ProjectResponse(ResponseSerializer):
    project_id = Text(source="pk")
    project_name = Text(source="name")


class ProjectListResponse(ResponseSerializer):
    projects = ProjectResponse(many=True)
