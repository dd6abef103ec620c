"""Access reviews of objects and principals, in pages of JSON or whole as CSV."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from django.conf import settings
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.objects.names import name_objects
from catalog.objects.object_keys import find_target
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import MIN_ID, listing_key
from icekeeper.kernel.http.serializers import KebabSerializer, operation_responses
from management.api.access_review_shapes import (
    OBJECT_HEADER,
    PLACES_HEADER,
    REACHED_HEADER,
    ObjectReviewResponse,
    PrincipalReviewResponse,
    ReachedObjectsResponse,
    object_review_json,
    object_review_rows,
    places_rows,
    principal_review_json,
    reached_objects_json,
    reached_rows,
)
from management.api.base import ManagementView, require_parameters
from management.api.csv_answers import CSV, csv_answer, wants_csv
from management.api.principals import required_grant_principal
from management.api.rights_places import GrantedView, RightsView
from management.api.schema import (
    BAD_PAGE,
    BAD_PRINCIPAL,
    NO_WAREHOUSE,
    OBJECT_TYPES,
    PAGE,
    PAGE_NAMES,
    PRINCIPAL,
    PRINCIPAL_NAMES,
    PROJECT_ERRORS,
    PROJECT_HEADER,
    WAREHOUSE_ID,
)
from tenancy.actor import Grantee
from tenancy.models import Project, Securable
from tenancy.refs import securable_id
from tenancy.selectors.access_reviews import (
    read_all,
    read_page,
    review_object_for,
    review_objects_for,
    review_sources_for,
)
from tenancy.selectors.objects import RightsTarget, find_role_target
from tenancy.selectors.roles import role_not_found

T = Securable.Type
TAGS: Final = ["access-review"]
FORMAT: Final = OpenApiParameter(
    "format",
    OpenApiTypes.STR,
    enum=["json", "csv"],
    description="Takes precedence over `Accept`. CSV is not paged; an incomplete file ends with a closed connection",
)
REVIEWED_ON: Final = (
    T.SERVER, T.PROJECT, T.WAREHOUSE, T.NAMESPACE, T.TABLE, T.VIEW, T.GENERIC_TABLE, T.ROLE, T.TAG,
)  # fmt: skip
_BAD_PRINCIPAL: Final = f"`MissingGrantPrincipal`, {BAD_PRINCIPAL}"
_NOBODY: Final = "`UserNotFound`, `RoleIdNotFound`"


def _asks_for_csv(request: Request, known: Collection[str]) -> bool:
    """Raises `BadRequest` for parameters that are not known, and for pages of CSV."""
    require_parameters(request, (*known, *PAGE_NAMES, "format"))
    is_csv = wants_csv(request)
    if is_csv and any(name in request.GET for name in PAGE_NAMES):
        raise BadRequest("CSV is not paged: pageToken and pageSize are not allowed")
    return is_csv


def _either(shape: type[KebabSerializer], rows: str, header: Sequence[str]) -> dict[Any, Any]:
    """The answer as JSON and as CSV."""
    columns = OpenApiExample("columns", summary=rows, value=",".join(header) + "\r\n", media_type=CSV)
    return {
        (200, "application/json"): OpenApiResponse(shape, "OK"),
        (200, CSV): OpenApiResponse(OpenApiTypes.STR, "OK", examples=[columns]),
    }


class ObjectReviewView(GrantedView):
    def reviewed(self, project: Project | None) -> RightsTarget:
        if self.kind is not T.ROLE or project is None:
            return self.target()
        role_id = self.path_id("role_id", lambda text: role_not_found(text, project))
        return find_role_target(actor=self.actor, project=project, role_id=role_id)

    def get(self, request: Request, **names: str) -> HttpResponseBase:
        is_csv = _asks_for_csv(request, ())
        project = None if self.kind is T.SERVER else self.project()
        target = self.reviewed(project)
        own_id = securable_id(*target.ref)
        page = self.page(listing_key("access-review", own_id))
        chunk = review_object_for(
            actor=self.actor, target=target, project=project, is_export=is_csv, name_objects=name_objects
        )
        if is_csv:
            return csv_answer("access-review", OBJECT_HEADER, object_review_rows(read_all(chunk), own_id))
        found, token = read_page(chunk, page, page.after_key())
        return Response(object_review_json(found, own_id, token))


class PrincipalReviewView(ManagementView):
    @extend_schema(
        operation_id="review_principal",
        tags=TAGS,
        summary="List a principal's grants and their effective permissions",
        description="Each grant on an object of the project or on the server, direct or through roles, and each "
        "role membership, in order of creation. `below` lists the privileges that apply to everything in the object. "
        "Grants that are hidden from the caller are omitted, so a page may have fewer entries than its size. Roles "
        "from tokens are known for the caller only. Unknown parameters are an error. The request is audited.",
        parameters=[*PRINCIPAL, *PAGE, FORMAT, PROJECT_HEADER],
        responses=operation_responses(
            _either(PrincipalReviewResponse, "A row for each grant", PLACES_HEADER),
            {
                400: f"{_BAD_PRINCIPAL}, {BAD_PAGE}, {PROJECT_ERRORS[400]}",
                403: "`GrantActionForbidden`",
                404: f"{PROJECT_ERRORS[404]}, {_NOBODY}",
            },
        ),
    )
    def get(self, request: Request) -> HttpResponseBase:
        is_csv = _asks_for_csv(request, PRINCIPAL_NAMES)
        grantee, project = required_grant_principal(request.GET), self.project()
        page = self.page(listing_key("access-review-of", project.pk, grantee))
        chunk = review_sources_for(
            actor=self.actor, project=project, grantee=grantee, is_export=is_csv, name_objects=name_objects
        )
        if is_csv:
            return csv_answer("access-review", PLACES_HEADER, places_rows(read_all(chunk)))
        after = page.after_id()
        found, token = read_page(chunk, page, "" if after == MIN_ID else str(after))
        return Response(principal_review_json(found, is_instance_admin=_is_admin(grantee), token=token))


class ReachedObjectsView(RightsView):
    kind = T.WAREHOUSE

    @extend_schema(
        operation_id="review_reached_objects",
        tags=TAGS,
        summary="List the objects of a warehouse that a principal can access",
        description="The warehouse and the objects in it on which the principal has a permission, parents first. "
        "Objects that are hidden from the caller are omitted, so a page may have fewer entries than its size: only the "
        "page without `next-page-token` is the last. Unknown parameters are an error. The request is audited.",
        parameters=[WAREHOUSE_ID, *PRINCIPAL, *PAGE, FORMAT, PROJECT_HEADER],
        responses=operation_responses(
            _either(ReachedObjectsResponse, "A row for each object and grant", REACHED_HEADER),
            {
                400: f"{_BAD_PRINCIPAL}, {BAD_PAGE}, {PROJECT_ERRORS[400]}",
                403: "`GrantActionForbidden`",
                404: f"{NO_WAREHOUSE}, {PROJECT_ERRORS[404]}, {_NOBODY}",
            },
        ),
    )
    def get(self, request: Request, **names: Any) -> HttpResponseBase:
        is_csv = _asks_for_csv(request, PRINCIPAL_NAMES)
        grantee, project = required_grant_principal(request.GET), self.project()
        target = find_target(actor=self.actor, key=self.object_key(), project=project)
        page = self.page(listing_key("reached-objects", securable_id(*target.ref), grantee))
        chunk = review_objects_for(
            actor=self.actor,
            project=project,
            grantee=grantee,
            warehouse=target,
            is_export=is_csv,
            name_objects=name_objects,
        )
        if is_csv:
            return csv_answer("reached-objects", REACHED_HEADER, reached_rows(read_all(chunk)))
        found, token = read_page(chunk, page, page.after_key())
        return Response(reached_objects_json(found, is_instance_admin=_is_admin(grantee), token=token))


def _is_admin(grantee: Grantee) -> bool:
    return grantee.user_id in settings.ICEKEEPER.instance_admins


def _object_view(kind: Securable.Type) -> type[ObjectReviewView]:
    told = OBJECT_TYPES[kind]
    in_project = kind is not T.SERVER
    gone = [each for each in (told.missing, PROJECT_ERRORS[404] if in_project else None) if each]
    bad = [BAD_PAGE, *([PROJECT_ERRORS[400]] if in_project else [])]
    refusals = {400: ", ".join(bad), 403: "The type's own, such as `TableActionForbidden`"}
    described = extend_schema_view(
        get=extend_schema(
            operation_id=f"review_{told.word}_access",
            tags=TAGS,
            summary=f"List effective permissions on {told.noun}",
            description="All roles and then all users with a permission on the object: by grants on the object and its "
            "parents, through nested roles, or as owners. Needs the permission to read the grants on it. A page "
            "may have "
            "fewer entries than its size: only the page without `next-page-token` is the last. Unknown parameters are "
            "an error. The request is audited.",
            parameters=[*told.parameters, *PAGE, FORMAT, *([PROJECT_HEADER] if in_project else [])],
            responses=operation_responses(
                _either(ObjectReviewResponse, "A row for each principal and grant", OBJECT_HEADER),
                refusals | ({404: ", ".join(dict.fromkeys(gone))} if gone else {}),
            ),
        )
    )
    made: type[ObjectReviewView] = type(f"{told.shape}AccessReviewView", (ObjectReviewView,), {"kind": kind})
    return described(made)


OBJECT_REVIEW_VIEWS: Final = {kind: _object_view(kind) for kind in REVIEWED_ON}
