"""OpenAPI description of explanations of permission checks."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema

from icekeeper.kernel.http.serializers import operation_responses
from management.api.explanations.serializers import ExplainRequest, ExplainResponse
from management.api.permissions.schema import BAD_CHECK, NO_CHECKED_OBJECT, TAGS
from management.api.schema import PROJECT_HEADER, describe

describe_explanations = describe(
    explain=extend_schema(
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
                400: BAD_CHECK,
                404: f"{NO_CHECKED_OBJECT}, `RoleNotFoundInProject`, `TagDefinitionIdNotFound`; `UserNotFound`, "
                "`RoleIdNotFound`: `identity` does not exist",
            },
        ),
    )
)
