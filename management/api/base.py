"""Base classes of the views of `/management`: authentication, bodies, projects, pages, and the object in the path."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from django.urls import URLPattern, path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSetMixin

from catalog.errors import no_such_object
from catalog.objects import ObjectKey, find_namespace_target, find_permission_target
from catalog.selectors.warehouses import conceal_warehouse
from icekeeper.kernel.errors.types import BadRequest, CatalogError
from icekeeper.kernel.http.paging import Page, listing_key, page_with_size
from icekeeper.kernel.http.raw_path import decode_segment
from icekeeper.kernel.ids import parse_id
from management.api.serializers import ResponseSerializer
from storage.errors import no_such_warehouse
from tenancy.actor import Actor
from tenancy.authn.requests import authenticate_request
from tenancy.models import Project, Securable
from tenancy.selectors.objects import PermissionTarget, find_role_target, find_tag_target, target_project, the_server
from tenancy.selectors.projects import get_project, named_project_id, require_project_id
from tenancy.selectors.roles import role_id_not_found, role_not_found
from tenancy.selectors.similarity import DEFAULT_HITS
from tenancy.selectors.tags import tag_id_not_found

READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class ManagementViewSet(ViewSetMixin, APIView):
    """The actions of a resource. `actor` is the caller. Routes for several types of objects set `securable_type`."""

    actor: Actor
    reading_actions: ClassVar[Collection[str]] = ()
    """Actions that change nothing though they are sent as POST."""
    securable_type: Securable.Type = Securable.Type.SERVER

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        is_reading = self.action in self.reading_actions or request.method in READING_METHODS
        self.actor = authenticate_request(request, is_reading=is_reading)

    def handle_exception(self, exc: Exception) -> Response:
        """Render an error. Errors about the warehouse in the path do not disclose what is hidden from the caller."""
        if "warehouse_id" in self.kwargs and isinstance(exc, CatalogError) and hasattr(self, "actor"):
            try:
                exc = conceal_warehouse(self.actor, self.warehouse_id, exc)
            except Exception as another:  # noqa: BLE001 - no valid id, or an error of the authorizer
                exc = another
        return super().handle_exception(exc)

    def body(self, shape: Callable[..., serializers.Serializer[Any]]) -> dict[str, Any]:
        """Return the validated members of the request's body, without those that the shape does not have."""
        given = shape(data=self.request.data)
        given.is_valid(raise_exception=True)
        members: dict[str, Any] = given.validated_data
        return members

    def project(self, named: str | None = None) -> Project:
        """Return the project of the request: `named` in path or body, else the header's, else the default."""
        return get_project(named or named_project_id(self.request.META))

    @property
    def project_of_query(self) -> Project:
        """The project of the deprecated query parameter, else of the request."""
        return self.project(self.request.GET.get("projectId"))

    @property
    def warehouse_id(self) -> UUID:
        """The id of the warehouse in the path. Raises `NoSuchWarehouse`."""
        return self.path_id("warehouse_id", no_such_warehouse)

    def path_text(self, name: str) -> str:
        """Return the decoded segment `name` of the path."""
        return decode_segment(self.kwargs[name])

    def path_id(self, name: str, missing: Callable[[str], CatalogError]) -> UUID:
        """Return the UUID in the segment `name` of the path. Raises what `missing` returns for other text."""
        text = self.path_text(name)
        parsed = parse_id(text)
        if parsed is None:
            raise missing(text[:100])
        return parsed

    def flag(self, name: str) -> bool:
        """Return the query parameter `name`, false by default. Raises `BadRequest`."""
        return _read_flag(name, self.request.GET.get(name, "false"))

    def wants_extensions(self) -> bool:
        """Return whether the response may have members that Lakekeeper's does not have: strict clients fail on them.

        Raises `BadRequest`.
        """
        return _read_flag("x-icekeeper-extensions", self.request.META.get("HTTP_X_ICEKEEPER_EXTENSIONS", "false"))

    def page(self, kind: str, *, token: str = "pageToken", size: str = "pageSize") -> Page:  # noqa: S107 - no secret
        """Return the page of the listing `kind`; `token` and `size` name the query parameters."""
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

    def search_page(self, kind: str, body: dict[str, Any], *bounds: object) -> Page:
        """Return the page of a `SearchRequest`; its token is bound to the text and to `bounds`."""
        size = min(body.get("page_size") or DEFAULT_HITS, settings.ICEKEEPER.pagination_size_max)
        return Page(listing_key(kind, body["search"], *bounds), body.get("page_token"), size)

    def respond(self, shape: type[ResponseSerializer], content: Any, *, status: int = 200, **context: Any) -> Response:
        """Render `content` with `shape`, whose methods see `context`."""
        return Response(shape(content, context=context).data, status=status)

    def respond_page(
        self, shape: type[ResponseSerializer], name: str, found: tuple[Sequence[Any], str | None], **context: Any
    ) -> Response:
        """Render a page of a listing, whose entries are the member `name` of `shape`."""
        entries, token = found
        return self.respond(shape, {name: entries, "next_page_token": token}, **context)

    def respond_hits(
        self,
        shape: type[ResponseSerializer],
        name: str,
        found: tuple[Sequence[Any], str | None],
        body: dict[str, Any],
        **context: Any,
    ) -> Response:
        """Render a page of hits. Only requests for a page get a token: Lakekeeper's searches have no pages."""
        hits, token = found
        has_page = body.get("page_size") is not None or body.get("page_token") is not None
        return self.respond_page(shape, name, (hits, token if has_page else None), **context)


