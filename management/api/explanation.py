"""Why somebody may do something, or what would let them: a route of our own, in the shape of a permission check."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.selectors.explanations import explain_for
from icekeeper.kernel.http.serializers import operation_responses
from management.api.base import ManagementView
from management.api.explanation_shapes import ExplainRequest, ExplainResponse, explanation_json
from management.api.permission_places import TAGS
from management.api.permission_questions import BAD_QUESTION, NOTHING_THERE, read_question
from management.api.schema import PROJECT_HEADER
from tenancy.authz.vocabulary import ALL_WORDS


class ExplainView(ManagementView):
    posts_read = True

    @extend_schema(
        operation_id="explain_permission",
        tags=TAGS,
        summary="Why somebody may do something, or what would let them",
        description="Of what `permissions/check` is asked about, and of roles and tags: to ask about oneself takes to "
        "see the object, to ask about somebody else the right to read the grants there. What stands elsewhere is "
        "told to who may read the grants there, and who is in a role to who may read that. Roles of tokens count for "
        "who shows the token. Who asks about somebody else is recorded.",
        parameters=[PROJECT_HEADER],
        request=ExplainRequest,
        responses=operation_responses(
            {200: ExplainResponse},
            {
                400: BAD_QUESTION,
                404: f"{NOTHING_THERE}, `RoleNotFoundInProject`, `TagDefinitionIdNotFound`; `UserNotFound`, "
                "`RoleIdNotFound`: nobody is whom `identity` names",
            },
        ),
    )
    def post(self, request: Request) -> Response:
        asked = read_question(self, ExplainRequest, ALL_WORDS)
        explained = explain_for(
            actor=self.actor,
            grantee=asked.grantee,
            ref=asked.target.ref,
            action=asked.action,
            missing=asked.target.missing,
        )
        return Response(explanation_json(explained))
