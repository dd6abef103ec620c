"""Explanation of a permission check."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.objects.names import name_objects
from icekeeper.kernel.http.serializers import operation_responses
from management.api.base import ManagementView
from management.api.explanation_shapes import ExplainRequest, ExplainResponse, explanation_json
from management.api.permission_places import TAGS
from management.api.permission_questions import BAD_QUESTION, NOTHING_THERE, read_question
from management.api.schema import PROJECT_HEADER
from tenancy.authz.action_names import ACTION_NAMES
from tenancy.selectors.explanations import explain_for


class ExplainView(ManagementView):
    posts_read = True

    @extend_schema(
        operation_id="explain_permission",
        tags=TAGS,
        summary="Get an explanation of why a permission is allowed or denied",
        description="Like `permissions/check`, and also for roles and tags: the caller must see the object, and "
        "for other principals read the grants on it. Grants on other objects are shown to callers who may read the "
        "grants there, and role members to callers who may read the role. Roles from a token count for the caller of "
        "that token. Explanations for other principals are audited.",
        parameters=[PROJECT_HEADER],
        request=ExplainRequest,
        responses=operation_responses(
            {200: ExplainResponse},
            {
                400: BAD_QUESTION,
                404: f"{NOTHING_THERE}, `RoleNotFoundInProject`, `TagDefinitionIdNotFound`; `UserNotFound`, "
                "`RoleIdNotFound`: `identity` does not exist",
            },
        ),
    )
    def post(self, request: Request) -> Response:
        asked = read_question(self, ExplainRequest, ACTION_NAMES)
        explained = explain_for(
            actor=self.actor,
            grantee=asked.grantee,
            ref=asked.target.ref,
            action=asked.action,
            missing=asked.target.missing,
            name_objects=name_objects,
        )
        return Response(explanation_json(explained))
