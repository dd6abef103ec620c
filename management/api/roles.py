from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import listing_key
from icekeeper.kernel.http.raw_path import decode_segment
from icekeeper.kernel.http.serializers import KebabSerializer, Text, empty_response, operation_responses
from icekeeper.kernel.ids import parse_id
from management.api.base import BAD_PAGE, LAST_ADMINISTRATOR, PAGE, PROJECT_HEADER, PROJECT_REFUSALS, ManagementView
from management.api.search import ONLY_FOR_PAGES, SearchRequest, next_page_of_search, page_of_search
from management.api.users import paged
from tenancy.authz.actions import Can
from tenancy.models import Role
from tenancy.selectors.roles import (
    RoleFilter,
    get_role_for,
    get_role_of_any_project_for,
    list_roles_for,
    role_id_not_found,
    role_not_found,
    search_roles_for,
)
from tenancy.services.roles import create_role, delete_role, set_source_system, update_role

TAGS = ["role"]
ROLE_ID = OpenApiParameter("role_id", OpenApiTypes.UUID, OpenApiParameter.PATH, description="The role's id")
NO_ROLE = f"`RoleNotFoundInProject`, {PROJECT_REFUSALS[404]}"
APPOINTING = (
    "`RoleActionForbidden`; `GrantActionForbidden` where the role administrates what the caller may not appoint "
    "administrators of"
)
BAD_IDENTIFIER = "`InvalidRoleIdentifier`, `RoleProviderIdReserved`"


class RoleMetadataResponse(KebabSerializer):
    id = serializers.UUIDField()
    ident = Text(help_text="`<provider-id>~<source-id>`, unique in the project")
    provider_id = Text(help_text="The system that knows the role, such as `lakekeeper` or `oidc`")
    source_id = Text(help_text="What that system calls it")
    name = Text()
    project_id = Text()


class RoleResponse(RoleMetadataResponse):
    description = Text(required=False, help_text="Absent when there is none")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField(required=False, help_text="Absent when it was never changed")


class RoleListResponse(KebabSerializer):
    roles = RoleResponse(many=True)
    next_page_token = Text(required=False, help_text="Absent on the last page")


class SearchRoleResponse(KebabSerializer):
    roles = RoleResponse(many=True)
    next_page_token = Text(required=False, help_text=ONLY_FOR_PAGES)


class CreateRoleRequest(KebabSerializer):
    name = Text(allow_blank=True, help_text="Unique in the project, whatever its case")
    description = Text(required=False, allow_null=True, allow_blank=True)
    provider_id = Text(
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="The system that knows the role: lower-case letters, digits and `-`. Together with `source-id`; "
        "without both the role is this server's own",
    )
    source_id = Text(required=False, allow_null=True, allow_blank=True, help_text="What that system calls it")
    project_id = Text(required=False, allow_null=True, help_text="Deprecated: send x-project-id")


class UpdateRoleRequest(KebabSerializer):
    name = Text(allow_blank=True, help_text="Unique in the project, whatever its case")
    description = Text(
        required=False, allow_null=True, allow_blank=True, help_text="Without it the role has none any more"
    )


class UpdateRoleSourceSystemRequest(KebabSerializer):
    provider_id = Text(allow_blank=True, help_text="The system that knows the role")
    source_id = Text(allow_blank=True, help_text="What that system calls it")


class SearchRoleRequest(SearchRequest):
    project_id = Text(required=False, allow_null=True, help_text="Deprecated: send x-project-id")
    provider_ids = serializers.ListField(
        child=Text(), required=False, allow_null=True, max_length=100, help_text="Only roles of these providers"
    )


def role_metadata_json(role: Role) -> dict[str, Any]:
    return {
        "id": str(role.pk),
        "ident": role.ident,
        "provider-id": role.provider_id,
        "source-id": role.source_id,
        "name": role.name,
        "project-id": role.project_id,
    }


