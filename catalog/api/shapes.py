"""Bodies of the REST catalog as its OpenAPI document shows them. No request passes through here.

What the catalog itself reads and writes is described field by field. What belongs to a table (schema, snapshots, the
metadata as a whole) is an open object: the specification describes it, and members that this server does not know
survive.
"""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.extensions import OpenApiSerializerExtension
from rest_framework import serializers

from catalog.iceberg.updates import HANDLERS
from catalog.iceberg.views.updates import VIEW_HANDLERS
from icekeeper.kernel.api_shapes import KebabSerializer, Text

REST_SPEC = "https://iceberg.apache.org/rest-catalog-spec/"
TABLE_SPEC = "https://iceberg.apache.org/spec/"
VIEW_SPEC = "https://iceberg.apache.org/view-spec/"

REQUIREMENT_TYPES = (
    "assert-create",
    "assert-table-uuid",
    "assert-ref-snapshot-id",
    "assert-last-assigned-field-id",
    "assert-current-schema-id",
    "assert-last-assigned-partition-id",
    "assert-default-spec-id",
    "assert-default-sort-order-id",
)


class SpecificationObject(serializers.Serializer[Any]):
    # An object whose members the specification at `link` describes; fields of a subclass are those that decide.
    link: ClassVar[str] = TABLE_SPEC


class SpecificationObjectSchema(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """Tells drf-spectacular how to write a `SpecificationObject`: it finds this class by itself."""

    target_class = SpecificationObject
    match_subclasses = True

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        schema: dict[str, Any] = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)  # noqa: SLF001
        return {**schema, "additionalProperties": True, "externalDocs": {"url": self.target.link}}


def string_map(**options: Any) -> serializers.DictField:
    return serializers.DictField(child=Text(allow_blank=True), **options)


def text_list(**options: Any) -> serializers.ListField:
    return serializers.ListField(child=Text(), **options)


# --- configuration ------------------------------------------------------------------------------------------------


class CatalogConfig(KebabSerializer):
    defaults = string_map(help_text="Settings that a client's own come before, among them `prefix`: the warehouse's id")
    overrides = string_map(help_text="Settings that come before a client's own, among them `uri`: this catalog")
    endpoints = text_list(help_text="The operations that work, each as `VERB /path` of the specification")
    idempotency_key_lifetime = Text(
        required=False, help_text="How long a request may be sent again under its Idempotency-Key, such as PT30M"
    )


# --- namespaces ---------------------------------------------------------------------------------------------------


class CreateNamespaceRequest(serializers.Serializer[Any]):
    namespace = text_list(help_text="Its levels, from the first; at most 5, and the ones above it must exist")
    properties = string_map(required=False, allow_null=True)


class NamespaceResponse(serializers.Serializer[Any]):
    namespace = text_list(help_text="Its levels")
    properties = string_map()


class ListNamespacesResponse(KebabSerializer):
    namespaces = serializers.ListField(child=text_list(), help_text="Direct children, in order of creation")
    next_page_token = Text(required=False, help_text="Absent on the last page")


class UpdateNamespacePropertiesRequest(serializers.Serializer[Any]):
    removals = text_list(required=False, allow_null=True, help_text="Keys to remove")
    updates = string_map(required=False, allow_null=True, help_text="Keys to set")


class UpdateNamespacePropertiesResponse(serializers.Serializer[Any]):
    updated = text_list(help_text="Keys that were set")
    removed = text_list(help_text="Keys that were removed")
    missing = text_list(help_text="Keys to remove that were not there")


# --- what belongs to a table --------------------------------------------------------------------------------------


class TableMetadata(SpecificationObject):
    """The table's metadata, exactly as it lies in the file at `metadata-location`."""


class TableSchema(SpecificationObject):
    """A schema. Of a new table its field ids are assigned anew, from 1."""


class PartitionSpec(SpecificationObject):
    """A partition spec; its sources are field ids of the schema beside it."""


class SortOrder(SpecificationObject):
    """A sort order; its sources are field ids of the schema beside it."""


class TableRequirement(SpecificationObject):
    """What must be true of the table, else nothing is done (409)."""

    link = REST_SPEC
    type = serializers.ChoiceField(REQUIREMENT_TYPES)


class TableUpdate(SpecificationObject):
    """One change, applied after those before it."""

    link = REST_SPEC
    action = serializers.ChoiceField(sorted(HANDLERS))


