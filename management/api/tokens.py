"""Access tokens: people make their own, and those who may provision users make those of service accounts."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.clock import now
from icekeeper.kernel.http.paging import listing_key
from icekeeper.kernel.http.raw_path import decode_segment
from icekeeper.kernel.http.serializers import KebabSerializer, Number, Text, empty_response, operation_responses
from icekeeper.kernel.ids import parse_id
from management.api.base import BAD_PAGE, PAGE, ManagementView
from tenancy.authn.own_tokens.scopes import ALL
from tenancy.models import AccessToken
from tenancy.selectors.access_tokens import AccessTokenNotFound, get_access_token_for, list_access_tokens_for
from tenancy.services.access_tokens import (
    MAX_OVERLAP_SECONDS,
    USUAL_OVERLAP_SECONDS,
    IssuedToken,
    create_token,
    revoke_token,
    rotate_token,
)

TAGS = ["token"]
NOBODY: Final = "`AuthenticationRequired`: nobody is known who asks, or authentication is off"
MISSING: Final = "`AccessTokenNotFound`"
NOT_ALLOWED: Final = "`ServerActionForbidden`: somebody else's, and the right to it on the server is missing"
NOT_HANDED_ON: Final = (
    f"{NOT_ALLOWED}; `ForbiddenException`: another person's, or a short-lived token asks; "
    "`GrantActionForbidden`, `InstanceAdminRequired`: of an account that administrates what the caller may not appoint "
    "administrators of; "
    "`InsufficientScope`: more than the token has that asks"
)
NOT_ACCEPTED: Final = "`AccessTokensNotAccepted`: `ICEKEEPER__ACCESS_TOKENS` is false"
ENDED: Final = "`AuthenticationFailed`: the token that asks has just ended"
TOKEN_ID = OpenApiParameter("token_id", OpenApiTypes.UUID, OpenApiParameter.PATH, description="Its `id`")


class CreateTokenRequest(KebabSerializer):
    name = Text(help_text="For people: what it is used for, at most 255 characters")
    user_id = Text(
        required=False, allow_null=True, help_text="A service account, `icekeeper~<uuid>`; default: the caller"
    )
    scopes = serializers.ListField(
        child=Text(),
        required=False,
        allow_null=True,
        help_text=f"Of {', '.join(f'`{scope}`' for scope in ALL)}; default: `catalog` and `management`, as far as the "
        "token that asks has them",
    )
    expires_in_seconds = Number(
        required=False,
        allow_null=True,
        min_value=1,
        help_text="Its life; default: `ICEKEEPER__ACCESS_TOKEN_DEFAULT_LIFETIME`, 90 days; at most "
        "`ICEKEEPER__ACCESS_TOKEN_MAX_LIFETIME`. One that is made with another token of its user ends with that one at "
        "the latest",
    )
    expires_at = serializers.DateTimeField(
        required=False, allow_null=True, help_text="Its end, instead of `expires-in-seconds`"
    )


class RotateTokenRequest(KebabSerializer):
    overlap_seconds = Number(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=MAX_OVERLAP_SECONDS,
        help_text=f"How long the old token goes on working; default: {USUAL_OVERLAP_SECONDS}",
    )


class AccessTokenResponse(KebabSerializer):
    id = serializers.UUIDField()
    user_id = Text(help_text="Whom it speaks for")
    name = Text()
    prefix = Text(help_text="How the token begins: by this a token that was found somewhere is recognised")
    scopes = serializers.ListField(child=serializers.ChoiceField(ALL))
    status = serializers.ChoiceField(
        ["active", "replaced", "expired", "revoked"],
        help_text="`replaced`: it was rotated, and works until `expires-at`",
    )
    created_at = serializers.DateTimeField()
    created_by = Text(help_text="A user's id, or `internal` for commands of the server")
    created_with = serializers.UUIDField(allow_null=True, help_text="The token that it was made with, if with one")
    expires_at = serializers.DateTimeField()
    not_after = serializers.DateTimeField(
        allow_null=True,
        help_text="No rotation gives it a later end: that of the token of the same user that it was made with",
    )
    last_used_at = serializers.DateTimeField(allow_null=True, help_text="Half a minute late at most")
    revoked_at = serializers.DateTimeField(allow_null=True)
    replaced_by = serializers.UUIDField(allow_null=True, help_text="The token that it was rotated to")


class CreatedTokenResponse(AccessTokenResponse):
    token = Text(help_text="The token itself. It is stored nowhere and never told again")


class TokenListResponse(KebabSerializer):
    tokens = AccessTokenResponse(many=True)
    next_page_token = Text(required=False, help_text="Left out on the last page")


def token_json(token: AccessToken) -> dict[str, Any]:
    return {
        "id": str(token.pk),
        "user-id": token.user_id,
        "name": token.name,
        "prefix": token.prefix,
        "scopes": token.scopes.split(),
        "status": _status(token),
        "created-at": token.created_at,
        "created-by": token.created_by,
        "created-with": token.created_with,
        "expires-at": token.expires_at,
        "not-after": token.not_after,
        "last-used-at": token.last_used_at,
        "revoked-at": token.revoked_at,
        "replaced-by": token.replaced_by_id,
    }


def _status(token: AccessToken) -> str:
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at <= now():
        return "expired"
    return "active" if token.replaced_by_id is None else "replaced"


def _told_once(issued: IssuedToken) -> Response:
    content = token_json(issued.row) | {"token": issued.text}
    return Response(content, status=201, headers={"Cache-Control": "no-store"})


class TokensView(ManagementView):
    @extend_schema(
        operation_id="list_tokens",
        tags=TAGS,
        summary="The access tokens of a user, those that have ended included",
        parameters=[
            OpenApiParameter("userId", OpenApiTypes.STR, description="Default: the caller"),
            *PAGE,
        ],
        responses=operation_responses({200: TokenListResponse}, {400: BAD_PAGE, 401: NOBODY, 403: NOT_ALLOWED}),
    )
    def get(self, request: Request) -> Response:
        user_id = request.GET.get("userId")
        page = self.page(listing_key("tokens", user_id if user_id is not None else self.actor.user_id))
        tokens, next_token = list_access_tokens_for(actor=self.actor, user_id=user_id, page=page)
        answer: dict[str, Any] = {"tokens": [token_json(token) for token in tokens]}
        if next_token is not None:
            answer["next-page-token"] = next_token
        return Response(answer)

    @extend_schema(
        operation_id="create_token",
        tags=TAGS,
        summary="Make an access token; the answer is the only place where it is told",
        request=CreateTokenRequest,
        responses=operation_responses(
            {201: CreatedTokenResponse},
            {
                400: "`InvalidScope`",
                401: f"{NOBODY}; {ENDED}",
                403: NOT_HANDED_ON,
                404: "`UserNotFound`",
                409: "`TooManyAccessTokens`",
                412: NOT_ACCEPTED,
                413: "`PayloadTooLargeException`",
            },
        ),
    )
    def post(self, request: Request) -> Response:
        body = self.body(CreateTokenRequest)
        issued = create_token(
            actor=self.actor,
            name=body["name"],
            user_id=body.get("user_id"),
            scopes=body.get("scopes"),
            expires_in=body.get("expires_in_seconds"),
            expires_at=body.get("expires_at"),
        )
        return _told_once(issued)


class OneTokenView(ManagementView):
    @property
    def token_id(self) -> UUID:
        """Of the token in the path. What is no id is not repeated: somebody may have put a token there."""
        token_id = parse_id(decode_segment(self.kwargs["token_id"]))
        if token_id is None:
            raise AccessTokenNotFound("Access token does not exist: its address is its id")
        return token_id


class TokenView(OneTokenView):
    @extend_schema(
        operation_id="get_token",
        tags=TAGS,
        summary="What is known of an access token",
        parameters=[TOKEN_ID],
        responses=operation_responses({200: AccessTokenResponse}, {401: NOBODY, 403: NOT_ALLOWED, 404: MISSING}),
    )
    def get(self, request: Request, token_id: str) -> Response:
        return Response(token_json(get_access_token_for(actor=self.actor, token_id=self.token_id)))

    @extend_schema(
        operation_id="revoke_token",
        tags=TAGS,
        summary="Revoke an access token: it is refused from now on, by other servers after 5 s at the latest",
        parameters=[TOKEN_ID],
        responses=operation_responses(
            empty_response("Revoked, or it was already"), {401: NOBODY, 403: NOT_ALLOWED, 404: MISSING}
        ),
    )
    def delete(self, request: Request, token_id: str) -> Response:
        revoke_token(actor=self.actor, token_id=self.token_id)
        return Response(status=204)


class TokenRotationView(OneTokenView):
    @extend_schema(
        operation_id="rotate_token",
        tags=TAGS,
        summary="Make a new access token in place of another, which goes on working for a while",
        parameters=[TOKEN_ID],
        request=RotateTokenRequest,
        responses=operation_responses(
            {201: CreatedTokenResponse},
            {
                401: f"{NOBODY}; {ENDED}",
                403: NOT_HANDED_ON,
                404: f"{MISSING}, `UserNotFound`",
                409: "`AccessTokenEnded`, `TooManyAccessTokens`",
                412: NOT_ACCEPTED,
                413: "`PayloadTooLargeException`",
            },
        ),
    )
    def post(self, request: Request, token_id: str) -> Response:
        overlap = self.body(RotateTokenRequest).get("overlap_seconds")
        overlap = USUAL_OVERLAP_SECONDS if overlap is None else overlap
        return _told_once(rotate_token(actor=self.actor, token_id=self.token_id, overlap_seconds=overlap))
