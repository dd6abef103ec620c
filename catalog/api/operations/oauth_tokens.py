from __future__ import annotations

from drf_spectacular.utils import OpenApiResponse, extend_schema

from catalog.api.operations.tags import OAUTH
from catalog.api.shapes.oauth_tokens import OAuthError, OAuthTokenRequest, OAuthTokenResponse

get_token = extend_schema(
    operation_id="getToken",
    tags=OAUTH,
    summary="Trade an access token of this server for one that works for an hour",
    request={"application/x-www-form-urlencoded": OAuthTokenRequest},
    responses={
        200: OpenApiResponse(OAuthTokenResponse, "The token; not to be stored by caches"),
        **{
            status: OpenApiResponse(OAuthError, text)
            for status, text in {
                400: "`invalid_request`, `invalid_scope`, `unsupported_grant_type`: also where none are given out",
                401: "`invalid_client`",
                408: "`invalid_request`: the request came too slowly",
                500: "`server_error`",
                503: "`server_error`: too much at once, come back after `Retry-After`",
                "4XX": "Another refusal of the request",
                "5XX": "Another failure of the server",
            }.items()
        },
    },
)
