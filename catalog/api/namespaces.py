"""Namespaces: list, create, load, drop, and their properties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NotRequired, TypedDict

from django.http import HttpRequest, HttpResponse

from catalog.api.base import CatalogViewSet, json_response, no_content
from catalog.api.operation import (
    BAD_PAGE,
    IDEMPOTENCY_KEY,
    LISTING,
    NAMESPACE_PATH,
    NO_NAMESPACE,
    NO_WAREHOUSE,
    RETURN_PROTECTION,
    RETURN_UUIDS,
    TOO_LARGE,
    WAREHOUSE_PATH,
    QueryFlag,
    QueryText,
    exists_operation,
    operation,
)
from catalog.identifiers import Levels
from catalog.selectors.namespaces import ListedNamespace, get_namespace_for, list_namespaces_for
from catalog.services.namespaces.create import create_namespace
from catalog.services.namespaces.drop import drop_namespace, drop_subtree
from catalog.services.namespaces.properties import update_namespace_properties
from icekeeper.kernel.errors.types import NoSuchNamespace
from icekeeper.kernel.http.openapi import empty_response
from icekeeper.kernel.http.raw_path import decode_segment, split_levels
from icekeeper.kernel.json.shapes import Uuid


class CreateNamespaceRequest(TypedDict):
    namespace: Annotated[Levels, "Its levels, from the first; at most 5, and all parents must exist"]
    properties: NotRequired[
        Annotated[
            dict[str, str] | None,
            "`location` sets, for good, the folder in the warehouse that its tables are created in; default: by the "
            "storage layout of the warehouse. `namespace_id` and `managed_access` are ignored. Keys may be in any case",
        ]
    ]


class NamespaceResponse(TypedDict):
    namespace: Annotated[Levels, "Its levels"]
    properties: Annotated[dict[str, str], "With `namespace_id` and `location`, which ends with a slash"]


LoadNamespaceResponse = TypedDict(
    "LoadNamespaceResponse",
    {
        "namespace": Annotated[Levels, "Its levels"],
        "properties": Annotated[dict[str, str], "With `namespace_id` and `location`, which ends with a slash"],
        "namespace-uuid": NotRequired[Annotated[Uuid, "With `returnUuid`"]],
    },
)
ListNamespacesResponse = TypedDict(
    "ListNamespacesResponse",
    {
        "namespaces": Annotated[list[Levels], "Direct children, in order of creation"],
        "namespace-uuids": NotRequired[Annotated[list[Uuid], "With `returnUuids`, in the order of `namespaces`"]],
        "protection-status": NotRequired[Annotated[list[bool], "With `returnProtectionStatus`, in the same order"]],
        "next-page-token": NotRequired[Annotated[str, "Absent on the last page"]],
    },
)


class UpdateNamespacePropertiesRequest(TypedDict):
    removals: NotRequired[Annotated[list[str] | None, "Keys to remove"]]
    updates: NotRequired[Annotated[dict[str, str] | None, "Keys to set"]]


class UpdateNamespacePropertiesResponse(TypedDict):
    updated: Annotated[list[str], "Keys that were set"]
    removed: Annotated[list[str], "Keys that were removed"]
    missing: Annotated[list[str], "Keys to remove that did not exist"]


PARENT: Final = QueryText("parent", "The levels of the parent namespace, joined by U+001F")
RETURN_UUID: Final = QueryFlag("returnUuid", "Also return `namespace-uuid`")
RECURSIVE: Final = QueryFlag(
    "recursive",
    "Also when it is not empty: everything in it is dropped for good. In a soft-delete warehouse only with `force`",
)
PURGE: Final = QueryFlag("purge", "With `recursive`: also delete the files, by tasks that are queued")
FORCE_ALL: Final = QueryFlag("force", "Also when it, or something in it, is protected")


class NamespaceViewSet(CatalogViewSet):
    @operation(
        "listNamespaces",
        "List the children of a namespace, or of the first level",
        path=WAREHOUSE_PATH,
        parameters=[*LISTING, PARENT],
        response=ListNamespacesResponse,
        errors={400: BAD_PAGE, 404: NO_NAMESPACE},
    )
    def list(self, request: HttpRequest) -> HttpResponse:
        parent = PARENT.read(request)
        with_uuids = RETURN_UUIDS.read(request)
        with_protection = RETURN_PROTECTION.read(request)
        try:
            namespaces, token = self._list_children(request, parent)
        except NoSuchNamespace:
            # PyIceberg and older Java clients encode this one parameter twice.
            if parent is None or "%" not in parent:
                raise
            namespaces, token = self._list_children(request, decode_segment(parent))
        listing: ListNamespacesResponse = {"namespaces": [each.levels for each in namespaces]}
        if with_uuids:
            listing["namespace-uuids"] = [str(each.id) for each in namespaces]
        if with_protection:
            listing["protection-status"] = [each.is_protected for each in namespaces]
        if token is not None:
            listing["next-page-token"] = token
        return json_response(listing)

    @operation(
        "createNamespace",
        "Create a namespace",
        path=WAREHOUSE_PATH,
        parameters=[IDEMPOTENCY_KEY],
        request=CreateNamespaceRequest,
        response=NamespaceResponse,
        errors={
            400: "`NamespaceDepthExceeded`, `ReservedNamespace`; `InvalidLocation`: not in the warehouse",
            404: f"{NO_WAREHOUSE}, `NoSuchNamespaceException`: the parent",
            409: "`AlreadyExistsException`; `LocationAlreadyTaken`: it is in the folder of a table",
            413: TOO_LARGE,
        },
    )
    def create(self, request: HttpRequest) -> HttpResponse:
        body, idempotency_key = self.body(request, CreateNamespaceRequest), self.idempotency_key(request)
        created = self.run_idempotent(
            idempotency_key,
            lambda: create_namespace(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                levels=body.get("namespace"),
                properties=body.get("properties"),
                idempotency_key=idempotency_key,
            ).as_json(),
        )
        return json_response(created)

    @operation(
        "loadNamespaceMetadata",
        "Load a namespace and its properties",
        path=NAMESPACE_PATH,
        parameters=[RETURN_UUID],
        response=LoadNamespaceResponse,
        errors={404: NO_NAMESPACE},
    )
    def load(self, request: HttpRequest) -> HttpResponse:
        with_uuid = RETURN_UUID.read(request)
        found = get_namespace_for(actor=self.actor, warehouse_id=self.warehouse_id, levels=self.levels)
        namespace: LoadNamespaceResponse = {"namespace": found.levels, "properties": found.properties}
        if with_uuid:
            namespace["namespace-uuid"] = str(found.id)
        return json_response(namespace)

    @exists_operation("namespaceExists", "Check whether a namespace exists", path=NAMESPACE_PATH)
    def exists(self, request: HttpRequest) -> HttpResponse:
        get_namespace_for(actor=self.actor, warehouse_id=self.warehouse_id, levels=self.levels)
        return no_content()

    @operation(
        "dropNamespace",
        "Drop an empty namespace, or one with all its contents",
        path=NAMESPACE_PATH,
        parameters=[RECURSIVE, PURGE, FORCE_ALL, IDEMPOTENCY_KEY],
        response=empty_response("Dropped"),
        errors={
            400: "`NamespaceDeleteNotAllowed`: recursive, in a soft-delete warehouse, without `force`",
            404: NO_NAMESPACE,
            409: "`NamespaceNotEmptyException`, `NamespaceProtected`, `ChildNamespaceProtected`, "
            "`ChildTabularProtected`, `NamespaceHasRunningTabularExpirations`",
        },
    )
    def drop(self, request: HttpRequest) -> HttpResponse:
        idempotency_key = self.idempotency_key(request)
        force, purge, is_recursive = FORCE_ALL.read(request), PURGE.read(request), RECURSIVE.read(request)

        def drop() -> None:
            actor, warehouse_id, levels = self.actor, self.warehouse_id, self.levels
            if is_recursive:
                drop_subtree(
                    actor=actor,
                    warehouse_id=warehouse_id,
                    levels=levels,
                    purge=purge,
                    force=force,
                    idempotency_key=idempotency_key,
                )
            else:
                drop_namespace(
                    actor=actor,
                    warehouse_id=warehouse_id,
                    levels=levels,
                    force=force,
                    idempotency_key=idempotency_key,
                )

        self.run_idempotent(idempotency_key, drop)
        return no_content()

    @operation(
        "updateProperties",
        "Set and remove properties of a namespace",
        path=NAMESPACE_PATH,
        parameters=[IDEMPOTENCY_KEY],
        request=UpdateNamespacePropertiesRequest,
        response=UpdateNamespacePropertiesResponse,
        errors={
            400: "`LocationCannotBeUpdated`, `LocationCannotBeRemoved`",
            404: NO_NAMESPACE,
            413: TOO_LARGE,
            422: "`UnprocessableEntityException`: a key is in both updates and removals",
        },
    )
    def update_properties(self, request: HttpRequest) -> HttpResponse:
        body, idempotency_key = self.body(request, UpdateNamespacePropertiesRequest), self.idempotency_key(request)
        changes = self.run_idempotent(
            idempotency_key,
            lambda: update_namespace_properties(
                actor=self.actor,
                warehouse_id=self.warehouse_id,
                levels=self.levels,
                removals=body.get("removals"),
                updates=body.get("updates"),
                idempotency_key=idempotency_key,
            ).as_json(),
        )
        return json_response(changes)

    def _list_children(self, request: HttpRequest, parent: str | None) -> tuple[Sequence[ListedNamespace], str | None]:
        levels = split_levels(parent) if parent else None
        return list_namespaces_for(
            actor=self.actor,
            warehouse_id=self.warehouse_id,
            parent=levels,
            page=self.page(request, "namespaces", levels or ()),
        )
