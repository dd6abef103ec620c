"""Grants: listed, granted and revoked; each type of object has its own routes."""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.objects.grants import GrantedObject, list_grants_of_for
from icekeeper.kernel.http.paging import listing_key
from icekeeper.kernel.http.serializers import empty_response, operation_responses
from management.api.base import ManagementView, paged, require_parameters
from management.api.grant_shapes import (
    GRANTED_ON,
    ApplyGrantsRequest,
    GrantablePrivilegesResponse,
    ListGrantsResponse,
    ResourceGrantablePrivilegesResponse,
    grants_json,
    privilege_json,
    read_difference,
    require_few,
)
from management.api.principals import grant_principal, required_grant_principal
from management.api.rights_places import GrantedView
from management.api.schema import (
    BAD_PAGE,
    BAD_PRINCIPAL,
    BAD_USER_ID,
    EXTENSIONS_HEADER,
    OBJECT_TYPES,
    PAGE,
    PAGE_NAMES,
    PRINCIPAL,
    PRINCIPAL_NAMES,
    PROJECT_ERRORS,
    PROJECT_HEADER,
)
from management.api.serializers import resource_type
from tenancy.authz.privileges import privileges_on
from tenancy.models import Securable
from tenancy.selectors.grants import list_grantable_for, list_grants_on_for
from tenancy.selectors.objects import RightsTarget
from tenancy.services.grants import apply_grants

T = Securable.Type
TAGS = ["grant"]
_MAY_NOT: Final = "`GrantActionForbidden`"
_BAD_CHANGE: Final = (
    "`EmptyGrantDiff`, `GrantDiffTooLarge`, `InvalidGrantPrivilegeLength`, `ContradictoryGrantDiff`, "
    "`DuplicateGrantEntry`, `InvalidGrantPrivilege`, `GrantExpired`, `GrantUserNotFound`, `GrantRoleNotInProject`"
)


def _granted_object(view: GrantedView, target: RightsTarget) -> GrantedObject:
    if view.kind in {T.SERVER, T.PROJECT, T.TAG}:
        return GrantedObject(view.kind, str(target.ref.id))
    key = view.object_key()
    return GrantedObject(view.kind, str(key.object_id), str(key.warehouse_id))


class ResourceGrantsView(GrantedView):
    def get(self, request: Request, **names: str) -> Response:
        require_parameters(request, (*PRINCIPAL_NAMES, *PAGE_NAMES))
        wants_extensions = self.wants_extensions()
        grantee, target = grant_principal(request.GET), self.target()
        page = self.page(listing_key("grants", self.kind.value, str(target.ref.id), grantee))
        found, token = list_grants_on_for(actor=self.actor, target=target, grantee=grantee, page=page)
        place = _granted_object(self, target)
        grants = grants_json([(each, place) for each in found], wants_extensions=wants_extensions)
        return Response(paged("grants", grants, token))

    def post(self, request: Request, **names: str) -> Response:
        require_parameters(request)
        require_few(request.data)
        difference = read_difference(self.body(ApplyGrantsRequest))
        target = self.target()
        apply_grants(actor=self.actor, ref=target.ref, difference=difference, missing=target.missing)
        return Response(status=204)


class ResourceGrantablePrivilegesView(GrantedView):
    def get(self, request: Request, **names: str) -> Response:
        require_parameters(request, PRINCIPAL_NAMES)
        grantee, target = grant_principal(request.GET), self.target()
        found = list_grantable_for(actor=self.actor, target=target, grantee=grantee)
        return Response(
            {"privileges": [{"privilege": privilege_json(each), "allowed": allowed} for each, allowed in found]}
        )


class GrantsView(ManagementView):
    @extend_schema(
        operation_id="list_grants",
        tags=TAGS,
        summary="List the grants to a principal in a project",
        description="Only direct grants; the grants to a role are listed for the role. Grants on the server and on "
        "objects in inactive warehouses are not included. Callers list their own grants without a permission on the "
        "project other than seeing it. Unknown parameters are an error.",
        parameters=[*PRINCIPAL, *PAGE, PROJECT_HEADER, EXTENSIONS_HEADER],
        responses=operation_responses(
            {200: ListGrantsResponse},
            {
                400: f"`MissingGrantPrincipal`, {BAD_PRINCIPAL}, {BAD_PAGE}, {PROJECT_ERRORS[400]}",
                403: _MAY_NOT,
                404: PROJECT_ERRORS[404],
            },
        ),
    )
    def get(self, request: Request) -> Response:
        require_parameters(request, (*PRINCIPAL_NAMES, *PAGE_NAMES))
        wants_extensions = self.wants_extensions()
        grantee = required_grant_principal(request.GET)
        project = self.project()
        page = self.page(listing_key("grants-of", project.pk, grantee))
        found, token = list_grants_of_for(actor=self.actor, project=project, grantee=grantee, page=page)
        return Response(paged("grants", grants_json(found, wants_extensions=wants_extensions), token))


