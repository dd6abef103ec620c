"""Iceberg views: list, create, register, load, replace, drop, rename."""

from __future__ import annotations

from typing import Annotated, Any, Final, NotRequired, TypedDict

from django.http import HttpRequest, HttpResponse

from catalog.api.base import (
    ListTablesResponse,
    RegisterRequest,
    TabularViewSet,
    no_content,
    optional_list,
    rename_operation,
)
from catalog.api.operation import (
    ACCESS_DELEGATION,
    BAD_LOCATION,
    BAD_PAGE,
    COMMIT_DESCRIPTION,
    FORCE,
    IDEMPOTENCY_KEY,
    LISTING,
    NAME_TAKEN,
    NAMESPACE_PATH,
    NO_METADATA_FILE,
    NO_NAMESPACE,
    NO_VIEW,
    PROTECTED,
    PURGE_REQUESTED,
    REFERENCED_BY,
    REQUIREMENTS_DESCRIPTION,
    STORE_FAILED,
    TOO_LARGE,
    TOO_MANY_VIEWS,
    UNKNOWN_STATE,
    UPDATES_DESCRIPTION,
    VIEW_PATH,
    WRITE_ERRORS,
    exists_operation,
    operation,
)
from catalog.api.render import load_view_result
from catalog.iceberg import shapes
from catalog.iceberg.requirements import VIEW_REQUIREMENTS
from catalog.iceberg.views import VIEW_UPDATES
from catalog.identifiers import Identifier
from catalog.models import Tabular
from catalog.selectors.tables.load import load_tabular_for, require_tabular_exists
from catalog.services.tables.create_view import create_view, replace_view
from icekeeper.kernel.http.openapi import empty_response
from icekeeper.kernel.json.shapes import TaggedUnion

VIEW = Tabular.Kind.VIEW

ViewRequirement = Annotated[dict[str, Any], TaggedUnion("ViewRequirement", "type", VIEW_REQUIREMENTS)]
ViewUpdate = Annotated[
    dict[str, Any],
    TaggedUnion("ViewUpdate", "action", {name: kind.members for name, kind in VIEW_UPDATES.items()}, suffix="Update"),
]
CreateViewRequest = TypedDict(
    "CreateViewRequest",
    {
        "name": str,
        "location": NotRequired[
            Annotated[
                str | None,
                "A folder in the warehouse that neither lies in the folder of another table or view nor contains one. "
                "Default: `<location of the namespace>/<view uuid>`",
            ]
        ],
        "schema": shapes.SchemaDocument,
        "view-version": shapes.ViewVersionDocument,
        "properties": NotRequired[dict[str, str] | None],
    },
)
LoadViewResult = TypedDict(
    "LoadViewResult",
    {
        "metadata-location": str,
        "metadata": Annotated[shapes.ViewMetadataDocument, "Exactly the content of the file at `metadata-location`"],
        "config": Annotated[dict[str, str], "Settings for this view; empty on local files"],
    },
)


class CommitViewRequest(TypedDict):
    requirements: NotRequired[Annotated[list[ViewRequirement] | None, REQUIREMENTS_DESCRIPTION]]
    updates: NotRequired[Annotated[list[ViewUpdate] | None, UPDATES_DESCRIPTION]]


class RegisterViewRequest(RegisterRequest):
    pass


_ENGINE_ONLY: Final = "`ProtectedPropertyModification`, `DefinerViewModification`: only a trusted engine may do that"
_ILLEGAL: Final = f"{BAD_LOCATION}; `EmptyView`; `IllegalArgumentException`: two texts of one dialect"


