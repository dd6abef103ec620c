"""OpenAPI descriptions of the operations on access tokens and service accounts."""

from __future__ import annotations

from functools import partial
from typing import Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from icekeeper.kernel.http.openapi import empty_response
from management.api.schema import BAD_PAGE, LAST_ADMINISTRATOR, PAGE, TOO_LARGE, describe, operation, path_parameter
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

_operation = partial(operation, tag="token")
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
    list=_operation(
        "list_tokens",
        "List the access tokens of a user",
        description="Expired and revoked tokens are included.",
        parameters=[OpenApiParameter("userId", OpenApiTypes.STR, description="Default: the caller"), *PAGE],
        success={200: TokenListResponse},
        errors={400: BAD_PAGE, 401: _ANONYMOUS, 403: _OF_ANOTHER_USER},
    ),
    create=_operation(
        "create_token",
        "Create an access token",
        description="Only this response contains the token itself.",
        request=CreateTokenRequest,
        success={201: CreatedTokenResponse},
        errors={
            400: "`InvalidScope`",
            401: f"{_ANONYMOUS}; {_EXPIRED}",
            403: _NOT_CREATED,
            404: "`UserNotFound`",
            409: "`TooManyAccessTokens`",
            412: _NOT_ACCEPTED,
            413: TOO_LARGE,
        },
    ),
    retrieve=_operation(
        "get_token",
        "Get an access token",
        parameters=[_TOKEN_ID],
        success={200: AccessTokenResponse},
        errors={401: _ANONYMOUS, 403: _OF_ANOTHER_USER, 404: _MISSING},
    ),
    destroy=_operation(
        "revoke_token",
        "Revoke an access token",
        description="This server rejects it at once, other servers after 5 seconds at the latest.",
        parameters=[_TOKEN_ID],
        success=empty_response("Revoked, or already was"),
        errors={401: _ANONYMOUS, 403: _OF_ANOTHER_USER, 404: _MISSING},
    ),
    rotate=_operation(
        "rotate_token",
        "Rotate an access token",
        description="Creates a token that replaces it; the old one stays valid for `overlap-seconds`.",
        parameters=[_TOKEN_ID],
        request=RotateTokenRequest,
        success={201: CreatedTokenResponse},
        errors={
            401: f"{_ANONYMOUS}; {_EXPIRED}",
            403: _NOT_CREATED,
            404: f"{_MISSING}, `UserNotFound`",
            409: "`AccessTokenEnded`, `TooManyAccessTokens`",
            412: _NOT_ACCEPTED,
            413: TOO_LARGE,
        },
    ),
)

describe_service_accounts = describe(
    list=_operation(
        "list_service_accounts",
        "List the service accounts of the server",
        parameters=PAGE,
        success={200: ServiceAccountListResponse},
        errors={400: BAD_PAGE, 401: _ANONYMOUS, 403: _DENIED},
    ),
    create=_operation(
        "create_service_account",
        "Create a service account",
        description="A user for an application. It has no tokens at first.",
        request=CreateServiceAccountRequest,
        success={201: ServiceAccountResponse},
        errors={401: _ANONYMOUS, 403: _DENIED, 409: "`ServiceAccountAlreadyExists`", 413: TOO_LARGE},
    ),
    destroy=_operation(
        "delete_service_account",
        "Delete a service account, its tokens and its grants",
        parameters=[path_parameter("account_id", "The account's `id`, or its UUID", OpenApiTypes.STR)],
        success=empty_response("Deleted"),
        errors={401: _ANONYMOUS, 403: _DENIED, 404: "`ServiceAccountNotFound`", 409: LAST_ADMINISTRATOR},
    ),
)
