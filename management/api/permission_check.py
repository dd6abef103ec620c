"""The single question whether somebody may do something, in the older words."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from icekeeper.kernel.api_shapes import KebabSerializer, answers
from management.api.base import PROJECT_HEADER, ManagementView
from management.api.permission_places import TAGS
from management.api.permission_questions import QUESTION_REFUSALS, PermissionQuestion, operation_shape, read_question
from tenancy.authz.vocabulary import OLD_WORDS
from tenancy.selectors.allowed_actions import is_allowed_for


class PermissionCheckRequest(PermissionQuestion):
    operation = operation_shape(OLD_WORDS, name="PermissionCheckOperation", of_type="Check")


class PermissionCheckResponse(KebabSerializer):
    allowed = serializers.BooleanField()


class PermissionCheckView(ManagementView):
    posts_read = True

    @extend_schema(
        operation_id="check_permission",
        tags=TAGS,
        summary="Whether somebody may do something",
        description="To ask about oneself takes to see the object, to ask about somebody else the right to read the "
        "grants there. Inactive warehouses and what was dropped and can be restored are found by their ids.",
        parameters=[PROJECT_HEADER],
        request=PermissionCheckRequest,
        responses=answers({200: PermissionCheckResponse}, QUESTION_REFUSALS),
    )
    def post(self, request: Request) -> Response:
        asked = read_question(self, PermissionCheckRequest, OLD_WORDS)
        allowed = is_allowed_for(
            actor=self.actor,
            grantee=asked.grantee,
            ref=asked.target.ref,
            action=asked.action,
            missing=asked.target.missing,
        )
        return Response({"allowed": allowed})
