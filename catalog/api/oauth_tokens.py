"""POST /v1/oauth/tokens: short-lived tokens for clients that are configured with a credential."""

from __future__ import annotations

import logging
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl

from django.http import HttpRequest, HttpResponse
from rest_framework.views import APIView

from catalog.api.operations import oauth_tokens as operations
from icekeeper.kernel.errors.responses import error_response, to_catalog_error
from icekeeper.kernel.errors.types import MethodNotAllowed
from icekeeper.kernel.json.strict import write_json
from tenancy.authn.own_tokens.oauth import ACCESS_TOKEN_TYPE, InvalidClient, OAuthError, grant
from tenancy.authn.own_tokens.scopes import join_scopes

logger = logging.getLogger("icekeeper.errors")

FORM: Final = "application/x-www-form-urlencoded"
LARGEST_FORM: Final = 65_536
MOST_FIELDS: Final = 50


class OAuthTokensView(APIView):
    """Nobody needs to be known to ask, and nothing is changed. Errors have the form of OAuth, not of the catalog."""

    posts_read: ClassVar = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method != "POST":
            answer = error_response(MethodNotAllowed(f"{request.method} is not allowed here"))
            answer.headers["Allow"] = "POST"
            return answer
        try:
            return self.post(request)
        except OAuthError as refusal:
            return _refused(refusal)
        except Exception as error:  # noqa: BLE001 - the form of the answer is this route's own
            return _failed(error)

    @operations.get_token
    def post(self, request: HttpRequest) -> HttpResponse:
        granted = grant(_form(request), request.META.get("HTTP_AUTHORIZATION"))
        request.META["icekeeper.user"] = granted.user_id
        request.META["icekeeper.access_token"] = granted.token_id
        return _answer(
            200,
            {
                "access_token": granted.text,
                "token_type": "bearer",
                "expires_in": granted.expires_in,
                "issued_token_type": ACCESS_TOKEN_TYPE,
                "scope": join_scopes(granted.scopes),
            },
        )


def _form(request: HttpRequest) -> dict[str, str]:
    """The fields of the body; those without a value count as left out (RFC 6749 §3.2)."""
    if (request.content_type or "").lower() != FORM:
        raise OAuthError("invalid_request", f"The body must be {FORM}")
    if int(request.META.get("CONTENT_LENGTH") or 0) > LARGEST_FORM:  # before a byte of it is read
        raise OAuthError("invalid_request", f"The body is larger than {LARGEST_FORM} bytes")
    try:
        fields = parse_qsl(request.body.decode("ascii"), errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:  # also of texts that are no UTF-8
        raise OAuthError("invalid_request", "The body is malformed") from None
    form = dict(fields)
    if len(form) != len(fields):
        raise OAuthError("invalid_request", "A field is given twice")
    return form


def _refused(refusal: OAuthError) -> HttpResponse:
    logger.info("no token: %s: %s", refusal.code, refusal.description)
    answer = _answer(refusal.status, {"error": refusal.code, "error_description": refusal.description})
    if isinstance(refusal, InvalidClient):
        answer.headers["WWW-Authenticate"] = refusal.challenge
    return answer


def _failed(error: Exception) -> HttpResponse:
    """As `error_response`, which also logs it, in the form of OAuth."""
    usual = error_response(error)
    known = to_catalog_error(error)
    code = "invalid_request" if usual.status_code < 500 else "server_error"  # noqa: PLR2004
    message = known.message if known is not None else "The server met an unexpected error"
    answer = _answer(usual.status_code, {"error": code, "error_description": message})
    if "Retry-After" in usual.headers:
        answer.headers["Retry-After"] = usual.headers["Retry-After"]
    return answer


def _answer(status: int, content: dict[str, Any]) -> HttpResponse:
    headers = {"Cache-Control": "no-store", "Pragma": "no-cache"}
    return HttpResponse(write_json(content), content_type="application/json", status=status, headers=headers)
