"""Requests and responses about access tokens and service accounts."""

from __future__ import annotations

from rest_framework import serializers

from icekeeper.kernel.clock import now
from management.api.serializers import LAST_PAGE, KebabSerializer, Number, ResponseSerializer, Text
from tenancy.actor import SCOPES
from tenancy.models import AccessToken
from tenancy.services.access_tokens import DEFAULT_OVERLAP_SECONDS, MAX_OVERLAP_SECONDS

_CREATED_BY = "A user's id, or `internal` for commands of the server"


class CreateTokenRequest(KebabSerializer):
    name = Text(help_text="The purpose of the token, for humans; at most 255 characters")
    user_id = Text(
        required=False, allow_null=True, help_text="A service account, `icekeeper~<uuid>`; default: the caller"
    )
    scopes = serializers.ListField(
        child=Text(),
        required=False,
        allow_null=True,
        help_text=f"Of {', '.join(f'`{scope}`' for scope in SCOPES)}; default: `catalog` and `management`, limited to "
        "the scopes of the token that sends the request",
    )
    expires_in_seconds = Number(
        required=False,
        allow_null=True,
        min_value=1,
        help_text="The lifetime; default: `ICEKEEPER__ACCESS_TOKEN_DEFAULT_LIFETIME`, 90 days; at most "
        "`ICEKEEPER__ACCESS_TOKEN_MAX_LIFETIME`. A token that is created with another token of the same user does not "
        "outlive that token",
    )
    expires_at = serializers.DateTimeField(
        required=False, allow_null=True, help_text="The expiry, instead of `expires-in-seconds`"
    )


class RotateTokenRequest(KebabSerializer):
    overlap_seconds = Number(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=MAX_OVERLAP_SECONDS,
        help_text=f"How long the old token stays valid; default: {DEFAULT_OVERLAP_SECONDS}",
    )


class AccessTokenResponse(ResponseSerializer):
    id = serializers.UUIDField(source="pk")
    user_id = Text(help_text="The user that the token authenticates")
    name = Text()
    prefix = Text(help_text="The first characters of the token, by which a leaked token is identified")
    scopes = serializers.ListField(child=serializers.ChoiceField(SCOPES))
    status = serializers.ChoiceField(
        ["active", "replaced", "expired", "revoked"],
        help_text="`replaced`: the token was rotated and stays valid until `expires-at`",
    )
    created_at = serializers.DateTimeField()
    created_by = Text(help_text=_CREATED_BY)
    created_with = serializers.UUIDField(allow_null=True, help_text="The token that created this one, if any")
    expires_at = serializers.DateTimeField()
    not_after = serializers.DateTimeField(
        allow_null=True,
        help_text="The latest expiry of its rotations: the expiry of the same user's token that created it",
    )
    last_used_at = serializers.DateTimeField(allow_null=True, help_text="Updated with a delay of at most 30 seconds")
    revoked_at = serializers.DateTimeField(allow_null=True)
    replaced_by = serializers.UUIDField(
        source="replaced_by_id", allow_null=True, help_text="The token that the rotation created"
    )

    def render_scopes(self, token: AccessToken) -> list[str]:
        return token.scopes.split()

    def render_status(self, token: AccessToken) -> str:
        if token.revoked_at is not None:
            return "revoked"
        if token.expires_at <= now():
            return "expired"
        return "active" if token.replaced_by_id is None else "replaced"


class CreatedTokenResponse(AccessTokenResponse):
    # `token`, the text, is in the context.
    token = Text(help_text="The token itself. It is not stored and cannot be read again")

    def render_token(self, token: AccessToken) -> str:
        text: str = self.context["token"]
        return text


class TokenListResponse(ResponseSerializer):
    tokens = AccessTokenResponse(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)


class CreateServiceAccountRequest(KebabSerializer):
    name = Text(help_text="Unique, at most 255 characters")
    description = Text(required=False, allow_null=True, allow_blank=True, help_text="At most 1,000 characters")


class ServiceAccountResponse(ResponseSerializer):
    id = Text(source="user_id", help_text="The user id, `icekeeper~<uuid>`; also the client id of OAuth clients")
    name = Text()
    description = Text(allow_blank=True)
    created_at = serializers.DateTimeField()
    created_by = Text(help_text=_CREATED_BY)


class ServiceAccountListResponse(ResponseSerializer):
    service_accounts = ServiceAccountResponse(many=True)
    next_page_token = Text(required=False, help_text=LAST_PAGE)