# --- tables -------------------------------------------------------------------------------------------------------


class TableIdentifier(serializers.Serializer[Any]):
    namespace = text_list(help_text="The levels of its namespace")
    name = Text()


class ListTablesResponse(KebabSerializer):
    identifiers = TableIdentifier(many=True, help_text="In order of creation")
    next_page_token = Text(required=False, help_text="Absent on the last page")


class CreateTableRequest(KebabSerializer):
    name = Text()
    location = Text(
        required=False,
        allow_null=True,
        help_text="A folder in the warehouse that neither lies in another table's folder nor holds one; files may be "
        "there already. Default: `<warehouse>/<table uuid>`",
    )
    schema = TableSchema()
    partition_spec = PartitionSpec(required=False, allow_null=True)
    write_order = SortOrder(required=False, allow_null=True)
    stage_create = serializers.BooleanField(
        required=False,
        allow_null=True,
        help_text="Only work out the metadata; the table is made by the commit that asserts `assert-create`",
    )
    properties = string_map(
        required=False,
        allow_null=True,
        help_text="`format-version` chooses the table's version, 1 to 4, of those that the warehouse allows",
    )


class LoadTableResult(KebabSerializer):
    metadata_location = Text(allow_null=True, help_text="Null for a staged table")
    metadata = TableMetadata()
    config = string_map(help_text="Settings for this table; empty on local files")


class RegisterTableRequest(KebabSerializer):
    name = Text()
    metadata_location = Text(help_text="A metadata file in the warehouse")
    overwrite = serializers.BooleanField(
        required=False, allow_null=True, help_text="A table of that name makes way for it; its files stay"
    )


class CommitTableRequest(serializers.Serializer[Any]):
    identifier = TableIdentifier(required=False, allow_null=True, help_text="If given, that of the path")
    requirements = TableRequirement(many=True)
    updates = TableUpdate(many=True)


class CommitTableResponse(KebabSerializer):
    metadata_location = Text()
    metadata = TableMetadata()


class TableChanges(serializers.Serializer[Any]):
    identifier = TableIdentifier()
    requirements = TableRequirement(many=True)
    updates = TableUpdate(many=True)


class CommitTransactionRequest(KebabSerializer):
    table_changes = TableChanges(many=True)


class RenameTableRequest(serializers.Serializer[Any]):
    source = TableIdentifier()  # type: ignore[assignment]  # a Field has a `source` too, but this is a declaration
    destination = TableIdentifier(help_text="In this namespace or in another one, which must exist")


class ViewMetadata(SpecificationObject):
    """The view's metadata, exactly as it lies in the file at `metadata-location`."""

    link = VIEW_SPEC


class ViewVersion(SpecificationObject):
    """A version: its representations, each the query in one dialect."""

    link = VIEW_SPEC


class ViewRequirement(SpecificationObject):
    """What must be true of the view, else nothing is done (409)."""

    link = REST_SPEC
    type = serializers.ChoiceField(["assert-view-uuid"])


class ViewUpdate(SpecificationObject):
    """One change, applied after those before it."""

    link = REST_SPEC
    action = serializers.ChoiceField(sorted(VIEW_HANDLERS))


class CreateViewRequest(KebabSerializer):
    name = Text()
    location = Text(
        required=False,
        allow_null=True,
        help_text="A folder in the warehouse that neither lies in another one's folder nor holds one. Default: "
        "`<warehouse>/<view uuid>`",
    )
    schema = TableSchema()
    view_version = ViewVersion()
    properties = string_map(required=False, allow_null=True)


class LoadViewResult(KebabSerializer):
    metadata_location = Text()
    metadata = ViewMetadata()
    config = string_map(help_text="Settings for this view; empty on local files")


class RegisterViewRequest(KebabSerializer):
    name = Text()
    metadata_location = Text(help_text="A metadata file in the warehouse")


class CommitViewRequest(serializers.Serializer[Any]):
    requirements = ViewRequirement(many=True, required=False, allow_null=True)
    updates = ViewUpdate(many=True)


class ReportMetricsRequest(SpecificationObject, KebabSerializer):
    """A report of a scan or a commit."""

    link = REST_SPEC
    report_type = serializers.ChoiceField(["scan-report", "commit-report"])
