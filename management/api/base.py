"""The one way into `/management`: know the caller, read strict JSON, find pages and projects where all routes do."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from catalog.selectors.warehouses import conceal_warehouse
from icekeeper.kernel.errors.types import BadRequest, CatalogError, NoSuchWarehouse
from icekeeper.kernel.http.paging import MAX_PAGE_SIZE, Page, page_with_size
from icekeeper.kernel.http.raw_path import decode_segment
from icekeeper.kernel.ids import parse_id
from tenancy.actor import Actor
from tenancy.authn.requests import authenticate_request
from tenancy.models import Project
from tenancy.selectors.projects import get_project, named_project_id

READS = frozenset({"GET", "HEAD", "OPTIONS"})

PROJECT_HEADER = OpenApiParameter(
    "x-project-id", OpenApiTypes.STR, OpenApiParameter.HEADER, description="The project; default: the default project"
)
LAST_ADMINISTRATOR = "`LastAdministrator`: nobody would administrate a project or the server any more"
PROJECT_REFUSALS = {400: "`ProjectIdMissing`, `MalformedProjectID`", 404: "`ProjectNotFound`"}
PAGE = [
    OpenApiParameter("pageToken", OpenApiTypes.STR, description="`next-page-token` of the page before"),
    OpenApiParameter(
        "pageSize",
        {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE},
        description="Entries of a page; the server has a default and a largest size",
    ),
]
BAD_PAGE = "`InvalidPaginationToken`"
EXTENSIONS_HEADER = OpenApiParameter(
    "x-icekeeper-extensions",
    OpenApiTypes.BOOL,
    OpenApiParameter.HEADER,
    default=False,
    description="Also return the members that Lakekeeper's API does not have",
)
WITH_EXTENSIONS = "Only with `x-icekeeper-extensions: true`"
WAREHOUSE_ID = OpenApiParameter(
    "warehouse_id", OpenApiTypes.UUID, OpenApiParameter.PATH, description="Its `id`; the catalog calls it `prefix`"
)
NO_WAREHOUSE = "`NoSuchWarehouseException`"


class ManagementView(APIView):
    """A resource of the management API. `actor` is the caller."""

    actor: Actor
    posts_read: ClassVar = False
    """Whether a POST changes nothing either."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        self.actor = authenticate_request(request, is_reading=self.posts_read or request.method in READS)

    def handle_exception(self, exc: Exception) -> Response:
        """The answer to an error, less what the caller may not know of the warehouse in the path."""
        if "warehouse_id" in self.kwargs and isinstance(exc, CatalogError) and hasattr(self, "actor"):
            try:
                exc = conceal_warehouse(self.actor, self.warehouse_id, exc)
            except Exception as another:  # noqa: BLE001 - no id, or rights could not be asked about
                exc = another
        return super().handle_exception(exc)

    def body(self, shape: type[serializers.Serializer[Any]]) -> dict[str, Any]:
        """The checked members of the request's body; those that the shape does not know are left out."""
        given = shape(data=self.request.data)
        given.is_valid(raise_exception=True)
        members: dict[str, Any] = given.validated_data
        return members

    def project(self, named: str | None = None) -> Project:
        """The project that the request means: `named` in its path or body, else by header, else the default one."""
        return get_project(named or named_project_id(self.request.META))

    @property
    def warehouse_id(self) -> UUID:
        """Of the warehouse in the path."""
        text = decode_segment(self.kwargs["warehouse_id"])
        warehouse_id = parse_id(text)
        if warehouse_id is None:
            raise NoSuchWarehouse(f"Warehouse does not exist: {text[:100]}")
        return warehouse_id

    def flag(self, name: str) -> bool:
        """The query parameter `name`, false unless given. Raises `BadRequest`."""
        given = self.request.GET.get(name, "false").lower()
        if given not in {"true", "false"}:
            raise BadRequest(f"{name}: must be true or false")
        return given == "true"

    def wants_extensions(self) -> bool:
        """Whether the caller asks for members that Lakekeeper's responses do not have: strict clients fail on them.

        Raises `BadRequest`.
        """
        given = self.request.headers.get("x-icekeeper-extensions", "false").lower()
        if given not in {"true", "false"}:
            raise BadRequest("x-icekeeper-extensions: must be true or false")
        return given == "true"

    def page(self, kind: str, *, token: str = "pageToken", size: str = "pageSize") -> Page:  # noqa: S107 - no secret
        """Of the listing of `kind`, to which its tokens are bound; `token` and `size` name the query parameters."""
        limits = settings.ICEKEEPER
        given = self.request.GET.get(token)
        return page_with_size(
            kind,
            given,
            self.request.GET.get(size),
            size,
            default=limits.pagination_size_max if given is None else limits.pagination_size_default,
            maximum=limits.pagination_size_max,
        )


def require_parameters(request: Request, known: Collection[str] = ()) -> None:
    """Raises `BadRequest` for a query parameter that is not known: a misspelled filter would show more than wanted."""
    for name in request.GET:
        if name not in known:
            raise BadRequest(f"{name[:100]!r} is no parameter here")


def no_body() -> HttpResponse:
    """200 for clients that look at the status alone."""
    answer = HttpResponse(status=200)
    del answer.headers["Content-Type"]
    return answer
