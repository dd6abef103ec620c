"""OpenAPI descriptions of the operations on roles and their members."""

from __future__ import annotations

from functools import partial

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from icekeeper.kernel.http.openapi import empty_response
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
    describe,
    operation,
)

_operation = partial(operation, tag="role")
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
_members = partial(
    _operation,
    parameters=[ROLE_ID, PROJECT_HEADER, EXTENSIONS_HEADER, _TYPE, *PAGE],
    success={200: RoleMemberListResponse},
    errors={400: _BAD_LISTING, 404: NO_ROLE},
)
_member_of = partial(
    _operation,
    parameters=[ROLE_ID, PROJECT_HEADER, EXTENSIONS_HEADER, *PAGE],
    success={200: RoleMembershipListResponse},
    errors={400: _BAD_LISTING, 404: NO_ROLE},
)

describe_roles = describe(
    list=_operation(
        "list_roles",
        "List the roles of a project",
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
        success={200: RoleListResponse},
        errors=PROJECT_ERRORS | {400: _BAD_LISTING},
    ),
    create=_operation(
        "create_role",
        "Create a role",
        parameters=[PROJECT_HEADER],
        request=CreateRoleRequest,
        success={201: RoleResponse},
        errors={
            400: f"{BAD_PROJECT}, `EmptyRoleName`, {_BAD_IDENTIFIER}",
            404: NO_PROJECT,
            409: "`RoleNameAlreadyExists`, `RoleSourceIdConflict`; with an assumed role, which owns the roles that "
            "it creates, also `RoleMembershipDepthExceeded`, `RoleMembershipLockTimeout`",
        },
    ),
    retrieve=_operation(
        "get_role",
        "Get a role",
        parameters=[ROLE_ID, PROJECT_HEADER],
        success={200: RoleResponse},
        errors={400: BAD_PROJECT, 404: NO_ROLE},
    ),
    update=_operation(
        "update_role",
        "Update a role's name and description",
        parameters=[ROLE_ID, PROJECT_HEADER],
        request=UpdateRoleRequest,
        success={200: RoleResponse},
        errors={400: f"{BAD_PROJECT}, `EmptyRoleName`, {_SYSTEM_ROLE}", 404: NO_ROLE, 409: "`RoleNameAlreadyExists`"},
    ),
    destroy=_operation(
        "delete_role",
        "Delete a role, its memberships and its grants",
        parameters=[ROLE_ID, PROJECT_HEADER],
        success=empty_response("Deleted"),
        errors={
            400: f"{BAD_PROJECT}, {_SYSTEM_ROLE}",
            403: _DENIED,
            404: NO_ROLE,
            409: f"{LAST_ADMINISTRATOR}; `RoleMembershipLockTimeout`",
        },
    ),
    update_source_system=_operation(
        "update_role_source_system",
        "Update the source system of a role and its id there",
        parameters=[ROLE_ID, PROJECT_HEADER],
        request=UpdateRoleSourceSystemRequest,
        success={200: RoleResponse},
        errors={
            400: f"{BAD_PROJECT}, {_BAD_IDENTIFIER}, {_SYSTEM_ROLE}",
            403: _DENIED,
            404: NO_ROLE,
            409: "`RoleSourceIdConflict`",
        },
    ),
    metadata=_operation(
        "get_role_metadata",
        "Get the metadata of a role of any project",
        parameters=[ROLE_ID],
        success={200: RoleMetadataResponse},
        errors={404: "`RoleIdNotFound`"},
    ),
    search=_operation(
        "search_role",
        "List roles of a project by similarity of name",
        description="The best match first.",
        parameters=[PROJECT_HEADER],
        request=SearchRoleRequest,
        success={200: SearchRoleResponse},
        errors=PROJECT_ERRORS | {400: _BAD_LISTING},
    ),
)

describe_role_members = describe(
    list=_members("list_role_members", "List the direct members of a role"),
    list_transitive=_members("list_role_transitive_members", "List the direct and inherited members of a role"),
    member_of=_member_of("list_role_member_of", "List the roles that a role is a direct member of"),
    transitive_member_of=_member_of(
        "list_role_transitive_member_of", "List the direct and inherited roles that a role is in"
    ),
    create=_operation(
        "add_role_members",
        "Create memberships of users and roles in a role",
        description="All of them are added, or none. Existing members stay.",
        parameters=[ROLE_ID, PROJECT_HEADER],
        request=AddRoleMembersRequest,
        success={200: AddRoleMembersResponse},
        errors={
            400: f"{BAD_PROJECT}, {BAD_USER_ID}",
            403: _DENIED,
            404: f"{NO_ROLE}, `RoleAssignmentUserNotFound`",
            409: "`RoleMembershipCycle`, `RoleMembershipDepthExceeded`, `RoleMembershipLockTimeout`",
        },
    ),
    destroy=_operation(
        "remove_role_member",
        "Delete the membership of a user or role in a role",
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
        success=empty_response("Removed, or was not a member"),
        errors={400: f"{BAD_PROJECT}, {BAD_USER_ID}", 403: _DENIED, 404: NO_ROLE, 409: LAST_ADMINISTRATOR},
    ),
)
