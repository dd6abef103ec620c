"""OpenAPI descriptions of the operations on grants and assignments."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from drf_spectacular.utils import OpenApiParameter

from icekeeper.kernel.http.openapi import empty_response
from management.api.grants.serializers import (
    ApplyGrantsRequest,
    AssignmentListResponse,
    GrantablePrivilegesResponse,
    ListGrantsResponse,
    ProjectAssignmentListResponse,
    ResourceGrantablePrivilegesResponse,
    UpdateAssignmentsRequest,
)
from management.api.schema import (
    BAD_PAGE,
    BAD_PRINCIPAL,
    BAD_PROJECT,
    BAD_USER_ID,
    EXTENSIONS_HEADER,
    GRANT_DENIED,
    NO_PRINCIPAL,
    NO_PROJECT,
    OBJECT_TYPES,
    PAGE,
    PERMISSION_OBJECT_TYPES,
    PRINCIPAL,
    PROJECT_BY_ID,
    PROJECT_HEADER,
    Operation,
    describe,
    operation,
)
from tenancy.authz.actions import privileges_on
from tenancy.models import Securable
from tenancy.services.grants import MAX_CHANGES

T = Securable.Type
_operation = partial(operation, tag="grant")
BAD_GRANTS: Final = (
    "`EmptyGrantDiff`, `GrantDiffTooLarge`, `InvalidGrantPrivilegeLength`, `ContradictoryGrantDiff`, "
    "`DuplicateGrantEntry`, `InvalidGrantPrivilege`, `GrantExpired`, `GrantUserNotFound`, `GrantRoleNotInProject`"
)
BAD_ASSIGNMENTS: Final = (
    "`GrantDiffTooLarge`, `DuplicateGrantEntry`, `ContradictoryGrantDiff`, `GrantUserNotFound`, "
    "`GrantRoleNotInProject`, `GrantExpired`"
)
BAD_ROLE_ASSIGNMENTS: Final = "`SelfAssignment`, `RoleAssignmentUserNotFound`"
LAST_ADMINISTRATOR: Final = "`LastAdministrator`: the object would lose its last administrator"
GRANT_CONFLICTS: Final = f"`GrantLockTimeout`; {LAST_ADMINISTRATOR}"
ASSIGNMENT_CONFLICTS: Final = (
    f"`TupleAlreadyExistsError`: a privilege is already granted; {LAST_ADMINISTRATOR}; `GrantLockTimeout`"
)
ROLE_CONFLICTS: Final = "`RoleMembershipCycle`, `RoleMembershipDepthExceeded`, `RoleMembershipLockTimeout`"
STRICT: Final = "Unknown parameters are an error."

describe_principal_grants = describe(
    list=_operation(
        "list_grants",
        "List the grants to a principal in a project",
        description="Only direct grants; the grants to a role are listed for the role. Grants on the server and on "
        "objects in inactive warehouses are not included. Callers list their own grants without a permission on the "
        f"project other than seeing it. {STRICT}",
        parameters=[*PRINCIPAL, *PAGE, PROJECT_HEADER, EXTENSIONS_HEADER],
        success={200: ListGrantsResponse},
        errors={
            400: f"`MissingGrantPrincipal`, {BAD_PRINCIPAL}, {BAD_PAGE}, {BAD_PROJECT}",
            403: GRANT_DENIED,
            404: NO_PROJECT,
        },
    ),
    privileges=_operation(
        "get_grantable_privileges",
        "List the privileges that can be granted, by type of object",
        success={200: GrantablePrivilegesResponse},
    ),
)


def describe_grants(securable_type: Securable.Type) -> Mapping[str, Operation]:
    """Return the descriptions of the operations on grants on a type of objects."""
    kind, has_project = OBJECT_TYPES[securable_type], securable_type is not T.SERVER
    parameters = [*kind.parameters, *([PROJECT_HEADER] if has_project else [])]
    bad_path = BAD_PROJECT if has_project else ""
    missing = NO_PROJECT if has_project and securable_type is not T.PROJECT else None
    return {
        "list": _operation(
            f"list_{kind.word}_grants",
            f"List the grants on {kind.noun}",
            description="Only direct grants, none that are inherited. Callers who may see the object see their own "
            f"grants; those of others need the permission to read grants. {STRICT}",
            parameters=[*parameters, *PRINCIPAL, *PAGE, EXTENSIONS_HEADER],
            success={200: ListGrantsResponse},
            errors={**kind.errors(bad_path, BAD_PRINCIPAL, BAD_PAGE, missing=missing), 403: GRANT_DENIED},
        ),
        "apply": _operation(
            f"apply_{kind.word}_grants",
            f"Grant and revoke privileges on {kind.noun}",
            description="All changes are applied, or none. Granting an existing grant and revoking a missing one are "
            "no errors. Unknown members and parameters are.",
            parameters=parameters,
            request=ApplyGrantsRequest,
            success=empty_response("Applied"),
            errors={
                **kind.errors(bad_path, BAD_GRANTS, BAD_USER_ID, missing=missing),
                403: GRANT_DENIED,
                409: GRANT_CONFLICTS,
            },
        ),
        "grantable_privileges": _operation(
            f"get_{kind.word}_grantable_privileges",
            f"List the privileges that can be granted on {kind.noun}",
            description="`allowed` is true if the principal may grant the privilege. Other principals than the caller "
            f"need the permission to read grants. {STRICT}",
            parameters=[*parameters, *PRINCIPAL],
            success={200: ResourceGrantablePrivilegesResponse},
            errors={
                **kind.errors(
                    bad_path, BAD_PRINCIPAL, missing=", ".join(each for each in (missing, NO_PRINCIPAL) if each)
                ),
                403: GRANT_DENIED,
            },
        ),
    }


def describe_assignments(securable_type: Securable.Type, *, by_id: bool = False) -> Mapping[str, Operation]:
    """Return the descriptions of the operations on assignments on a type of objects; `by_id` is for deprecated routes
    with the project's id in the path."""
    kind, suffix = (PROJECT_BY_ID, "_by_id_deprecated") if by_id else (PERMISSION_OBJECT_TYPES[securable_type], "")
    bad_project = BAD_PROJECT if securable_type is T.PROJECT else ""
    is_role = securable_type is T.ROLE
    names = [each.name for each in privileges_on(securable_type)]
    shape = ProjectAssignmentListResponse if securable_type is T.PROJECT else AssignmentListResponse
    privileges = OpenApiParameter(
        "relations",
        {"type": "array", "items": {"type": "string", "enum": names}},
        description="Only these privileges; may be repeated",
    )
    return {
        "list": operation(
            f"get_{kind.word}_assignments{suffix}",
            f"List direct assignments on {kind.noun}",
            tag="permission",
            description="Inherited and expired assignments are not included. All are returned at once unless the "
            "request has `pageToken` (empty for the first page) or `pageSize`.",
            deprecated=by_id,
            parameters=[*kind.parameters, privileges, *PAGE, EXTENSIONS_HEADER],
            success={200: shape(variant=kind.shape, choices=names)},
            errors=kind.errors(bad_project, BAD_PAGE),
        ),
        "update": operation(
            f"update_{kind.word}_assignments{suffix}",
            f"Update direct assignments on {kind.noun}",
            tag="permission",
            description=f"All changes are applied, or none; at most {MAX_CHANGES} at once. The caller needs the "
            "permission to grant each privilege.",
            deprecated=by_id,
            parameters=kind.parameters,
            request=UpdateAssignmentsRequest(variant=kind.shape, choices=names),
            success=empty_response("Updated"),
            errors={
                **kind.errors(
                    bad_project,
                    BAD_ASSIGNMENTS,
                    BAD_USER_ID,
                    BAD_ROLE_ASSIGNMENTS if is_role else "",
                    missing="`TupleNotFoundError`: a privilege to revoke is not granted",
                ),
                403: GRANT_DENIED,
                409: f"{ASSIGNMENT_CONFLICTS}; {ROLE_CONFLICTS}" if is_role else ASSIGNMENT_CONFLICTS,
            },
        ),
    }
