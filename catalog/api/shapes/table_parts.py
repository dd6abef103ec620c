"""What table metadata consists of and how it is changed; views have schemas too."""

from __future__ import annotations

from rest_framework import serializers

from catalog.api.shapes.specification_object import REST_SPEC, SpecificationObject
from catalog.iceberg.updates import HANDLERS

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
