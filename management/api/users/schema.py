"""OpenAPI descriptions of the operations on users."""

from __future__ import annotations

from functools import partial

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from icekeeper.kernel.http.openapi import empty_response
from management.api.roles.serializers import RoleMembershipListResponse
from management.api.schema import (
    BAD_PAGE,
    BAD_PROJECT,
    BAD_USER_ID,
    EXTENSIONS_HEADER,
    LAST_ADMINISTRATOR,
    NO_PROJECT,
    NO_USER,
    PAGE,
    PROJECT_HEADER,
    USER_ID,
    describe,
    operation,
)
from management.api.users.serializers import (
    CreateUserRequest,
    ListedUser,
    SearchUserRequest,
    SearchUserResponse,
    UpdateUserRequest,
    UserListResponse,
    UserResponse,
    WhoamiResponse,
)
from tenancy.selectors.similarity import DEFAULT_HITS

_operation = partial(operation, tag="user")
_NAMED = "`ServiceAccountIsNamed`: name and type of a service account do not change"
_DENIED = "Not allowed"
_roles = partial(
    _operation,
    parameters=[USER_ID, PROJECT_HEADER, EXTENSIONS_HEADER, *PAGE],
    success={200: RoleMembershipListResponse},
    errors={400: f"{BAD_PROJECT}, {BAD_PAGE}, {BAD_USER_ID}", 404: f"{NO_USER}, {NO_PROJECT}"},
)

describe_users = describe(
    list=_operation(
        "list_user",
        "List users",
        parameters=[
            OpenApiParameter("name", OpenApiTypes.STR, description="Only names that contain this, case-insensitive"),
            *PAGE,
            EXTENSIONS_HEADER,
        ],
        success={200: UserListResponse},
        errors={400: BAD_PAGE, 403: _DENIED},
    ),
    create=_operation(
        "create_user",
        "Create a user: register the caller, or provision another",
        request=CreateUserRequest,
        success={200: UserResponse, 201: UserResponse},
        errors={
            400: f"{BAD_USER_ID}, `MissingUserId`, `MissingUserName`, `MissingUserType`, `EmptyName`, {_NAMED}",
            403: _DENIED,
            409: "`UserAlreadyExists`",
        },
    ),
    retrieve=_operation(
        "get_user",
        "Get a user",
        parameters=[USER_ID, EXTENSIONS_HEADER],
        success={200: ListedUser},
        errors={400: BAD_USER_ID, 403: _DENIED, 404: NO_USER},
    ),
    update=_operation(
        "update_user",
        "Update a user's name, email and type",
        parameters=[USER_ID],
        request=UpdateUserRequest,
        success=empty_response("Updated", status=200),
        errors={400: f"{BAD_USER_ID}, `EmptyName`, {_NAMED}", 403: _DENIED, 404: NO_USER},
    ),
    destroy=_operation(
        "delete_user",
        "Delete a user, their memberships and their grants",
        parameters=[USER_ID],
        success=empty_response("Deleted"),
        errors={400: BAD_USER_ID, 403: _DENIED, 404: NO_USER, 409: LAST_ADMINISTRATOR},
    ),
    search=_operation(
        "search_user",
        "List users by similarity of name or email",
        description="The best match first. Callers without the permission to list users get at most "
        f"{DEFAULT_HITS} hits, none for an empty text, and no further pages.",
        parameters=[EXTENSIONS_HEADER],
        request=SearchUserRequest,
        success={200: SearchUserResponse},
        errors={400: BAD_PAGE, 403: "A further page is not allowed"},
    ),
    whoami=_operation(
        "whoami",
        "Get the calling user",
        success={200: WhoamiResponse},
        errors={401: "`GetMyUserWithoutToken`", 404: f"{NO_USER}: not registered yet"},
    ),
    roles=_roles("list_user_roles", "List a user's direct roles in a project"),
    transitive_roles=_roles("list_user_transitive_roles", "List a user's direct and inherited roles in a project"),
)
