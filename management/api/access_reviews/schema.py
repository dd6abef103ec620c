"""OpenAPI descriptions of access reviews."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse

from management.access_review_csv import OBJECT_HEADER, PRINCIPAL_HEADER, REACHED_HEADER
from management.api.access_reviews.serializers import (
    ObjectReviewResponse,
    PrincipalReviewResponse,
    ReachedObjectsResponse,
)
from management.api.schema import (
    BAD_PAGE,
    BAD_PRINCIPAL,
    BAD_PROJECT,
    GRANT_DENIED,
    NO_PRINCIPAL,
    NO_PROJECT,
    NO_WAREHOUSE,
    OBJECT_TYPES,
    PAGE,
    PRINCIPAL,
    PROJECT_HEADER,
    WAREHOUSE_ID,
    Operation,
    describe,
    operation,
)
from management.api.serializers import ResponseSerializer
from management.csv_files import CSV
from tenancy.models import Securable

_operation = partial(operation, tag="access-review")
FORMAT: Final = OpenApiParameter(
    "format",
    OpenApiTypes.STR,
    enum=["json", "csv"],
    description="Takes precedence over `Accept`. CSV is not paged; an incomplete file ends with a closed connection",
)
BAD_QUERY: Final = f"`MissingGrantPrincipal`, {BAD_PRINCIPAL}, {BAD_PAGE}, {BAD_PROJECT}"


def _json_or_csv(shape: type[ResponseSerializer], rows: str, header: Sequence[str]) -> dict[Any, Any]:
    columns = OpenApiExample("columns", summary=rows, value=",".join(header) + "\r\n", media_type=CSV)
    return {
        (200, "application/json"): OpenApiResponse(shape, "OK"),
        (200, CSV): OpenApiResponse(OpenApiTypes.STR, "OK", examples=[columns]),
    }


describe_principal_reviews = describe(
    list=_operation(
        "review_principal",
        "List a principal's grants and their effective permissions",
        description="Each grant on an object of the project or on the server, direct or through roles, and each "
        "role membership, in order of creation. `below` lists the privileges that apply to everything in the object. "
        "Grants that are hidden from the caller are omitted, so a page may have fewer entries than its size. Roles "
        "from tokens are known for the caller only. Unknown parameters are an error. The request is audited.",
        parameters=[*PRINCIPAL, *PAGE, FORMAT, PROJECT_HEADER],
        success=_json_or_csv(PrincipalReviewResponse, "A row for each grant", PRINCIPAL_HEADER),
        errors={400: BAD_QUERY, 403: GRANT_DENIED, 404: f"{NO_PROJECT}, {NO_PRINCIPAL}"},
    )
)

describe_reached_objects = describe(
    list=_operation(
        "review_reached_objects",
        "List the objects of a warehouse that a principal can access",
        description="The warehouse and the objects in it on which the principal has a permission, parents first. "
        "Objects that are hidden from the caller are omitted, so a page may have fewer entries than its size: only the "
        "page without `next-page-token` is the last. Unknown parameters are an error. The request is audited.",
        parameters=[WAREHOUSE_ID, *PRINCIPAL, *PAGE, FORMAT, PROJECT_HEADER],
        success=_json_or_csv(ReachedObjectsResponse, "A row for each object and grant", REACHED_HEADER),
        errors={400: BAD_QUERY, 403: GRANT_DENIED, 404: f"{NO_WAREHOUSE}, {NO_PROJECT}, {NO_PRINCIPAL}"},
    )
)


def describe_object_reviews(securable_type: Securable.Type) -> Mapping[str, Operation]:
    """Return the description of the review of objects of a type."""
    kind = OBJECT_TYPES[securable_type]
    in_project = securable_type is not Securable.Type.SERVER
    missing = NO_PROJECT if in_project and NO_PROJECT not in (kind.missing or "") else None
    return {
        "list": _operation(
            f"review_{kind.word}_access",
            f"List effective permissions on {kind.noun}",
            description="All roles and then all users with a permission on the object: by grants on the object and its "
            "parents, through nested roles, or as owners. Needs the permission to read the grants on it. A page may "
            "have fewer entries than its size: only the page without `next-page-token` is the last. Unknown parameters "
            "are an error. The request is audited.",
            parameters=[*kind.parameters, *PAGE, FORMAT, *([PROJECT_HEADER] if in_project else [])],
            success=_json_or_csv(ObjectReviewResponse, "A row for each principal and grant", OBJECT_HEADER),
            errors={
                **kind.errors(BAD_PAGE, *([BAD_PROJECT] if in_project else []), missing=missing),
                403: "The error of the type, such as `TableActionForbidden`",
            },
        )
    }
