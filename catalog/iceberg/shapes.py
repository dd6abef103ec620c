"""The JSON documents of the table and view specifications as types: they describe, the readers of each part check.

Members that are not named here are kept, too.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias, TypedDict

from catalog.iceberg.snapshots import OPERATIONS
from catalog.iceberg.types import SUPPORTED_FORMAT_VERSIONS
from icekeeper.kernel.json.shapes import Keywords, Long, NamedUnion, Uuid

TimeMs: TypeAlias = Annotated[Long, "Milliseconds since 1970-01-01T00:00:00Z"]
Strings: TypeAlias = dict[str, str]

_TRANSFORM: Final = "Such as identity, year, month, day, hour, void, bucket[16] or truncate[4]"
_OWN_ID: Final = "Assigned by the server in a new one"

ColumnType: TypeAlias = Annotated[
    Any, NamedUnion("Type", lambda: (str, StructTypeDocument, ListTypeDocument, MapTypeDocument))
]

StructFieldDocument = TypedDict(
    "StructFieldDocument",
    {
        "id": int,
        "name": str,
        "type": ColumnType,
        "required": bool,
        "doc": NotRequired[str],
        "initial-default": NotRequired[Annotated[Any, "From format version 3 on"]],
        "write-default": NotRequired[Annotated[Any, "From format version 3 on"]],
    },
)


class StructTypeDocument(TypedDict):
    type: Literal["struct"]
    fields: list[StructFieldDocument]


ListTypeDocument = TypedDict(
    "ListTypeDocument",
    {
        "type": Literal["list"],
        "element-id": int,
        "element": ColumnType,
        "element-required": bool,
    },
)
MapTypeDocument = TypedDict(
    "MapTypeDocument",
    {
        "type": Literal["map"],
        "key-id": int,
        "key": ColumnType,
        "value-id": int,
        "value": ColumnType,
        "value-required": bool,
    },
)
SchemaDocument = TypedDict(
    "SchemaDocument",
    {
        "type": Literal["struct"],
        "fields": list[StructFieldDocument],
        "schema-id": NotRequired[Annotated[int, _OWN_ID]],
        "identifier-field-ids": NotRequired[list[int]],
    },
)
PartitionFieldDocument = TypedDict(
    "PartitionFieldDocument",
    {
        "source-id": int,
        "transform": Annotated[str, _TRANSFORM],
        "name": str,
        "field-id": NotRequired[Annotated[int, _OWN_ID]],
    },
)
PartitionSpecDocument = TypedDict(
    "PartitionSpecDocument",
    {"spec-id": NotRequired[Annotated[int, _OWN_ID]], "fields": list[PartitionFieldDocument]},
)
SortFieldDocument = TypedDict(
    "SortFieldDocument",
    {
        "source-id": int,
        "transform": Annotated[str, _TRANSFORM],
        "direction": Literal["asc", "desc"],
        "null-order": Literal["nulls-first", "nulls-last"],
    },
)
SortOrderDocument = TypedDict(
    "SortOrderDocument",
    {"order-id": NotRequired[Annotated[int, _OWN_ID]], "fields": list[SortFieldDocument]},
)
SnapshotDocument = TypedDict(
    "SnapshotDocument",
    {
        "snapshot-id": Long,
        "parent-snapshot-id": NotRequired[Long],
        "sequence-number": NotRequired[Annotated[Long, "Required from format version 2 on"]],
        "timestamp-ms": TimeMs,
        "manifest-list": NotRequired[Annotated[str, "Required from format version 2 on"]],
        "manifests": NotRequired[Annotated[list[str], "Format version 1, in place of a manifest list"]],
        "summary": NotRequired[
            Annotated[
                Strings,
                Keywords(properties={"operation": {"type": "string", "enum": list(OPERATIONS)}}),
                "Required with `operation` from format version 2 on",
            ]
        ],
        "schema-id": NotRequired[int],
        "first-row-id": NotRequired[Annotated[Long, "Required from format version 3 on"]],
        "added-rows": NotRequired[Annotated[Long, "Required with `first-row-id`"]],
        "key-id": NotRequired[str],
    },
)
SnapshotReference = TypedDict(
    "SnapshotReference",
    {
        "type": Literal["branch", "tag"],
        "snapshot-id": Long,
        "min-snapshots-to-keep": NotRequired[Annotated[int, "Branches only"]],
        "max-snapshot-age-ms": NotRequired[Annotated[Long, "Branches only"]],
        "max-ref-age-ms": NotRequired[Long],
    },
)
SnapshotLogEntry = TypedDict("SnapshotLogEntry", {"snapshot-id": Long, "timestamp-ms": TimeMs})
MetadataLogEntry = TypedDict("MetadataLogEntry", {"metadata-file": str, "timestamp-ms": TimeMs})
BlobMetadata = TypedDict(
    "BlobMetadata",
    {
        "type": str,
        "snapshot-id": Long,
        "sequence-number": Long,
        "fields": list[int],
        "properties": NotRequired[Strings],
    },
)
StatisticsFile = TypedDict(
    "StatisticsFile",
    {
        "snapshot-id": Long,
        "statistics-path": str,
        "file-size-in-bytes": Long,
        "file-footer-size-in-bytes": Long,
        "key-metadata": NotRequired[str | None],
        "blob-metadata": list[BlobMetadata],
    },
)
PartitionStatisticsFile = TypedDict(
    "PartitionStatisticsFile", {"snapshot-id": Long, "statistics-path": str, "file-size-in-bytes": Long}
)
EncryptedKey = TypedDict(
    "EncryptedKey",
    {
        "key-id": str,
        "encrypted-key-metadata": Annotated[str, Keywords(format="byte")],
        "encrypted-by-id": NotRequired[str],
        "properties": NotRequired[Strings],
    },
)
TableMetadataDocument = TypedDict(
    "TableMetadataDocument",
    {
        "format-version": Annotated[
            int, Keywords(minimum=min(SUPPORTED_FORMAT_VERSIONS), maximum=max(SUPPORTED_FORMAT_VERSIONS))
        ],
        "table-uuid": Uuid,
        "location": NotRequired[str],
        "last-updated-ms": NotRequired[TimeMs],
        "properties": NotRequired[Strings],
        "schemas": NotRequired[list[SchemaDocument]],
        "current-schema-id": NotRequired[int],
        "last-column-id": NotRequired[int],
        "schema": NotRequired[Annotated[SchemaDocument, "Format version 1"]],
        "partition-specs": NotRequired[list[PartitionSpecDocument]],
        "default-spec-id": NotRequired[int],
        "last-partition-id": NotRequired[int],
        "partition-spec": NotRequired[Annotated[list[PartitionFieldDocument], "Format version 1"]],
        "sort-orders": NotRequired[list[SortOrderDocument]],
        "default-sort-order-id": NotRequired[int],
        "encryption-keys": NotRequired[list[EncryptedKey]],
        "snapshots": NotRequired[list[SnapshotDocument]],
        "refs": NotRequired[dict[str, SnapshotReference]],
        "current-snapshot-id": NotRequired[Annotated[Long | None, "-1 or null: none"]],
        "last-sequence-number": NotRequired[Annotated[Long, "From format version 2 on"]],
        "next-row-id": NotRequired[Annotated[Long, "From format version 3 on"]],
        "snapshot-log": NotRequired[list[SnapshotLogEntry]],
        "metadata-log": NotRequired[list[MetadataLogEntry]],
        "statistics": NotRequired[list[StatisticsFile]],
        "partition-statistics": NotRequired[list[PartitionStatisticsFile]],
    },
)


class SQLViewRepresentation(TypedDict):
    type: Literal["sql"]
    sql: str
    dialect: str


ViewVersionDocument = TypedDict(
    "ViewVersionDocument",
    {
        "version-id": int,
        "timestamp-ms": TimeMs,
        "schema-id": Annotated[int, "-1 in an update: the schema that this request added last"],
        "summary": Strings,
        "representations": Annotated[list[SQLViewRepresentation], "The query in each dialect, at least one"],
        "default-catalog": NotRequired[str | None],
        "default-namespace": list[str],
    },
)
ViewHistoryEntry = TypedDict("ViewHistoryEntry", {"version-id": int, "timestamp-ms": TimeMs})
ViewMetadataDocument = TypedDict(
    "ViewMetadataDocument",
    {
        "view-uuid": Uuid,
        "format-version": Literal[1],
        "location": str,
        "current-version-id": int,
        "versions": list[ViewVersionDocument],
        "version-log": list[ViewHistoryEntry],
        "schemas": list[SchemaDocument],
        "properties": NotRequired[Strings],
    },
)
