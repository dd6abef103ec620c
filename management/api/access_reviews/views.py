"""Access reviews of objects and principals, in pages of JSON or complete as CSV."""

from __future__ import annotations

from collections.abc import Collection

from django.conf import settings
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from catalog.objects import name_objects
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import MIN_ID, listing_key
from management.access_review_csv import (
    OBJECT_HEADER,
    PRINCIPAL_HEADER,
    REACHED_HEADER,
    object_review_rows,
    principal_review_rows,
    reached_object_rows,
    reviewed_object,
)
from management.api.access_reviews.csv_export import wants_csv
from management.api.access_reviews.schema import (
    describe_object_reviews,
    describe_principal_reviews,
    describe_reached_objects,
)
from management.api.access_reviews.serializers import (
    ObjectReviewResponse,
    PrincipalReviewResponse,
    ReachedObjectsResponse,
)
from management.api.base import ManagementViewSet, ObjectViewSet, require_parameters
from management.api.schema import PAGE_NAMES, PRINCIPAL_NAMES, OperationsByType
from management.api.serializers import required_grant_principal
from management.csv_files import csv_response
from tenancy.actor import Grantee
from tenancy.models import Securable
from tenancy.models.securable import securable_id
from tenancy.selectors.access_reviews import (
    read_all,
    read_page,
    review_object_for,
    review_objects_for,
    review_sources_for,
)


class ObjectReviewViewSet(ObjectViewSet):
    """The principals with permissions on an object, which is in the request's project."""

    schema = OperationsByType(describe_object_reviews)  # type: ignore[assignment]  # it depends on the route

    def list(self, request: Request, **path: str) -> HttpResponseBase:
        is_csv = _is_csv(request, ())
        project = None if self.securable_type is Securable.Type.SERVER else self.project()
        target = self.target(project)
        own_id = securable_id(*target.ref)
        page = self.page(listing_key("access-review", own_id))
        review = review_object_for(
            actor=self.actor, target=target, project=project, is_export=is_csv, name_objects=name_objects
        )
        if is_csv:
            return csv_response("access-review", OBJECT_HEADER, object_review_rows(read_all(review), own_id))
        found, token = read_page(review, page, page.after_key())
        content = {
            "object": reviewed_object(own_id, found.names),
            "principals": found.entries,
            "next_page_token": token,
        }
        return self.respond(ObjectReviewResponse, content, names=found.names)


@describe_principal_reviews
class PrincipalReviewViewSet(ManagementViewSet):
    def list(self, request: Request) -> HttpResponseBase:
        is_csv = _is_csv(request, PRINCIPAL_NAMES)
        grantee, project = required_grant_principal(request.GET), self.project()
        page = self.page(listing_key("access-review-of", project.pk, grantee))
        review = review_sources_for(
            actor=self.actor, project=project, grantee=grantee, is_export=is_csv, name_objects=name_objects
        )
        if is_csv:
            return csv_response("access-review", PRINCIPAL_HEADER, principal_review_rows(read_all(review)))
        after = page.after_id()
        found, token = read_page(review, page, "" if after == MIN_ID else str(after))
        content = {"is_instance_admin": _is_instance_admin(grantee), "places": found.entries, "next_page_token": token}
        return self.respond(PrincipalReviewResponse, content, names=found.names)


@describe_reached_objects
class ReachedObjectsViewSet(ObjectViewSet):
    securable_type = Securable.Type.WAREHOUSE

    def list(self, request: Request, **path: str) -> HttpResponseBase:
        is_csv = _is_csv(request, PRINCIPAL_NAMES)
        grantee, project = required_grant_principal(request.GET), self.project()
        warehouse = self.target(project)
        page = self.page(listing_key("reached-objects", securable_id(*warehouse.ref), grantee))
        review = review_objects_for(
            actor=self.actor,
            project=project,
            grantee=grantee,
            warehouse=warehouse,
            is_export=is_csv,
            name_objects=name_objects,
        )
        if is_csv:
            return csv_response("reached-objects", REACHED_HEADER, reached_object_rows(read_all(review)))
        found, token = read_page(review, page, page.after_key())
        content = {"is_instance_admin": _is_instance_admin(grantee), "objects": found.entries, "next_page_token": token}
        return self.respond(ReachedObjectsResponse, content, names=found.names)


def _is_csv(request: Request, parameters: Collection[str]) -> bool:
    """Whether the request is for CSV. Raises `BadRequest` for parameters other than these and for pages of CSV."""
    require_parameters(request, (*parameters, *PAGE_NAMES, "format"))
    is_csv = wants_csv(request)
    if is_csv and any(name in request.GET for name in PAGE_NAMES):
        raise BadRequest("CSV is not paged: pageToken and pageSize are not allowed")
    return is_csv


def _is_instance_admin(grantee: Grantee) -> bool:
    return grantee.user_id in settings.ICEKEEPER.instance_admins
