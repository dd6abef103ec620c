from __future__ import annotations

from typing import Any, Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.http.raw_path import decode_segment
from icekeeper.kernel.http.serializers import KebabSerializer, Text, empty_response, operation_responses
from management.api.base import BAD_PAGE, LAST_ADMINISTRATOR, PAGE, ManagementView
from management.api.tokens import NOBODY, TAGS
from tenancy.models import ServiceAccount
from tenancy.selectors.access_tokens import list_service_accounts_for
from tenancy.services.service_accounts import (
    ServiceAccountNotFound,
    create_service_account,
    delete_service_account,
    service_account_id,
)

NOT_ALLOWED: Final = "`ServerActionForbidden`"


class CreateServiceAccountRequest(KebabSerializer):
    name = Text(help_text="Unique, at most 255 characters")
    description = Text(required=False, allow_null=True, allow_blank=True, help_text="At most 1,000 characters")


class ServiceAccountResponse(KebabSerializer):
    id = Text(help_text="As a user: `icekeeper~<uuid>`; the client id for OAuth clients")
    name = Text()
    description = Text(allow_blank=True)
    created_at = serializers.DateTimeField()
    created_by = Text(help_text="A user's id, or `internal` for commands of the server")


class ServiceAccountListResponse(KebabSerializer):
    service_accounts = ServiceAccountResponse(many=True)
    next_page_token = Text(required=False, help_text="Left out on the last page")


def service_account_json(account: ServiceAccount) -> dict[str, Any]:
    return {
        "id": account.user_id,
        "name": account.name,
        "description": account.description,
        "created-at": account.created_at,
        "created-by": account.created_by,
    }


class ServiceAccountsView(ManagementView):
    @extend_schema(
        operation_id="list_service_accounts",
        tags=TAGS,
        summary="The service accounts of this server",
        parameters=PAGE,
        responses=operation_responses(
            {200: ServiceAccountListResponse}, {400: BAD_PAGE, 401: NOBODY, 403: NOT_ALLOWED}
        ),
    )
    def get(self, request: Request) -> Response:
        accounts, next_token = list_service_accounts_for(actor=self.actor, page=self.page("service-accounts"))
        answer: dict[str, Any] = {"service-accounts": [service_account_json(account) for account in accounts]}
        if next_token is not None:
            answer["next-page-token"] = next_token
        return Response(answer)

    @extend_schema(
        operation_id="create_service_account",
        tags=TAGS,
        summary="Make a service account: a user for a program, without tokens at first",
        request=CreateServiceAccountRequest,
        responses=operation_responses(
            {201: ServiceAccountResponse},
            {
                401: NOBODY,
                403: NOT_ALLOWED,
                409: "`ServiceAccountAlreadyExists`",
                413: "`PayloadTooLargeException`",
            },
        ),
    )
    def post(self, request: Request) -> Response:
        body = self.body(CreateServiceAccountRequest)
        account = create_service_account(actor=self.actor, name=body["name"], description=body.get("description") or "")
        return Response(service_account_json(account), status=201)


class ServiceAccountView(ManagementView):
    @extend_schema(
        operation_id="delete_service_account",
        tags=TAGS,
        summary="Delete a service account: its tokens and grants are gone",
        parameters=[
            OpenApiParameter(
                "account_id", OpenApiTypes.STR, OpenApiParameter.PATH, description="Its `id`, or the UUID alone"
            )
        ],
        responses=operation_responses(
            empty_response("Deleted"),
            {401: NOBODY, 403: NOT_ALLOWED, 404: "`ServiceAccountNotFound`", 409: LAST_ADMINISTRATOR},
        ),
    )
    def delete(self, request: Request, account_id: str) -> Response:
        parsed = service_account_id(decode_segment(account_id))
        if parsed is None:  # it is not repeated: somebody may have put a token there
            raise ServiceAccountNotFound("Service account does not exist: its address is icekeeper~<uuid>")
        delete_service_account(actor=self.actor, account_id=parsed)
        return Response(status=204)
