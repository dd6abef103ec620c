"""OpenAPI descriptions of the operations on access tokens and service accounts."""

from __future__ import annotations

from typing import Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema

from icekeeper.kernel.http.serializers import empty_response, operation_responses
from management.api.schema import BAD_PAGE, LAST_ADMINISTRATOR, PAGE, TOO_LARGE, describe, path_parameter
from management.api.tokens.serializers import (
    AccessTokenResponse,
    CreatedTokenResponse,
    CreateServiceAccountRequest,
    CreateTokenRequest,
    RotateTokenRequest,
    ServiceAccountListResponse,
    ServiceAccountResponse,
    TokenListResponse,
)

TAGS = ["token"]
_ANONYMOUS: Final = "`AuthenticationRequired`: the caller is anonymous, or authentication is off"
_EXPIRED: Final = "`AuthenticationFailed`: the caller's token has just expired or been revoked"
_MISSING: Final = "`AccessTokenNotFound`"
_DENIED: Final = "`ServerActionForbidden`"
_OF_ANOTHER_USER: Final = f"{_DENIED}: the token of another user needs a permission on the server"
_NOT_CREATED: Final = (
    f"{_OF_ANOTHER_USER}; `ForbiddenException`: for another human user, or with a short-lived token; "
    "`GrantActionForbidden`, `InstanceAdminRequired`: the account is an administrator of something that the caller may "
    "not appoint administrators of; `InsufficientScope`: scopes that the caller's token does not have"
)
_NOT_ACCEPTED: Final = "`AccessTokensNotAccepted`: `ICEKEEPER__ACCESS_TOKENS` is false"
_TOKEN_ID: Final = path_parameter("token_id", "The token's `id`")

describe_tokens = describe(
    list=extend_schema(
        operation_id="list_tokens",
        tags=TAGS,
        summary="List the access tokens of a user",
        description="Expired and revoked tokens are included.",
        parameters=[OpenApiParameter("userId", OpenApiTypes.STR, description="Default: the caller"), *PAGE],
        responses=operation_responses(
            {200: TokenListResponse}, {400: BAD_PAGE, 401: _ANONYMOUS, 403: _OF_ANOTHER_USER}
        ),
    ),
    create=extend_schema(
        operation_id="create_token",
        tags=TAGS,
        summary="Create an access token",
        description="Only this response contains the token itself.",
        request=CreateTokenRequest,
        responses=operation_responses(
            {201: CreatedTokenResponse},
            {
                400: "`InvalidScope`",
                401: f"{_ANONYMOUS}; {_EXPIRED}",
                403: _NOT_CREATED,
                404: "`UserNotFound`",
                409: "`TooManyAccessTokens`",
                412: _NOT_ACCEPTED,
                413: TOO_LARGE,
            },
        ),
    ),
    retrieve=extend_schema(
        operation_id="get_token",
        tags=TAGS,
        summary="Get an access token",
        parameters=[_TOKEN_ID],
        responses=operation_responses(
            {200: AccessTokenResponse}, {401: _ANONYMOUS, 403: _OF_ANOTHER_USER, 404: _MISSING}
        ),
    ),
    destroy=extend_schema(
        operation_id="revoke_token",
        tags=TAGS,
        summary="Revoke an access token",
        description="This server rejects it at once, other servers after 5 seconds at the latest.",
        parameters=[_TOKEN_ID],
        responses=operation_responses(
            empty_response("Revoked, or already was"), {401: _ANONYMOUS, 403: _OF_ANOTHER_USER, 404: _MISSING}
        ),
    ),
    rotate=extend_schema(
        operation_id="rotate_token",
        tags=TAGS,
        summary="Rotate an access token",
        description="Creates a token that replaces it; the old one stays valid for `overlap-seconds`.",
        parameters=[_TOKEN_ID],
        request=RotateTokenRequest,
        responses=operation_responses(
            {201: CreatedTokenResponse},
            {
                401: f"{_ANONYMOUS}; {_EXPIRED}",
                403: _NOT_CREATED,
                404: f"{_MISSING}, `UserNotFound`",
                409: "`AccessTokenEnded`, `TooManyAccessTokens`",
                412: _NOT_ACCEPTED,
                413: TOO_LARGE,
            },
        ),
    ),
)

describe_service_accounts = describe(
    list=extend_schema(
        operation_id="list_service_accounts",
        tags=TAGS,
        summary="List the service accounts of the server",
        parameters=PAGE,
        responses=operation_responses(
            {200: ServiceAccountListResponse}, {400: BAD_PAGE, 401: _ANONYMOUS, 403: _DENIED}
        ),
    ),
    create=extend_schema(
        operation_id="create_service_account",
        tags=TAGS,
        summary="Create a service account",
        description="A user for an application. It has no tokens at first.",
        request=CreateServiceAccountRequest,
        responses=operation_responses(
            {201: ServiceAccountResponse},
            {401: _ANONYMOUS, 403: _DENIED, 409: "`ServiceAccountAlreadyExists`", 413: TOO_LARGE},
        ),
    ),
    destroy=extend_schema(
        operation_id="delete_service_account",
        tags=TAGS,
        summary="Delete a service account, its tokens and its grants",
        parameters=[path_parameter("account_id", "The account's `id`, or its UUID", OpenApiTypes.STR)],
        responses=operation_responses(
            empty_response("Deleted"),
            {401: _ANONYMOUS, 403: _DENIED, 404: "`ServiceAccountNotFound`", 409: LAST_ADMINISTRATOR},
        ),
    ),
)
