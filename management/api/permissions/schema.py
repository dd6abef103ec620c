"""OpenAPI descriptions of permission checks, allowed actions and managed access."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from drf_spectacular.utils import extend_schema

from icekeeper.kernel.http.serializers import empty_response, operation_responses
from management.api.permissions.serializers import (
    ActionsBatchCheckRequest,
    ActionsBatchCheckResponse,
    AllowedActionsResponse,
    ExplainRequest,
    ExplainResponse,
    NamespaceAuthPropertiesResponse,
    ObjectActionsResponse,
    PermissionCheckRequest,
    PermissionCheckResponse,
    SetManagedAccessRequest,
    WarehouseAuthPropertiesResponse,
)
from management.api.schema import (
    BAD_PROJECT,
    BAD_USER_ID,
    EXTENSIONS_HEADER,
    MISSING_OBJECTS,
    NO_PRINCIPAL,
    NO_PROJECT,
    NO_WAREHOUSE,
    OBJECT_TYPES,
    PERMISSION_OBJECT_TYPES,
    PRINCIPAL,
    PROJECT_BY_ID,
    PROJECT_HEADER,
    ObjectType,
    Operation,
    describe,
)
from management.api.serializers import VariantSerializer
from tenancy.authz.actions import ACTIONS_ON, GRANT_ACTION_NAMES, LEGACY_ACTION_NAMES
from tenancy.models import Securable

T = Securable.Type
TAGS = ["permission"]
ACTION_TAGS = ["authorization"]
BAD_CHECK: Final = f"{BAD_PROJECT}, {BAD_USER_ID}"
NO_CHECKED_OBJECT: Final = f"{', '.join(MISSING_OBJECTS.values())}, {NO_WAREHOUSE}, {NO_PROJECT}"
BAD_ACCESS_QUERY: Final = f"`InvalidGetAccessQuery`, {BAD_USER_ID}"
OTHER_PRINCIPALS: Final = (
    "Other principals than the caller need the permission to read the grants on the object. Roles from their tokens "
    "and the permissions of instance admins are not considered for them."
)

describe_checks = describe(
    check=extend_schema(
        operation_id="check_permission",
        tags=TAGS,
        summary="Check a permission",
        description="The caller must see the object, and for other principals read the grants on it. Inactive "
        "warehouses and dropped objects that can be restored are found by their ids. Users need not be registered.",
        parameters=[PROJECT_HEADER],
        request=PermissionCheckRequest,
        responses=operation_responses(
            {200: PermissionCheckResponse},
            {400: BAD_CHECK, 404: f"{NO_CHECKED_OBJECT}; `RoleIdNotFound`: the role in `identity` does not exist"},
        ),
    ),
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
    ),
    batch_check=extend_schema(
        operation_id="batch_check_actions",
        tags=ACTION_TAGS,
        summary="Check up to 1,000 permissions",
        description="Checks for other principals are denied unless the caller may read the grants on the object, and "
        "malformed checks are denied: with `x-icekeeper-extensions: true` such results have an `error`. Objects that "
        "do not exist or are hidden from the caller are denied.",
        parameters=[PROJECT_HEADER, EXTENSIONS_HEADER],
        request=ActionsBatchCheckRequest,
        responses=operation_responses(
            {200: ActionsBatchCheckResponse},
            {
                400: "`TooManyChecks`, `AmbiguousCheckId`, `MalformedProjectID`",
                404: f"With `error-on-not-found`: {NO_PROJECT}, {NO_WAREHOUSE}, {', '.join(MISSING_OBJECTS.values())}",
            },
        ),
    ),
)


def describe_actions(securable_type: Securable.Type) -> Mapping[str, Operation]:
    """Return the descriptions of the operations on allowed actions on a type of objects."""
    kind, has_project = OBJECT_TYPES[securable_type], securable_type in {T.PROJECT, T.ROLE}
    kind = replace(kind, parameters=[*kind.parameters, PROJECT_HEADER]) if has_project else kind
    return _describe_list(
        kind,
        ObjectActionsResponse(variant=kind.shape, choices=[each.value for each in ACTIONS_ON[securable_type]]),
        has_project=has_project,
        operation_id=f"get_{kind.word}_actions",
        tags=ACTION_TAGS,
        summary=f"List allowed actions on {kind.noun}",
    )


def describe_access(securable_type: Securable.Type, *, by_id: bool = False) -> Mapping[str, Operation]:
    """Return the descriptions of the older operations on allowed actions; `by_id` is for routes with the project's id
    in the path."""
    kind, suffix = (PROJECT_BY_ID, "_by_id_deprecated") if by_id else (PERMISSION_OBJECT_TYPES[securable_type], "")
    names = list(LEGACY_ACTION_NAMES[securable_type])
    return _describe_list(
        kind,
        AllowedActionsResponse(variant=f"{kind.shape}AccessResponse", choices=names),
        has_project=securable_type is T.PROJECT,
        operation_id=f"get_{kind.word}_access{suffix}",
        tags=TAGS,
        summary=f"List allowed actions on {kind.noun}",
        deprecated=True,
    )


def describe_authorizer_actions(securable_type: Securable.Type) -> Mapping[str, Operation]:
    """Return the descriptions of the operations on allowed actions on the grants of a type of objects."""
    kind, names = PERMISSION_OBJECT_TYPES[securable_type], list(GRANT_ACTION_NAMES[securable_type])
    return _describe_list(
        kind,
        AllowedActionsResponse(variant=f"{kind.shape}AuthorizerActionsResponse", choices=names),
        has_project=securable_type is T.PROJECT,
        operation_id=f"get_{kind.word}_authorizer_actions",
        tags=TAGS,
        summary=f"List allowed actions on the grants of {kind.noun}",
    )


def _describe_list(
    kind: ObjectType, response: VariantSerializer, *, has_project: bool, **operation: Any
) -> Mapping[str, Operation]:
    errors = kind.errors(BAD_PROJECT if has_project else "", BAD_ACCESS_QUERY, missing=NO_PRINCIPAL)
    described = extend_schema(
        description=OTHER_PRINCIPALS,
        parameters=[*kind.parameters, *PRINCIPAL],
        responses=operation_responses({200: response}, errors),
        **operation,
    )
    return {"list": described}


def describe_managed_access(securable_type: Securable.Type) -> Mapping[str, Operation]:
    """Return the descriptions of the operations on managed access of warehouses or namespaces."""
    kind = PERMISSION_OBJECT_TYPES[securable_type]
    is_namespace = securable_type is T.NAMESPACE
    response = NamespaceAuthPropertiesResponse if is_namespace else WarehouseAuthPropertiesResponse
    return {
        "retrieve": extend_schema(
            operation_id=f"get_{kind.word}_managed_access",
            tags=TAGS,
            summary=f"Get managed access of {kind.noun}",
            parameters=kind.parameters,
            responses=operation_responses({200: response}, kind.errors()),
        ),
        "update": extend_schema(
            operation_id=f"set_{kind.word}_managed_access",
            tags=TAGS,
            summary=f"Update managed access of {kind.noun}",
            description="With managed access, owners of the objects in it may not grant privileges on them; principals "
            "with `manage_grants` may.",
            parameters=kind.parameters,
            request=SetManagedAccessRequest,
            responses=operation_responses(
                empty_response("Updated", status=200), {**kind.errors(), 409: "`GrantLockTimeout`"}
            ),
        ),
    }