class GrantablePrivilegesView(ManagementView):
    @extend_schema(
        operation_id="get_grantable_privileges",
        tags=TAGS,
        summary="List the privileges that can be granted, by type of object",
        responses=operation_responses({200: GrantablePrivilegesResponse}),
    )
    def get(self, request: Request) -> Response:
        require_parameters(request)
        by_type = {resource_type(kind): [privilege_json(each) for each in privileges_on(kind)] for kind in GRANTED_ON}
        return Response({"privileges": by_type})


def _grants_view(kind: Securable.Type) -> type[ResourceGrantsView]:
    told, place = OBJECT_TYPES[kind], _described_place(kind)
    bad, gone = place["refusals"][400], place["refusals"].get(404)
    missing = {} if gone is None else {404: gone}
    described = extend_schema_view(
        get=extend_schema(
            operation_id=f"list_{told.word}_grants",
            tags=TAGS,
            summary=f"List the grants on {told.noun}",
            description="Only direct grants, none that are inherited. Callers who may see the object see their "
            "own grants; "
            "those of others need the permission to read grants. Unknown parameters are an error.",
            parameters=[*place["parameters"], *PRINCIPAL, *PAGE, EXTENSIONS_HEADER],
            responses=operation_responses(
                {200: ListGrantsResponse}, {400: f"{bad}{BAD_PRINCIPAL}, {BAD_PAGE}", 403: _MAY_NOT, **missing}
            ),
        ),
        post=extend_schema(
            operation_id=f"apply_{told.word}_grants",
            tags=TAGS,
            summary=f"Grant and revoke privileges on {told.noun}",
            description="All changes are applied, or none. Granting an existing grant and revoking a missing "
            "one are no "
            "errors. Unknown members and parameters are.",
            parameters=place["parameters"],
            request=ApplyGrantsRequest,
            responses=operation_responses(
                empty_response("Applied"),
                {
                    400: f"{bad}{_BAD_CHANGE}, {BAD_USER_ID}",
                    403: _MAY_NOT,
                    409: "`GrantLockTimeout`; `LastAdministrator`: the object would lose its last administrator",
                    **missing,
                },
            ),
        ),
    )
    made: type[ResourceGrantsView] = type(f"{told.shape}GrantsView", (ResourceGrantsView,), {"kind": kind})
    return described(made)


def _grantable_view(kind: Securable.Type) -> type[ResourceGrantablePrivilegesView]:
    told, place = OBJECT_TYPES[kind], _described_place(kind)
    gone = ", ".join(each for each in (place["refusals"].get(404), "`UserNotFound`, `RoleIdNotFound`") if each)
    described = extend_schema_view(
        get=extend_schema(
            operation_id=f"get_{told.word}_grantable_privileges",
            tags=TAGS,
            summary=f"List the privileges that can be granted on {told.noun}",
            description="`allowed` tells whether the principal may grant the privilege. Other principals than "
            "the caller "
            "need the permission to read grants. Unknown parameters are an error.",
            parameters=[*place["parameters"], *PRINCIPAL],
            responses=operation_responses(
                {200: ResourceGrantablePrivilegesResponse},
                {400: f"{place['refusals'][400]}{BAD_PRINCIPAL}", 403: _MAY_NOT, 404: gone},
            ),
        )
    )
    made: type[ResourceGrantablePrivilegesView] = type(
        f"{told.shape}GrantablePrivilegesView", (ResourceGrantablePrivilegesView,), {"kind": kind}
    )
    return described(made)


def _described_place(kind: Securable.Type) -> dict[str, Any]:
    """The parameters that say which object is meant, and what can be wrong with them."""
    told = OBJECT_TYPES[kind]
    if kind is T.SERVER:
        return {"parameters": [], "refusals": {400: ""}}
    missing = dict.fromkeys([*([told.missing] if told.missing else []), PROJECT_ERRORS[404]])
    refusals = {400: f"{PROJECT_ERRORS[400]}, ", 404: ", ".join(missing)}
    return {"parameters": [*told.parameters, PROJECT_HEADER], "refusals": refusals}


GRANTS_VIEWS: Final = {kind: _grants_view(kind) for kind in GRANTED_ON}
GRANTABLE_VIEWS: Final = {kind: _grantable_view(kind) for kind in GRANTED_ON}
