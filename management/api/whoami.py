from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.http.serializers import operation_responses
from management.api.base import ManagementView
from management.api.users import NO_USER, TAGS, UserResponse, user_json
from tenancy.instance_admins import is_instance_admin
from tenancy.selectors.users import get_own_user


class WhoamiResponse(UserResponse):
    is_instance_admin = serializers.BooleanField(
        help_text="Whether the deployment lets the caller do everything but read and write data"
    )


class WhoamiView(ManagementView):
    @extend_schema(
        operation_id="whoami",
        tags=TAGS,
        summary="The user who calls",
        responses=operation_responses(
            {200: WhoamiResponse}, {401: "`GetMyUserWithoutToken`", 404: f"{NO_USER}: not registered yet"}
        ),
    )
    def get(self, request: Request) -> Response:
        user = get_own_user(actor=self.actor)
        return Response({**user_json(user), "is-instance-admin": is_instance_admin(self.actor)})
