"""A single permission check, with the action names of Lakekeeper's older API."""

from __future__ import annotations

from typing import Final

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.http.serializers import KebabSerializer, operation_responses
from management.api.base import ManagementView
from management.api.permission_places import TAGS
from management.api.permission_questions import (
    BAD_QUESTION,
    NOTHING_THERE,
    PermissionQuestion,
    Words,
    operation_shape,
    read_question,
)
from management.api.schema import PROJECT_HEADER
from tenancy.authz.action_names import LEGACY_ACTION_NAMES
from tenancy.models import Securable
from tenancy.selectors.allowed_actions import is_allowed_for

_WORDS: Final[Words] = {kind: words for kind, words in LEGACY_ACTION_NAMES.items() if kind is not Securable.Type.ROLE}
"""This route has no checks on roles."""


class PermissionCheckRequest(PermissionQuestion):
    operation = operation_shape(_WORDS, name="PermissionCheckOperation", of_type="Check")


class PermissionCheckResponse(KebabSerializer):
    allowed = serializers.BooleanField()


class PermissionCheckView(ManagementView):
    posts_read = True

    @extend_schema(
        operation_id="check_permission",
        tags=TAGS,
        summary="Check a permission",
        description="The caller must see the object, and for other principals read the grants on it. Inactive "
        "warehouses and dropped objects that can be restored are found by their ids. Users need not be registered.",
        parameters=[PROJECT_HEADER],
        request=PermissionCheckRequest,
        responses=operation_responses(
            {200: PermissionCheckResponse},
            {400: BAD_QUESTION, 404: f"{NOTHING_THERE}; `RoleIdNotFound`: the role in `identity` does not exist"},
        ),
    )
    def post(self, request: Request) -> Response:
        asked = read_question(self, PermissionCheckRequest, _WORDS)
        allowed = is_allowed_for(
            actor=self.actor,
            grantee=asked.grantee,
            ref=asked.target.ref,
            action=asked.action,
            missing=asked.target.missing,
        )
        return Response({"allowed": allowed})