def role_json(role: Role) -> dict[str, Any]:
    sometimes = {"description": role.description, "updated-at": role.updated_at}
    present = {name: value for name, value in sometimes.items() if value is not None}
    return {**role_metadata_json(role), "created-at": role.created_at, **present}


class RolesView(ManagementView):
    @extend_schema(
        operation_id="list_roles",
        tags=TAGS,
        summary="The roles of a project",
        parameters=[
            PROJECT_HEADER,
            *PAGE,
            OpenApiParameter("roleIds", OpenApiTypes.UUID, many=True, description="Only these; may be repeated"),
            OpenApiParameter(
                "sourceIds", OpenApiTypes.STR, many=True, description="Only those with these source ids; as roleIds"
            ),
            OpenApiParameter(
                "providerIds", OpenApiTypes.STR, many=True, description="Only those of these providers; as roleIds"
            ),
            OpenApiParameter("projectId", OpenApiTypes.STR, deprecated=True, description="Comes before x-project-id"),
        ],
        responses=operation_responses(
            {200: RoleListResponse}, PROJECT_REFUSALS | {400: f"{PROJECT_REFUSALS[400]}, {BAD_PAGE}"}
        ),
    )
    def get(self, request: Request) -> Response:
        project = self.project(request.GET.get("projectId"))
        wanted = RoleFilter(self._ids(), self._texts("providerIds"), self._texts("sourceIds"))
        page = self.page(listing_key("roles", project.pk, wanted))
        roles, token = list_roles_for(actor=self.actor, project=project, wanted=wanted, page=page)
        return Response(paged("roles", [role_json(role) for role in roles], token))

    @extend_schema(
        operation_id="create_role",
        tags=TAGS,
        summary="Make a role",
        parameters=[PROJECT_HEADER],
        request=CreateRoleRequest,
        responses=operation_responses(
            {201: RoleResponse},
            {
                400: f"{PROJECT_REFUSALS[400]}, `EmptyRoleName`, {BAD_IDENTIFIER}",
                404: PROJECT_REFUSALS[404],
                409: "`RoleNameAlreadyExists`, `RoleSourceIdConflict`; in an assumed role, which owns what it makes, "
                "also `RoleMembershipDepthExceeded`, `RoleMembershipLockTimeout`",
            },
        ),
    )
    def post(self, request: Request) -> Response:
        body = self.body(CreateRoleRequest)
        role = create_role(
            actor=self.actor,
            project=self.project(body.get("project_id")),
            name=body["name"],
            description=body.get("description"),
            provider_id=body.get("provider_id"),
            source_id=body.get("source_id"),
        )
        return Response(role_json(role), status=201)

    def _texts(self, name: str) -> tuple[str, ...] | None:
        """The values of a query parameter that is repeated, under its name or with `[]`; None without any."""
        given = {*self.request.GET.getlist(name), *self.request.GET.getlist(f"{name}[]")}
        return tuple(sorted(given)) or None

    def _ids(self) -> tuple[UUID, ...] | None:
        texts = self._texts("roleIds")
        if texts is None:
            return None
        found = []
        for text in texts:
            role_id = parse_id(text)
            if role_id is None:
                raise BadRequest(f"roleIds: not a UUID: {text[:100]!r}")
            found.append(role_id)
        return tuple(found)


class RoleResourceView(ManagementView):
    """What is below one role's address. The role is one of the request's project."""

    @property
    def role_id(self) -> UUID:
        text = decode_segment(self.kwargs["role_id"])
        role_id = parse_id(text)
        if role_id is None:
            raise role_not_found(text[:100], self.project())
        return role_id