class IcebergViewSet(TabularViewSet):
    kind = VIEW
    name_segment = "view"

    @operation(
        "listViews",
        "List the views of a namespace",
        path=NAMESPACE_PATH,
        parameters=LISTING,
        response=ListTablesResponse,
        errors={400: BAD_PAGE, 404: NO_NAMESPACE},
    )
    def list(self, request: HttpRequest) -> HttpResponse:
        return self.list_tabulars(request)

    @operation(
        "createView",
        "Create a view",
        path=NAMESPACE_PATH,
        parameters=[IDEMPOTENCY_KEY, ACCESS_DELEGATION],
        request=CreateViewRequest,
        response=LoadViewResult,
        errors={
            **WRITE_ERRORS,
            400: _ILLEGAL,
            403: _ENGINE_ONLY,
            404: NO_NAMESPACE,
            409: f"{NAME_TAKEN}; `LocationAlreadyTaken`",
        },
    )
    def create(self, request: HttpRequest) -> HttpResponse:
        body, idempotency_key = self.body(request, CreateViewRequest), self.idempotency_key(request)
        created = self.run_idempotent(
            idempotency_key,
            lambda: create_view(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                levels=self.levels,
                name=body.get("name"),
                schema=body.get("schema"),
                view_version=body.get("view-version"),
                location=body.get("location"),
                properties=body.get("properties"),
                idempotency_key=idempotency_key,
            ),
        )
        identifier = Identifier(self.levels, str(body.get("name")))
        return load_view_result(created, self.access_config_after_write(request, created, identifier))

    @operation(
        "registerView",
        "Register a view by its metadata file",
        path=NAMESPACE_PATH,
        parameters=[IDEMPOTENCY_KEY, ACCESS_DELEGATION],
        request=RegisterViewRequest,
        response=LoadViewResult,
        errors={
            **WRITE_ERRORS,
            400: BAD_LOCATION,
            403: _ENGINE_ONLY,
            404: f"{NO_NAMESPACE}, `NotFoundException`: no such file",
            409: f"{NAME_TAKEN}; `LocationAlreadyTaken`",
        },
    )
    def register(self, request: HttpRequest) -> HttpResponse:
        registered, identifier = self.register_requested(request, self.body(request, RegisterViewRequest))
        return load_view_result(registered, self.access_config_after_write(request, registered, identifier))

    @operation(
        "loadView",
        "Load a view",
        path=VIEW_PATH,
        parameters=[ACCESS_DELEGATION, REFERENCED_BY],
        response=LoadViewResult,
        errors={400: TOO_MANY_VIEWS, 404: f"{NO_VIEW}, {NO_METADATA_FILE}", 503: STORE_FAILED},
    )
    def load(self, request: HttpRequest) -> HttpResponse:
        reader = self.reader(request)
        view = load_tabular_for(
            actor=reader.actor, warehouse_id=self.warehouse_id, identifier=self.identifier, kind=VIEW
        )
        access = self.access_for(request, reader, view)
        return load_view_result(view, self.access_config(request, reader, view, access))

    @exists_operation("viewExists", "Check whether a view exists", path=VIEW_PATH)
    def exists(self, request: HttpRequest) -> HttpResponse:
        require_tabular_exists(actor=self.actor, warehouse_id=self.warehouse_id, identifier=self.identifier, kind=VIEW)
        return no_content()

    @operation(
        "replaceView",
        "Commit updates to a view",
        path=VIEW_PATH,
        parameters=[IDEMPOTENCY_KEY, ACCESS_DELEGATION],
        request=CommitViewRequest,
        response=LoadViewResult,
        description=COMMIT_DESCRIPTION,
        errors={
            **WRITE_ERRORS,
            400: _ILLEGAL,
            403: _ENGINE_ONLY,
            404: NO_VIEW,
            409: "`CommitFailedException`: not committed; `LocationAlreadyTaken`",
            500: UNKNOWN_STATE,
        },
    )
    def replace(self, request: HttpRequest) -> HttpResponse:
        body, idempotency_key = self.body(request, CommitViewRequest), self.idempotency_key(request)
        replaced = self.run_idempotent(
            idempotency_key,
            lambda: replace_view(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                view=self.identifier,
                requirements=optional_list(body.get("requirements"), "requirements"),
                updates=optional_list(body.get("updates"), "updates"),
                idempotency_key=idempotency_key,
            ),
        )
        return load_view_result(replaced, self.access_config_after_write(request, replaced, self.identifier))

    @operation(
        "dropView",
        "Drop a view",
        path=VIEW_PATH,
        parameters=[PURGE_REQUESTED, FORCE, IDEMPOTENCY_KEY],
        response=empty_response("Dropped"),
        errors={404: NO_VIEW, 409: PROTECTED},
    )
    def drop(self, request: HttpRequest) -> HttpResponse:
        return self.drop_requested(request, PURGE_REQUESTED)

    @rename_operation(
        "renameView",
        "Rename a view; its files stay where they are",
        errors={
            404: f"{NO_VIEW}, `NoSuchNamespaceException`: that of the destination",
            409: NAME_TAKEN,
            413: TOO_LARGE,
        },
    )
    def rename(self, request: HttpRequest) -> HttpResponse:
        return self.rename_requested(request)
