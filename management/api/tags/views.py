"""Tag definitions of a project, and the tags of warehouses, namespaces, tables, views, generic tables and columns."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from catalog.selectors.tagged_objects import TagTargetKey, list_column_tags_for, list_tag_attachments_for, list_tags_for
from catalog.services.tags import attach_tag, detach_tag
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.http.paging import listing_key
from management.api.base import ManagementViewSet, ObjectViewSet
from management.api.schema import OperationsByType
from management.api.serializers import read_uuid
from management.api.tags.schema import describe_all_column_tags, describe_tag_definitions, describe_tags
from management.api.tags.serializers import (
    SCOPES,
    AppliedTagResponse,
    ColumnTagListResponse,
    CreateTagDefinitionRequest,
    SetTagRequest,
    TagAttachmentListResponse,
    TagDefinitionListResponse,
    TagDefinitionResponse,
    TagListResponse,
    UpdateTagDefinitionRequest,
)
from tenancy.authz.actions import Can
from tenancy.models import Securable, TagDefinition
from tenancy.selectors.tags import AttachmentFilter, get_tag_definition_for, list_tag_definitions_for, tag_id_not_found
from tenancy.services.tags import create_tag_definition, delete_tag_definition, update_tag_definition


@describe_tag_definitions
class TagDefinitionViewSet(ManagementViewSet):
    @property
    def definition_id(self) -> UUID:
        """The definition in the path, which is one of the request's project."""
        return self.path_id("tag_definition_id", lambda text: tag_id_not_found(text, self.project()))

    def list(self, request: Request) -> Response:
        project, name = self.project(), request.GET.get("name")
        page = self.page(listing_key("tag-definitions", project.pk, name))
        found = list_tag_definitions_for(actor=self.actor, project=project, name=name, page=page)
        return self.respond_page(TagDefinitionListResponse, "tag_definitions", found, is_listed=True)

    def create(self, request: Request) -> Response:
        body = self.body(CreateTagDefinitionRequest)
        definition = create_tag_definition(actor=self.actor, project=self.project(), **body)
        return self.respond(TagDefinitionResponse, definition, status=201)

    def retrieve(self, request: Request, **path: str) -> Response:
        definition = get_tag_definition_for(
            actor=self.actor, action=Can.READ, project=self.project(), definition_id=self.definition_id
        )
        return self.respond(TagDefinitionResponse, definition)

    def update(self, request: Request, **path: str) -> Response:
        body = {"description": None, **self.body(UpdateTagDefinitionRequest)}
        definition = update_tag_definition(
            actor=self.actor, project=self.project(), definition_id=self.definition_id, **body
        )
        return self.respond(TagDefinitionResponse, definition)

    def destroy(self, request: Request, **path: str) -> Response:
        delete_tag_definition(actor=self.actor, project=self.project(), definition_id=self.definition_id)
        return Response(status=204)

    def attachments(self, request: Request, **path: str) -> Response:
        wanted = self._wanted()
        found = list_tag_attachments_for(
            actor=self.actor,
            project=self.project(),
            definition_id=self.definition_id,
            wanted=wanted,
            page=self.page(listing_key("tag-attachments", self.definition_id, wanted)),
        )
        return self.respond_page(TagAttachmentListResponse, "attachments", found)

    def _wanted(self) -> AttachmentFilter:
        given = self.request.GET
        target, warehouse = given.get("targetType"), given.get("warehouseId")
        if target is not None and target not in SCOPES:
            raise BadRequest(f"targetType: must be one of {', '.join(SCOPES)}")
        return AttachmentFilter(
            value=given.get("value"),
            target=None if target is None else TagDefinition.Scope(target),
            created_after=self._time("createdAfter"),
            created_before=self._time("createdBefore"),
            warehouse_id=None if warehouse is None else read_uuid(warehouse, "warehouseId"),
        )

    def _time(self, name: str) -> datetime | None:
        text = self.request.GET.get(name)
        if text is None:
            return None
        try:
            read = datetime.fromisoformat(text)
            if read.tzinfo is not None:
                return read.astimezone(UTC)
        except (ValueError, OverflowError):
            pass  # an error like that of a time without a zone
        raise BadRequest(f"{name}: must be a time such as 2026-01-31T12:00:00Z, with + encoded as %2B")


class TagViewSet(ObjectViewSet):
    """The tags of an object, which is in the request's project."""

    schema = OperationsByType(describe_tags)  # type: ignore[assignment]  # it depends on the route

    @property
    def tag_target(self) -> TagTargetKey:
        key = self.object_key
        column = self.path_text("column_name") if "column_name" in self.kwargs else None
        return TagTargetKey(key.warehouse_id, key.securable_type, key.object_id or key.warehouse_id, column)

    def list(self, request: Request, **path: str) -> Response:
        target = self.tag_target
        tags = list_tags_for(actor=self.actor, project=self.project(), key=target, effective=self.flag("effective"))
        return self.respond(TagListResponse, {"tags": tags}, warehouse_id=target.warehouse_id)

    def update(self, request: Request, **path: str) -> Response:
        value = self.body(SetTagRequest).get("value")
        name = self.path_text("tag_name")
        applied = attach_tag(actor=self.actor, project=self.project(), key=self.tag_target, name=name, value=value)
        return self.respond(AppliedTagResponse, applied, value=value)

    def destroy(self, request: Request, **path: str) -> Response:
        name = self.path_text("tag_name")
        detach_tag(actor=self.actor, project=self.project(), key=self.tag_target, name=name)
        return Response(status=204)


class ColumnTagViewSet(TagViewSet):
    schema = OperationsByType(partial(describe_tags, of_columns=True))


@describe_all_column_tags
class TableColumnTagsViewSet(ObjectViewSet):
    securable_type = Securable.Type.TABLE

    def all_columns(self, request: Request, **path: str) -> Response:
        warehouse_id, table_id = self.warehouse_id, self.object_id
        found = list_column_tags_for(
            actor=self.actor, project=self.project(), warehouse_id=warehouse_id, table_id=table_id
        )
        columns = [{"field_id": field_id, "tags": tags} for field_id, tags in found.items()]
        return self.respond(ColumnTagListResponse, {"columns": columns}, warehouse_id=warehouse_id)