class RoleView(RoleResourceView):
    @extend_schema(
        operation_id="get_role",
        tags=TAGS,
        summary="One role",
        parameters=[ROLE_ID, PROJECT_HEADER],
        responses=operation_responses({200: RoleResponse}, {400: PROJECT_REFUSALS[400], 404: NO_ROLE}),
    )
    def get(self, request: Request, role_id: str) -> Response:
        role = get_role_for(actor=self.actor, action=Can.READ, project=self.project(), role_id=self.role_id)
        return Response(role_json(role))

    @extend_schema(
        operation_id="update_role",
        tags=TAGS,
        summary="Give a role another name and description",
        parameters=[ROLE_ID, PROJECT_HEADER],
        request=UpdateRoleRequest,
        responses=operation_responses(
            {200: RoleResponse},
            {
                400: f"{PROJECT_REFUSALS[400]}, `EmptyRoleName`, `SystemRoleImmutable`",
                404: NO_ROLE,
                409: "`RoleNameAlreadyExists`",
            },
        ),
    )
    def post(self, request: Request, role_id: str) -> Response:
        body = self.body(UpdateRoleRequest)
        role = update_role(
            actor=self.actor,
            project=self.project(),
            role_id=self.role_id,
            name=body["name"],
            description=body.get("description"),
        )
        return Response(role_json(role))

    @extend_schema(
        operation_id="delete_role",
        tags=TAGS,
        summary="Forget a role, its memberships and its grants",
        parameters=[ROLE_ID, PROJECT_HEADER],
        responses=operation_responses(
            empty_response("Deleted"),
            {
                400: f"{PROJECT_REFUSALS[400]}, `SystemRoleImmutable`",
                403: APPOINTING,
                404: NO_ROLE,
                409: f"{LAST_ADMINISTRATOR}; `RoleMembershipLockTimeout`",
            },
        ),
    )
    def delete(self, request: Request, role_id: str) -> Response:
        delete_role(actor=self.actor, project=self.project(), role_id=self.role_id)
        return Response(status=204)


class RoleSourceSystemView(RoleResourceView):
    @extend_schema(
        operation_id="update_role_source_system",
        tags=TAGS,
        summary="Say which system knows a role, and under what name",
        parameters=[ROLE_ID, PROJECT_HEADER],
        request=UpdateRoleSourceSystemRequest,
        responses=operation_responses(
            {200: RoleResponse},
            {
                400: f"{PROJECT_REFUSALS[400]}, {BAD_IDENTIFIER}, `SystemRoleImmutable`",
                403: APPOINTING,
                404: NO_ROLE,
                409: "`RoleSourceIdConflict`",
            },
        ),
    )
    def put(self, request: Request, role_id: str) -> Response:
        body = self.body(UpdateRoleSourceSystemRequest)
        role = set_source_system(actor=self.actor, project=self.project(), role_id=self.role_id, **body)
        return Response(role_json(role))


class RoleMetadataView(ManagementView):
    @extend_schema(
        operation_id="get_role_metadata",
        tags=TAGS,
        summary="What may be known of a role of any project",
        parameters=[ROLE_ID],
        responses=operation_responses({200: RoleMetadataResponse}, {404: "`RoleIdNotFound`"}),
    )
    def get(self, request: Request, role_id: str) -> Response:
        text = decode_segment(role_id)
        parsed = parse_id(text)
        if parsed is None:
            raise role_id_not_found(text[:100])
        return Response(role_metadata_json(get_role_of_any_project_for(actor=self.actor, role_id=parsed)))


class RoleSearchView(ManagementView):
    posts_read = True

    @extend_schema(
        operation_id="search_role",
        tags=TAGS,
        summary="Roles of a project whose name is like a text, best first",
        parameters=[PROJECT_HEADER],
        request=SearchRoleRequest,
        responses=operation_responses(
            {200: SearchRoleResponse}, PROJECT_REFUSALS | {400: f"{PROJECT_REFUSALS[400]}, {BAD_PAGE}"}
        ),
    )
    def post(self, request: Request) -> Response:
        body = self.body(SearchRoleRequest)
        project, provider_ids = self.project(body.get("project_id")), body.get("provider_ids")
        roles, token = search_roles_for(
            actor=self.actor,
            project=project,
            typed=body["search"],
            provider_ids=provider_ids,
            page=page_of_search("role-search", body, project.pk, provider_ids),
        )
        return Response({"roles": [role_json(role) for role in roles]} | next_page_of_search(body, token))
