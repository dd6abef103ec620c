"""OpenAPI descriptions of the operations on roles and their members."""

from __future__ import annotations

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema

from icekeeper.kernel.http.serializers import empty_response, operation_responses
from management.api.roles.serializers import (
    MEMBER_TYPES,
    AddRoleMembersRequest,
    AddRoleMembersResponse,
    CreateRoleRequest,
    RoleListResponse,
    RoleMemberListResponse,
    RoleMembershipListResponse,
    RoleMetadataResponse,
    RoleResponse,
    SearchRoleRequest,
    SearchRoleResponse,
    UpdateRoleRequest,
    UpdateRoleSourceSystemRequest,
)
from management.api.schema import (
    BAD_PAGE,
    BAD_PROJECT,
    BAD_USER_ID,
    EXTENSIONS_HEADER,
    LAST_ADMINISTRATOR,
    NO_PROJECT,
    NO_ROLE,
    PAGE,
    PROJECT_ERRORS,
    PROJECT_HEADER,
    ROLE_ID,
    Operation,
    describe,
)

TAGS = ["role"]
_BAD_LISTING = f"{BAD_PROJECT}, {BAD_PAGE}"
_BAD_IDENTIFIER = "`InvalidRoleIdentifier`, `RoleProviderIdReserved`"
_SYSTEM_ROLE = "`SystemRoleImmutable`"
_DENIED = (
    "`RoleActionForbidden`; `GrantActionForbidden` if the role is an administrator of something that the caller may "
    "not appoint administrators of"
)
_TYPE = OpenApiParameter(
    "type", OpenApiTypes.STR, enum=MEMBER_TYPES, description="Only users, or only roles; default: both"
)


def _members(operation_id: str, summary: str) -> Operation:
    return extend_schema(
        operation_id=operation_id,
        tags=TAGS,
        summary=summary,
        parameters=[ROLE_ID, PROJECT_HEADER, EXTENSIONS_HEADER, _TYPE, *PAGE],
        responses=operation_responses({200: RoleMemberListResponse}, {400: _BAD_LISTING, 404: NO_ROLE}),
    )


def _member_of(operation_id: str, summary: str) -> Operation:
    return extend_schema(
        operation_id=operation_id,
        tags=TAGS,
        summary=summary,
        parameters=[ROLE_ID, PROJECT_HEADER, EXTENSIONS_HEADER, *PAGE],
        responses=operation_responses({200: RoleMembershipListResponse}, {400: _BAD_LISTING, 404: NO_ROLE}),
    )


