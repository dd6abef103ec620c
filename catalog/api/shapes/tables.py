from __future__ import annotations

from typing import Any

from rest_framework import serializers

from catalog.api.shapes.fields import string_map
from catalog.api.shapes.specification_object import REST_SPEC, SpecificationObject
from catalog.api.shapes.table_parts import (
    PartitionSpec,
    SortOrder,
    TableMetadata,
    TableRequirement,
    TableSchema,
    TableUpdate,
)
from catalog.api.shapes.tabulars import TableIdentifier
from icekeeper.kernel.http.serializers import KebabSerializer, Text


class CreateTableRequest(KebabSerializer):
    name = Text()
    location = Text(
        required=False,
        allow_null=True,
        help_text="An empty folder in the warehouse that neither lies in another table's folder nor holds one. "
        "Default: `<location of the namespace>/<table uuid>`",
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
    requirements = TableRequirement(many=True, required=False, allow_null=True)
    updates = TableUpdate(many=True, required=False, allow_null=True)


class CommitTableResponse(KebabSerializer):
    metadata_location = Text()
    metadata = TableMetadata()


class TableChanges(serializers.Serializer[Any]):
    identifier = TableIdentifier()
    requirements = TableRequirement(many=True, required=False, allow_null=True)
    updates = TableUpdate(many=True, required=False, allow_null=True)


class CommitTransactionRequest(KebabSerializer):
    table_changes = TableChanges(many=True)


class ReportMetricsRequest(SpecificationObject, KebabSerializer):
    """A report of a scan or a commit."""

    link = REST_SPEC
    report_type = serializers.ChoiceField(["scan-report", "commit-report"])
