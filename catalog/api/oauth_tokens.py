"""OAuth: exchange the credential of a client for a short-lived access token."""

from __future__ import annotations

import logging
from typing import Annotated, Any, ClassVar, Final, Literal, NotRequired, TypedDict
from urllib.parse import parse_qsl

from django.http import HttpRequest, HttpResponse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSetMixin

from icekeeper.kernel.errors.responses import error_response, to_catalog_error
from icekeeper.kernel.errors.types import MethodNotAllowed
from icekeeper.kernel.json.shapes import Body, Keywords
from icekeeper.kernel.json.strict import write_json
from tenancy.actor import SCOPES, join_scopes
from tenancy.authn.own_tokens.oauth import (
    ACCESS_TOKEN_TYPE,
    CLIENT_CREDENTIALS,
    OTHER_TYPES,
    OWN_TYPES,
    TOKEN_EXCHANGE,
    InvalidClient,
    OAuthError,
    grant,
)

logger = logging.getLogger("icekeeper.errors")

FORM: Final = "application/x-www-form-urlencoded"
MAX_FORM_BYTES: Final = 65_536
MAX_FIELDS: Final = 50

TokenType = Annotated[str, Keywords(enum=sorted(OWN_TYPES | OTHER_TYPES))]


class OAuthTokenRequest(TypedDict):
    """Client credentials (RFC 6749 §4.4) or token exchange (RFC 8693). No field may be given twice."""

    grant_type: Annotated[str, Keywords(enum=[CLIENT_CREDENTIALS, TOKEN_EXCHANGE])]
    scope: NotRequired[
        Annotated[str, f"Of {', '.join(f'`{scope}`' for scope in SCOPES)}, separated by spaces; default: all"]
    ]
    client_id: NotRequired[
        Annotated[
            str,
            "The id of a service account, with or without `icekeeper~`, of another user, or of the token. Id and "
            "secret may be sent as HTTP Basic instead",
        ]
    ]
    client_secret: NotRequired[Annotated[str, "An access token of the management API"]]
    subject_token: NotRequired[Annotated[str, "Token exchange: the token of this server to renew"]]
    subject_token_type: NotRequired[TokenType]
    actor_token: NotRequired[Annotated[str, "Token exchange: must be valid, and changes nothing"]]
    actor_token_type: NotRequired[TokenType]
    requested_token_type: NotRequired[TokenType]


class OAuthTokenResponse(TypedDict):
    access_token: Annotated[str, "For `Authorization: Bearer`"]
    token_type: Literal["bearer"]
    expires_in: Annotated[int, "Seconds"]
    issued_token_type: Annotated[str, Keywords(enum=[ACCESS_TOKEN_TYPE])]
    scope: Annotated[str, "The scopes of the token, maybe fewer than requested"]


class OAuthErrorDocument(TypedDict):
    error: Annotated[str, "The code of the error"]
    error_description: NotRequired[Annotated[str, "Description of the error"]]


_ERRORS: Final[dict[int | str, str]] = {
    400: "`invalid_request`, `invalid_scope`, `unsupported_grant_type`: also where the server issues no tokens",
    401: "`invalid_client`",
    408: "`invalid_request`: the request arrived too slowly",
    500: "`server_error`",
    503: "`server_error`: too many requests, retry after `Retry-After`",
    "4XX": "Another error of the request",
    "5XX": "Another error of the server",
}


class OAuthTokenViewSet(ViewSetMixin, APIView):
    """No caller is authenticated, and nothing is changed. Errors have the form of OAuth, not of the catalog."""

    posts_read: ClassVar = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method != "POST":
            response = error_response(MethodNotAllowed(f"{request.method} is not allowed here"))
            response.headers["Allow"] = "POST"
            return response
        try:
            return self.issue_token(request)
        except OAuthError as error:
            return _oauth_error(error)
        except Exception as error:  # noqa: BLE001 - the form of the response is this route's own
            return _other_error(error)

    @extend_schema(
        operation_id="getToken",
        tags=["OAuth2 API"],
        summary="Exchange a credential for a token that is valid for an hour",
        request={FORM: Body.of(OAuthTokenRequest)},
        responses={
            200: OpenApiResponse(Body.of(OAuthTokenResponse), "The token; caches must not store it"),
            **{status: OpenApiResponse(Body.of(OAuthErrorDocument), text) for status, text in _ERRORS.items()},
        },
    )
    def issue_token(self, request: HttpRequest) -> HttpResponse:
        granted = grant(_form(request), request.META.get("HTTP_AUTHORIZATION"))
        request.META["icekeeper.user"] = granted.user_id
        request.META["icekeeper.access_token"] = granted.token_id
        token: OAuthTokenResponse = {
            "access_token": granted.text,
            "token_type": "bearer",
            "expires_in": granted.expires_in,
            "issued_token_type": ACCESS_TOKEN_TYPE,
            "scope": join_scopes(granted.scopes),
        }
        return _response(200, token)


def _form(request: HttpRequest) -> dict[str, str]:
    """Return the fields of the body; those without a value count as absent (RFC 6749 §3.2)."""
    if (request.content_type or "").lower() != FORM:
        raise OAuthError("invalid_request", f"The body must be {FORM}")
    if int(request.META.get("CONTENT_LENGTH") or 0) > MAX_FORM_BYTES:  # before a byte of it is read
        raise OAuthError("invalid_request", f"The body is larger than {MAX_FORM_BYTES} bytes")
    try:
        fields = parse_qsl(request.body.decode("ascii"), errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError:  # also of texts that are no UTF-8
        raise OAuthError("invalid_request", "The body is malformed") from None
    form = dict(fields)
    if len(form) != len(fields):
        raise OAuthError("invalid_request", "A field is given twice")
    return form


def _oauth_error(error: OAuthError) -> HttpResponse:
    logger.info("no token: %s: %s", error.code, error.description)
    response = _response(error.status, _body(error.code, error.description))
    if isinstance(error, InvalidClient):
        response.headers["WWW-Authenticate"] = error.challenge
    return response


def _other_error(error: Exception) -> HttpResponse:
    """Return an error that is not OAuth's own as `error_response` does, which also logs it, in the form of OAuth."""
    usual = error_response(error)
    known = to_catalog_error(error)
    code = "invalid_request" if usual.status_code < 500 else "server_error"  # noqa: PLR2004
    message = known.message if known is not None else "Unexpected error of the server"
    response = _response(usual.status_code, _body(code, message))
    if "Retry-After" in usual.headers:
        response.headers["Retry-After"] = usual.headers["Retry-After"]
    return response


def _body(code: str, description: str) -> OAuthErrorDocument:
    return {"error": code, "error_description": description}


def _response(status: int, content: OAuthTokenResponse | OAuthErrorDocument) -> HttpResponse:
    headers = {"Cache-Control": "no-store", "Pragma": "no-cache"}
    return HttpResponse(write_json(content), content_type="application/json", status=status, headers=headers)
