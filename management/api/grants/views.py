"""Grants on objects and to principals, and assignments, which are the direct grants in Lakekeeper's older API."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rest_framework.request import Request
from rest_framework.response import Response

from catalog.objects import list_grants_of_for
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import Page, listing_key
from management.api.base import ManagementViewSet, ObjectViewSet, require_parameters
from management.api.grants.schema import describe_assignments, describe_grants, describe_principal_grants
from management.api.grants.serializers import (
    GRANTED_ON,
    ApplyGrantsRequest,
    AssignmentListResponse,
    GrantablePrivilegesResponse,
    ListGrantsResponse,
    ProjectAssignmentListResponse,
    ResourceGrantablePrivilegesResponse,
    UpdateAssignmentsRequest,
    read_assignments,
    read_grants,
)
from management.api.schema import PAGE_NAMES, PRINCIPAL_NAMES, OperationsByType
from management.api.serializers import grant_principal, required_grant_principal, unseen_users
from tenancy.authz.actions import privileges_on
from tenancy.models import Project, Securable
from tenancy.selectors.grants import GrantFilter, list_grantable_for, list_grants_for, list_grants_on_for
from tenancy.selectors.objects import NamedObject, PermissionTarget
from tenancy.services.grants import apply_assignments, apply_grants

T = Securable.Type


class GrantViewSet(ObjectViewSet):
    """The grants on an object, which is in the request's project."""

    schema = OperationsByType(describe_grants)  # type: ignore[assignment]  # it depends on the route

    def list(self, request: Request, **path: str) -> Response:
        require_parameters(request, (*PRINCIPAL_NAMES, *PAGE_NAMES))
        with_extensions = self.wants_extensions()
        grantee, target = grant_principal(request.GET), self.target(self.request_project)
        page = self.page(listing_key("grants", self.securable_type.value, str(target.ref.id), grantee))
        wanted = GrantFilter(grantee=grantee)
        grants, token = list_grants_on_for(actor=self.actor, target=target, wanted=wanted, page=page)
        granted_on = self._granted_object(target)
        return self.respond_page(
            ListGrantsResponse,
            "grants",
            ([(each, granted_on) for each in grants], token),
            **unseen_users((each.grantee for each in grants), with_extensions=with_extensions),
        )

    def apply(self, request: Request, **path: str) -> Response:
        require_parameters(request)
        ApplyGrantsRequest.require_size(request.data)
        difference = read_grants(self.body(ApplyGrantsRequest))
        target = self.target(self.request_project)
        apply_grants(actor=self.actor, ref=target.ref, difference=difference, missing=target.missing)
        return Response(status=204)

    def grantable_privileges(self, request: Request, **path: str) -> Response:
        require_parameters(request, PRINCIPAL_NAMES)
        grantee, target = grant_principal(request.GET), self.target(self.request_project)
        found = list_grantable_for(actor=self.actor, target=target, grantee=grantee)
        privileges = [{"privilege": each, "allowed": is_allowed} for each, is_allowed in found]
        return self.respond(ResourceGrantablePrivilegesResponse, {"privileges": privileges})

    @property
    def request_project(self) -> Project | None:
        """The project that the object must be in; None for the server."""
        return None if self.securable_type is T.SERVER else self.project()

    def _granted_object(self, target: PermissionTarget) -> NamedObject:
        if self.securable_type in {T.SERVER, T.PROJECT, T.TAG}:
            return NamedObject(self.securable_type, str(target.ref.id))
        key = self.object_key
        return NamedObject(self.securable_type, str(key.object_id), warehouse_id=str(key.warehouse_id))


@describe_principal_grants
class PrincipalGrantViewSet(ManagementViewSet):
    def list(self, request: Request) -> Response:
        require_parameters(request, (*PRINCIPAL_NAMES, *PAGE_NAMES))
        with_extensions = self.wants_extensions()
        grantee, project = required_grant_principal(request.GET), self.project()
        page = self.page(listing_key("grants-of", project.pk, grantee))
        found = list_grants_of_for(actor=self.actor, project=project, grantee=grantee, page=page)
        context = unseen_users((each.grantee for each, _ in found[0]), with_extensions=with_extensions)
        return self.respond_page(ListGrantsResponse, "grants", found, **context)

    def privileges(self, request: Request) -> Response:
        require_parameters(request)
        return self.respond(GrantablePrivilegesResponse, {kind: privileges_on(kind) for kind in GRANTED_ON})


class AssignmentViewSet(ObjectViewSet):
    """The direct grants on an object of any project."""

    schema = OperationsByType(describe_assignments)  # type: ignore[assignment]  # it depends on the route

    def list(self, request: Request, **path: str) -> Response:
        privileges = self._privileges()
        page, with_extensions, target = self._page(privileges), self.wants_extensions(), self.target()
        grants, token = list_grants_for(
            actor=self.actor, ref=target.ref, missing=target.missing, wanted=GrantFilter(privileges), page=page
        )
        return self.respond(
            ProjectAssignmentListResponse if self.securable_type is T.PROJECT else AssignmentListResponse,
            {"assignments": grants, "next_page_token": token, "project_id": target.ref.id},
            **unseen_users((each.grantee for each in grants), with_extensions=with_extensions),
        )

    def update(self, request: Request, **path: str) -> Response:
        choices = [each.name for each in privileges_on(self.securable_type)]
        difference = read_assignments(self.body(partial(UpdateAssignmentsRequest, choices=choices)))
        target = self.target()
        apply_assignments(actor=self.actor, ref=target.ref, difference=difference, missing=target.missing)
        return Response(status=204)

    def _privileges(self) -> Sequence[str] | None:
        """Return the values of the query parameter `relations`, None without any."""
        given = {*self.request.GET.getlist("relations"), *self.request.GET.getlist("relations[]")}
        unknown = sorted(given - {each.name for each in privileges_on(self.securable_type)})
        if unknown:
            raise BadRequest(f"relations: {unknown[0][:100]!r} cannot be granted on a {self.securable_type.value}")
        return sorted(given) or None

    def _page(self, privileges: Sequence[str] | None) -> Page:
        """Return everything unless the request has a page: Lakekeeper's clients know none."""
        kind = listing_key("assignments", self.securable_type, sorted(self.kwargs.items()), privileges)
        return self.page(kind) if any(name in self.request.GET for name in PAGE_NAMES) else Page(kind, None, None)


class ProjectByIdAssignmentViewSet(AssignmentViewSet):
    schema = OperationsByType(partial(describe_assignments, by_id=True))
