"""OpenAPI descriptions of permission checks, allowed actions and managed access."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from icekeeper.kernel.http.openapi import empty_response
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
    operation,
)
from management.api.serializers import VariantSerializer
from tenancy.authz.actions import ACTIONS_ON, GRANT_ACTION_NAMES, LEGACY_ACTION_NAMES
from tenancy.models import Securable

T = Securable.Type
_operation = partial(operation, tag="permission")
BAD_CHECK: Final = f"{BAD_PROJECT}, {BAD_USER_ID}"
NO_CHECKED_OBJECT: Final = f"{', '.join(MISSING_OBJECTS.values())}, {NO_WAREHOUSE}, {NO_PROJECT}"
BAD_ACCESS_QUERY: Final = f"`InvalidGetAccessQuery`, {BAD_USER_ID}"
OTHER_PRINCIPALS: Final = (
    "Other principals than the caller need the permission to read the grants on the object. Roles from their tokens "
    "and the permissions of instance admins are not considered for them."
)

describe_checks = describe(
    check=_operation(
        "check_permission",
        "Check a permission",
        description="The caller must see the object, and for other principals read the grants on it. Inactive "
        "warehouses and dropped objects that can be restored are found by their ids. Users need not be registered.",
        parameters=[PROJECT_HEADER],
        request=PermissionCheckRequest,
        success={200: PermissionCheckResponse},
        errors={400: BAD_CHECK, 404: f"{NO_CHECKED_OBJECT}; `RoleIdNotFound`: the role in `identity` does not exist"},
    ),
    explain=_operation(
        "explain_permission",
        "Get an explanation of why a permission is allowed or denied",
        description="Like `permissions/check`, and also for roles and tags: the caller must see the object, and "
        "for other principals read the grants on it. Grants on other objects are shown to callers who may read the "
        "grants there, and role members to callers who may read the role. Roles from a token count for the caller of "
        "that token. Explanations for other principals are audited.",
        parameters=[PROJECT_HEADER],
        request=ExplainRequest,
        success={200: ExplainResponse},
        errors={
            400: BAD_CHECK,
            404: f"{NO_CHECKED_OBJECT}, `RoleNotFoundInProject`, `TagDefinitionIdNotFound`; `UserNotFound`, "
            "`RoleIdNotFound`: `identity` does not exist",
        },
    ),
    batch_check=operation(
        "batch_check_actions",
        "Check up to 1,000 permissions",
        tag="authorization",
        description="Checks for other principals are denied unless the caller may read the grants on the object, and "
        "malformed checks are denied: with `x-icekeeper-extensions: true` such results have an `error`. Objects that "
        "do not exist or are hidden from the caller are denied.",
        parameters=[PROJECT_HEADER, EXTENSIONS_HEADER],
        request=ActionsBatchCheckRequest,
        success={200: ActionsBatchCheckResponse},
        errors={
            400: "`TooManyChecks`, `AmbiguousCheckId`, `MalformedProjectID`",
            404: f"With `error-on-not-found`: {NO_PROJECT}, {NO_WAREHOUSE}, {', '.join(MISSING_OBJECTS.values())}",
        },
    ),
)


def describe_actions(securable_type: Securable.Type) -> Mapping[str, Operation]:
    """Return the descriptions of the operations on allowed actions on a type of objects."""
    kind, has_project = OBJECT_TYPES[securable_type], securable_type in {T.PROJECT, T.ROLE}
    kind = replace(kind, parameters=[*kind.parameters, PROJECT_HEADER]) if has_project else kind
    names = [each.value for each in ACTIONS_ON[securable_type]]
    described = operation(
        f"get_{kind.word}_actions",
        f"List allowed actions on {kind.noun}",
        tag="authorization",
        **_listing(kind, ObjectActionsResponse(variant=kind.shape, choices=names), has_project=has_project),
    )
    return {"list": described}


def describe_access(securable_type: Securable.Type, *, by_id: bool = False) -> Mapping[str, Operation]:
    """Return the descriptions of the older operations on allowed actions; `by_id` is for routes with the project's id
    in the path."""
    kind, suffix = (PROJECT_BY_ID, "_by_id_deprecated") if by_id else (PERMISSION_OBJECT_TYPES[securable_type], "")
    names = list(LEGACY_ACTION_NAMES[securable_type])
    response = AllowedActionsResponse(variant=f"{kind.shape}AccessResponse", choices=names)
    described = _operation(
        f"get_{kind.word}_access{suffix}",
        f"List allowed actions on {kind.noun}",
        deprecated=True,
        **_listing(kind, response, has_project=securable_type is T.PROJECT),
    )
    return {"list": described}


def describe_authorizer_actions(securable_type: Securable.Type) -> Mapping[str, Operation]:
    """Return the descriptions of the operations on allowed actions on the grants of a type of objects."""
    kind, names = PERMISSION_OBJECT_TYPES[securable_type], list(GRANT_ACTION_NAMES[securable_type])
    response = AllowedActionsResponse(variant=f"{kind.shape}AuthorizerActionsResponse", choices=names)
    described = _operation(
        f"get_{kind.word}_authorizer_actions",
        f"List allowed actions on the grants of {kind.noun}",
        **_listing(kind, response, has_project=securable_type is T.PROJECT),
    )
    return {"list": described}


def _listing(kind: ObjectType, response: VariantSerializer, *, has_project: bool) -> dict[str, Any]:
    """Return what the descriptions of allowed actions share, as arguments of `operation`."""
    return {
        "description": OTHER_PRINCIPALS,
        "parameters": [*kind.parameters, *PRINCIPAL],
        "success": {200: response},
        "errors": kind.errors(BAD_PROJECT if has_project else "", BAD_ACCESS_QUERY, missing=NO_PRINCIPAL),
    }


def describe_managed_access(securable_type: Securable.Type) -> Mapping[str, Operation]:
    """Return the descriptions of the operations on managed access of warehouses or namespaces."""
    kind = PERMISSION_OBJECT_TYPES[securable_type]
    is_namespace = securable_type is T.NAMESPACE
    response = NamespaceAuthPropertiesResponse if is_namespace else WarehouseAuthPropertiesResponse
    return {
        "retrieve": _operation(
            f"get_{kind.word}_managed_access",
            f"Get managed access of {kind.noun}",
            parameters=kind.parameters,
            success={200: response},
            errors=kind.errors(),
        ),
        "update": _operation(
            f"set_{kind.word}_managed_access",
            f"Update managed access of {kind.noun}",
            description="With managed access, owners of the objects in it may not grant privileges on them; principals "
            "with `manage_grants` may.",
            parameters=kind.parameters,
            request=SetManagedAccessRequest,
            success=empty_response("Updated", status=200),
            errors={**kind.errors(), 409: "`GrantLockTimeout`"},
        ),
    }