def _read_flag(name: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise BadRequest(f"{name}: must be true or false")
    return text.lower() == "true"


def require_parameters(request: Request, known: Collection[str] = ()) -> None:
    """Reject unknown query parameters: a misspelled filter would show more than wanted. Raises `BadRequest`."""
    for name in request.GET:
        if name not in known:
            raise BadRequest(f"{name[:100]!r} is not a parameter of this operation")


def no_body() -> HttpResponse:
    """Return status 200 without a body or content type."""
    response = HttpResponse(status=200)
    del response.headers["Content-Type"]
    return response


T = Securable.Type
WAREHOUSE_PATH: Final = "v1/warehouse/<str:warehouse_id>"
OBJECT_PATHS: Final[Mapping[Securable.Type, str]] = {
    T.SERVER: "v1/server",
    T.PROJECT: "v1/project",
    T.WAREHOUSE: WAREHOUSE_PATH,
    T.NAMESPACE: f"{WAREHOUSE_PATH}/namespace/<str:namespace_id>",
    T.TABLE: f"{WAREHOUSE_PATH}/table/<str:table_id>",
    T.VIEW: f"{WAREHOUSE_PATH}/view/<str:view_id>",
    T.GENERIC_TABLE: f"{WAREHOUSE_PATH}/generic-table/<str:generic_table_id>",
    T.TAG: "v1/tag-definition/<str:tag_definition_id>",
    T.ROLE: "v1/role/<str:role_id>",
    T.USER: "v1/user/<str:user_id>",
}
PERMISSION_PATHS: Final[Mapping[Securable.Type, str]] = {
    **{kind: f"v1/permissions/{OBJECT_PATHS[kind].removeprefix('v1/')}" for kind in T if kind is not T.USER},
    T.NAMESPACE: "v1/permissions/namespace/<str:namespace_id>",
    T.TAG: "v1/permissions/tag/<str:tag_definition_id>",
}
PERMISSION_PROJECT_PATH: Final = "v1/permissions/project/<str:project_id>"


def object_routes(
    paths: Mapping[Securable.Type, str],
    kinds: Iterable[Securable.Type],
    ending: str,
    view: type[ObjectViewSet],
    actions: Mapping[str, str],
    *,
    name: str = "",
) -> list[URLPattern]:
    """Return the routes of one view for several types of objects: `ending` comes after the path of the object.

    They are called `name`, by default `ending`, after the type.
    """
    return [
        path(
            f"{paths[kind]}/{ending}".rstrip("/"),
            view.as_view(dict(actions), securable_type=kind),
            name=f"{kind}-{name or ending}",
        )
        for kind in kinds
    ]


class ObjectViewSet(ManagementViewSet):
    """Routes below the path of an object of the type `securable_type`."""

    @property
    def object_id(self) -> UUID:
        """The id, in the path, of an object in a warehouse. Raises the 404 of its type."""
        kind = self.securable_type.value
        name = "object_id" if "object_id" in self.kwargs else f"{kind.replace('-', '_')}_id"
        return self.path_id(name, lambda text: no_such_object(kind, text))

    @property
    def object_key(self) -> ObjectKey:
        """The warehouse in the path, or the object in it."""
        if self.securable_type is T.WAREHOUSE:
            return ObjectKey(T.WAREHOUSE, self.warehouse_id)
        return ObjectKey(self.securable_type, self.warehouse_id, self.object_id)

    def target(self, project: Project | None = None) -> PermissionTarget:
        """Return the object in the path, with `project` only if it is in that project. Raises the 404 of its type.

        Permissions are not checked: the target has the error for callers from whom it is hidden.
        """
        match self.securable_type:
            case T.SERVER:
                return the_server()
            case T.PROJECT:
                return target_project(project or self._project())
            case T.ROLE:
                role_id = self.path_id(
                    "role_id", lambda text: role_not_found(text, project) if project else role_id_not_found(text)
                )
                return find_role_target(project=project, role_id=role_id)
            case T.TAG:
                definition_id = self.path_id("tag_definition_id", lambda text: tag_id_not_found(text, project))
                return find_tag_target(project=project, definition_id=definition_id)
            case T.NAMESPACE if "warehouse_id" not in self.kwargs:
                return find_namespace_target(namespace_id=self.object_id)
            case _:
                return find_permission_target(key=self.object_key, project=project)

    def _project(self) -> Project:
        """Return the project in the path, else that of the request."""
        is_named = "project_id" in self.kwargs
        return self.project(require_project_id(self.path_text("project_id")) if is_named else None)
