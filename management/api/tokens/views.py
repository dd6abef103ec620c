"""Access tokens and service accounts.

Users create tokens for themselves; callers who may provision users create those of service accounts.
"""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.http.paging import listing_key
from icekeeper.kernel.ids import parse_id
from management.api.base import ManagementViewSet
from management.api.tokens.schema import describe_service_accounts, describe_tokens
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
from tenancy.authz.actions import Can
from tenancy.selectors.users import (
    AccessTokenNotFound,
    ServiceAccountNotFound,
    get_access_token_for,
    list_access_tokens_for,
    list_service_accounts_for,
)
from tenancy.services.access_tokens import (
    DEFAULT_OVERLAP_SECONDS,
    IssuedToken,
    create_token,
    revoke_token,
    rotate_token,
)
from tenancy.services.users import (
    create_service_account,
    delete_service_account,
    service_account_id,
)


@describe_tokens
class TokenViewSet(ManagementViewSet):
    @property
    def token_id(self) -> UUID:
        """The id in the path. Other text is not repeated in the error: it may be a token."""
        token_id = parse_id(self.path_text("token_id"))
        if token_id is None:
            raise AccessTokenNotFound("Access token does not exist: the path must contain its id, a UUID")
        return token_id

    def list(self, request: Request) -> Response:
        user_id = request.GET.get("userId")
        page = self.page(listing_key("tokens", user_id if user_id is not None else self.actor.user_id))
        found = list_access_tokens_for(actor=self.actor, user_id=user_id, page=page)
        return self.respond_page(TokenListResponse, "tokens", found)

    def create(self, request: Request) -> Response:
        body = self.body(CreateTokenRequest)
        issued = create_token(
            actor=self.actor,
            name=body["name"],
            user_id=body.get("user_id"),
            scopes=body.get("scopes"),
            expires_in=body.get("expires_in_seconds"),
            expires_at=body.get("expires_at"),
        )
        return self._respond_issued(issued)

    def retrieve(self, request: Request, **path: str) -> Response:
        return self.respond(
            AccessTokenResponse, get_access_token_for(actor=self.actor, action=Can.UPDATE_USERS, token_id=self.token_id)
        )

    def destroy(self, request: Request, **path: str) -> Response:
        revoke_token(actor=self.actor, token_id=self.token_id)
        return Response(status=204)

    def rotate(self, request: Request, **path: str) -> Response:
        overlap = self.body(RotateTokenRequest).get("overlap_seconds")
        overlap = DEFAULT_OVERLAP_SECONDS if overlap is None else overlap
        return self._respond_issued(rotate_token(actor=self.actor, token_id=self.token_id, overlap_seconds=overlap))

    def _respond_issued(self, issued: IssuedToken) -> Response:
        response = self.respond(CreatedTokenResponse, issued.row, status=201, token=issued.text)
        response["Cache-Control"] = "no-store"
        return response


@describe_service_accounts
class ServiceAccountViewSet(ManagementViewSet):
    def list(self, request: Request) -> Response:
        found = list_service_accounts_for(actor=self.actor, page=self.page("service-accounts"))
        return self.respond_page(ServiceAccountListResponse, "service_accounts", found)

    def create(self, request: Request) -> Response:
        body = self.body(CreateServiceAccountRequest)
        account = create_service_account(actor=self.actor, name=body["name"], description=body.get("description") or "")
        return self.respond(ServiceAccountResponse, account, status=201)

    def destroy(self, request: Request, **path: str) -> Response:
        account_id = service_account_id(self.path_text("account_id"))
        if account_id is None:  # the text is not repeated: it may be a token
            raise ServiceAccountNotFound("Service account does not exist: the path must contain icekeeper~<uuid>")
        delete_service_account(actor=self.actor, account_id=account_id)
        return Response(status=204)
