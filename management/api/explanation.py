"""Why somebody may do something, or what would let them: a route of our own, in the shape of a permission check."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.selectors.explanations import explain_for
from icekeeper.kernel.api_shapes import answers
from management.api.base import NO_WAREHOUSE, PROJECT_HEADER, PROJECT_REFUSALS, ManagementView
from management.api.explanation_shapes import ExplainRequest, ExplainResponse, explanation_json
from management.api.permission_check import find_place, only_operation
from management.api.permission_places import TAGS
from management.api.principals import read_grantee
from management.api.protection import MISSING
from management.api.users import BAD_USER_ID
from tenancy.authz.vocabulary import ALL_WORDS


class ExplainView(ManagementView):
    posts_read = True

    @extend_schema(
        operation_id="explain_permission",
        tags=TAGS,
        summary="Why somebody may do something, or what would let them",
        description="Takes what `permissions/check` takes: to ask about oneself to see the object, to ask about "
        "somebody else the right to read the grants there. What stands on other objects is told to who may read the "
        "grants on them, and who is in a role to who may read that. Roles of tokens count for who shows the token. "
        "Who asks about somebody else is recorded.",
        parameters=[PROJECT_HEADER],
        request=ExplainRequest,
        responses=answers(
            {200: ExplainResponse},
            {
                400: f"{PROJECT_REFUSALS[400]}, {BAD_USER_ID}",
                404: f"{', '.join(MISSING.values())}, {NO_WAREHOUSE}, {PROJECT_REFUSALS[404]}; "
                "`UserNotFound`, `RoleIdNotFound`: nobody is whom `identity` names",
            },
        ),
    )
    def post(self, request: Request) -> Response:
        body = self.body(ExplainRequest)
        identity = body.get("identity")
        grantee = None if identity is None else read_grantee(identity, "identity")
        kind, asked = only_operation(body["operation"])
        target = find_place(self, kind, asked)
        explained = explain_for(
            actor=self.actor,
            grantee=grantee,
            ref=target.ref,
            action=ALL_WORDS[kind][asked["action"]],
            missing=target.missing,
        )
        return Response(explanation_json(explained))