describe_roles = describe(
    list=extend_schema(
        operation_id="list_roles",
        tags=TAGS,
        summary="List the roles of a project",
        parameters=[
            PROJECT_HEADER,
            *PAGE,
            OpenApiParameter("roleIds", OpenApiTypes.UUID, many=True, description="Only these; may be repeated"),
            OpenApiParameter(
                "sourceIds", OpenApiTypes.STR, many=True, description="Only roles with these ids; may be repeated"
            ),
            OpenApiParameter(
                "providerIds", OpenApiTypes.STR, many=True, description="Only roles of these providers; may be repeated"
            ),
            OpenApiParameter(
                "projectId", OpenApiTypes.STR, deprecated=True, description="Takes precedence over x-project-id"
            ),
        ],
        responses=operation_responses({200: RoleListResponse}, PROJECT_ERRORS | {400: _BAD_LISTING}),
    ),
    create=extend_schema(
        operation_id="create_role",
        tags=TAGS,
        summary="Create a role",
        parameters=[PROJECT_HEADER],
        request=CreateRoleRequest,
        responses=operation_responses(
            {201: RoleResponse},
            {
                400: f"{BAD_PROJECT}, `EmptyRoleName`, {_BAD_IDENTIFIER}",
                404: NO_PROJECT,
                409: "`RoleNameAlreadyExists`, `RoleSourceIdConflict`; with an assumed role, which owns the roles that "
                "it creates, also `RoleMembershipDepthExceeded`, `RoleMembershipLockTimeout`",
            },
        ),
    ),
    retrieve=extend_schema(
        operation_id="get_role",
        tags=TAGS,
        summary="Get a role",
        parameters=[ROLE_ID, PROJECT_HEADER],
        responses=operation_responses({200: RoleResponse}, {400: BAD_PROJECT, 404: NO_ROLE}),
    ),
    update=extend_schema(
        operation_id="update_role",
        tags=TAGS,
        summary="Update a role's name and description",
        parameters=[ROLE_ID, PROJECT_HEADER],
        request=UpdateRoleRequest,
        responses=operation_responses(
            {200: RoleResponse},
            {
                400: f"{BAD_PROJECT}, `EmptyRoleName`, {_SYSTEM_ROLE}",
                404: NO_ROLE,
                409: "`RoleNameAlreadyExists`",
            },
        ),
    ),
    destroy=extend_schema(
        operation_id="delete_role",
        tags=TAGS,
        summary="Delete a role, its memberships and its grants",
        parameters=[ROLE_ID, PROJECT_HEADER],
        responses=operation_responses(
            empty_response("Deleted"),
            {
                400: f"{BAD_PROJECT}, {_SYSTEM_ROLE}",
                403: _DENIED,
                404: NO_ROLE,
                409: f"{LAST_ADMINISTRATOR}; `RoleMembershipLockTimeout`",
            },
        ),
    ),
    update_source_system=extend_schema(
        operation_id="update_role_source_system",
        tags=TAGS,
        summary="Update the source system of a role and its id there",
        parameters=[ROLE_ID, PROJECT_HEADER],
        request=UpdateRoleSourceSystemRequest,
        responses=operation_responses(
            {200: RoleResponse},
            {
                400: f"{BAD_PROJECT}, {_BAD_IDENTIFIER}, {_SYSTEM_ROLE}",
                403: _DENIED,
                404: NO_ROLE,
                409: "`RoleSourceIdConflict`",
            },
        ),
    ),
    metadata=extend_schema(
        operation_id="get_role_metadata",
        tags=TAGS,
        summary="Get the metadata of a role of any project",
        parameters=[ROLE_ID],
        responses=operation_responses({200: RoleMetadataResponse}, {404: "`RoleIdNotFound`"}),
    ),
    search=extend_schema(
        operation_id="search_role",
        tags=TAGS,
        summary="List roles of a project by similarity of name",
        description="The best match first.",
        parameters=[PROJECT_HEADER],
        request=SearchRoleRequest,
        responses=operation_responses({200: SearchRoleResponse}, PROJECT_ERRORS | {400: _BAD_LISTING}),
    ),
)

describe_role_members = describe(
    list=_members("list_role_members", "List the direct members of a role"),
    list_transitive=_members("list_role_transitive_members", "List the direct and inherited members of a role"),
    member_of=_member_of("list_role_member_of", "List the roles that a role is a direct member of"),
    transitive_member_of=_member_of(
        "list_role_transitive_member_of", "List the direct and inherited roles that a role is in"
    ),
    create=extend_schema(
        operation_id="add_role_members",
        tags=TAGS,
        summary="Create memberships of users and roles in a role",
        description="All of them are added, or none. Existing members stay.",
        parameters=[ROLE_ID, PROJECT_HEADER],
        request=AddRoleMembersRequest,
        responses=operation_responses(
            {200: AddRoleMembersResponse},
            {
                400: f"{BAD_PROJECT}, {BAD_USER_ID}",
                403: _DENIED,
                404: f"{NO_ROLE}, `RoleAssignmentUserNotFound`",
                409: "`RoleMembershipCycle`, `RoleMembershipDepthExceeded`, `RoleMembershipLockTimeout`",
            },
        ),
    ),
    destroy=extend_schema(
        operation_id="remove_role_member",
        tags=TAGS,
        summary="Delete the membership of a user or role in a role",
        parameters=[
            ROLE_ID,
            OpenApiParameter(
                "member_type", OpenApiTypes.STR, OpenApiParameter.PATH, enum=MEMBER_TYPES, description="User or role"
            ),
            OpenApiParameter(
                "member_id",
                OpenApiTypes.STR,
                OpenApiParameter.PATH,
                description="The user's id, percent-encoded, or the role's UUID",
            ),
            PROJECT_HEADER,
        ],
        responses=operation_responses(
            empty_response("Removed, or was not a member"),
            {400: f"{BAD_PROJECT}, {BAD_USER_ID}", 403: _DENIED, 404: NO_ROLE, 409: LAST_ADMINISTRATOR},
        ),
    ),
)
