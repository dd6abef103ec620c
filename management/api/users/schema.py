"""OpenAPI descriptions of the operations on users."""

from __future__ import annotations

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema

from icekeeper.kernel.http.serializers import empty_response, operation_responses
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
    Operation,
    describe,
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

TAGS = ["user"]
_NAMED = "`ServiceAccountIsNamed`: name and type of a service account do not change"
_DENIED = "Not allowed"


def _roles(operation_id: str, summary: str) -> Operation:
    return extend_schema(
        operation_id=operation_id,
        tags=TAGS,
        summary=summary,
        parameters=[USER_ID, PROJECT_HEADER, EXTENSIONS_HEADER, *PAGE],
        responses=operation_responses(
            {200: RoleMembershipListResponse},
            {400: f"{BAD_PROJECT}, {BAD_PAGE}, {BAD_USER_ID}", 404: f"{NO_USER}, {NO_PROJECT}"},
        ),
    )


describe_users = describe(
    list=extend_schema(
        operation_id="list_user",
        tags=TAGS,
        summary="List users",
        parameters=[
            OpenApiParameter("name", OpenApiTypes.STR, description="Only names that contain this, case-insensitive"),
            *PAGE,
            EXTENSIONS_HEADER,
        ],
        responses=operation_responses({200: UserListResponse}, {400: BAD_PAGE, 403: _DENIED}),
    ),
    create=extend_schema(
        operation_id="create_user",
        tags=TAGS,
        summary="Create a user: register the caller, or provision another",
        request=CreateUserRequest,
        responses=operation_responses(
            {200: UserResponse, 201: UserResponse},
            {
                400: f"{BAD_USER_ID}, `MissingUserId`, `MissingUserName`, `MissingUserType`, `EmptyName`, {_NAMED}",
                403: _DENIED,
                409: "`UserAlreadyExists`",
            },
        ),
    ),
    retrieve=extend_schema(
        operation_id="get_user",
        tags=TAGS,
        summary="Get a user",
        parameters=[USER_ID, EXTENSIONS_HEADER],
        responses=operation_responses({200: ListedUser}, {400: BAD_USER_ID, 403: _DENIED, 404: NO_USER}),
    ),
    update=extend_schema(
        operation_id="update_user",
        tags=TAGS,
        summary="Update a user's name, email and type",
        parameters=[USER_ID],
        request=UpdateUserRequest,
        responses=operation_responses(
            empty_response("Updated", status=200),
            {400: f"{BAD_USER_ID}, `EmptyName`, {_NAMED}", 403: _DENIED, 404: NO_USER},
        ),
    ),
    destroy=extend_schema(
        operation_id="delete_user",
        tags=TAGS,
        summary="Delete a user, their memberships and their grants",
        parameters=[USER_ID],
        responses=operation_responses(
            empty_response("Deleted"), {400: BAD_USER_ID, 403: _DENIED, 404: NO_USER, 409: LAST_ADMINISTRATOR}
        ),
    ),
    search=extend_schema(
        operation_id="search_user",
        tags=TAGS,
        summary="List users by similarity of name or email",
        description="The best match first. Callers without the permission to list users get at most "
        f"{DEFAULT_HITS} hits, none for an empty text, and no further pages.",
        parameters=[EXTENSIONS_HEADER],
        request=SearchUserRequest,
        responses=operation_responses({200: SearchUserResponse}, {400: BAD_PAGE, 403: "A further page is not allowed"}),
    ),
    whoami=extend_schema(
        operation_id="whoami",
        tags=TAGS,
        summary="Get the calling user",
        responses=operation_responses(
            {200: WhoamiResponse}, {401: "`GetMyUserWithoutToken`", 404: f"{NO_USER}: not registered yet"}
        ),
    ),
    roles=_roles("list_user_roles", "List a user's direct roles in a project"),
    transitive_roles=_roles("list_user_transitive_roles", "List a user's direct and inherited roles in a project"),
)
