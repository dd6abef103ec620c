"""The bodies of requests and responses about tables."""

from __future__ import annotations

from typing import Annotated, Any, Final, NotRequired, TypedDict

from catalog.api.base import StorageCredentials, TableIdentifier
from catalog.iceberg import shapes
from catalog.iceberg.metrics_reports import REPORTS
from catalog.iceberg.requirements import TABLE_REQUIREMENTS
from catalog.iceberg.updates import TABLE_UPDATES
from icekeeper.kernel.json.shapes import TaggedUnion

TableRequirement = Annotated[
    dict[str, Any],
    TaggedUnion("TableRequirement", "type", {name: kind.members for name, kind in TABLE_REQUIREMENTS.items()}),
]
TableUpdate = Annotated[
    dict[str, Any],
    TaggedUnion("TableUpdate", "action", {name: kind.members for name, kind in TABLE_UPDATES.items()}, suffix="Update"),
]
_REQUIREMENTS: Final = "Conditions on the current metadata; if one is not met, nothing is changed (409)"
_UPDATES: Final = "Applied in their order"

CreateTableRequest = TypedDict(
    "CreateTableRequest",
    {
        "name": str,
        "location": NotRequired[
            Annotated[
                str | None,
                "An empty folder in the warehouse that neither lies in another table's folder nor contains one. "
                "Default: `<location of the namespace>/<table uuid>`",
            ]
        ],
        "schema": Annotated[shapes.SchemaDocument, "New field ids are assigned, from 1"],
        "partition-spec": NotRequired[shapes.PartitionSpecDocument | None],
        "write-order": NotRequired[shapes.SortOrderDocument | None],
        "stage-create": NotRequired[
            Annotated[bool | None, "Only return the metadata; a commit that asserts `assert-create` creates the table"]
        ],
        "properties": NotRequired[
            Annotated[
                dict[str, str] | None,
                "`format-version` sets the version of the table, 1 to 4, of those that the warehouse allows",
            ]
        ],
    },
)
LoadTableResult = TypedDict(
    "LoadTableResult",
    {
        "metadata-location": Annotated[str | None, "Null for a staged table"],
        "metadata": Annotated[shapes.TableMetadataDocument, "Exactly the content of the file at `metadata-location`"],
        "config": Annotated[dict[str, str], "Settings for this table; empty on local files"],
        "storage-credentials": NotRequired[StorageCredentials],
    },
)
RegisterTableRequest = TypedDict(
    "RegisterTableRequest",
    {
        "name": str,
        "metadata-location": Annotated[str, "A metadata file in the warehouse"],
        "overwrite": NotRequired[
            Annotated[bool | None, "Replace the table that has the name; the files of that one are kept"]
        ],
    },
)


class CommitTableRequest(TypedDict):
    identifier: NotRequired[Annotated[TableIdentifier | None, "If given, that of the path"]]
    requirements: NotRequired[Annotated[list[TableRequirement] | None, _REQUIREMENTS]]
    updates: NotRequired[Annotated[list[TableUpdate] | None, _UPDATES]]


CommitTableResponse = TypedDict(
    "CommitTableResponse", {"metadata-location": str, "metadata": shapes.TableMetadataDocument}
)


class TableChangesDocument(TypedDict):
    identifier: TableIdentifier
    requirements: NotRequired[Annotated[list[TableRequirement] | None, _REQUIREMENTS]]
    updates: NotRequired[Annotated[list[TableUpdate] | None, _UPDATES]]


CommitTransactionRequest = TypedDict("CommitTransactionRequest", {"table-changes": list[TableChangesDocument]})
ReportMetricsRequest: Final = TaggedUnion("ReportMetricsRequest", "report-type", REPORTS)
