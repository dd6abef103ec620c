"""The overview of a table: from its metadata, or from the rows that commits keep if the metadata is large."""

from __future__ import annotations

from typing import Any, Final

from django.conf import settings
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from catalog.iceberg.display.columns import list_column_rows
from catalog.iceberg.display.partition_text import list_partition_specs, list_sort_orders
from catalog.iceberg.totals import read_totals
from catalog.iceberg.types import TableMetadata
from catalog.models import Tabular
from catalog.selectors.browse import TabularFacts
from management.admin.catalog.metadata_facts import current_schema, current_snapshot, moment_of
from management.templatetags.console import byte_size

FIRST_COLUMNS: Final = 7


def overview_context(metadata: TableMetadata, metadata_location: str) -> dict[str, Any]:
    totals = read_totals(metadata)
    refs = metadata.get("refs") or {}
    branches = sum(1 for each in refs.values() if each.get("type") == "branch")
    columns = list_column_rows(current_schema(metadata), max_rows=FIRST_COLUMNS)
    return {
        "tiles": [
            *_tiles(totals.records, totals.files_size, totals.data_files, totals.delete_files, totals.snapshot_count),
            {"label": _("Branches"), "value": branches, "note": _tags_note(len(refs) - branches)},
        ],
        "columns": columns,
        "hidden_columns": max(0, columns.column_count - sum(1 for each in columns.rows if not each.depth)),
        "partitioned_by": next((each.text for each in list_partition_specs(metadata) if each.is_default), ""),
        "sorted_by": next((each.text for each in list_sort_orders(metadata) if each.is_default), ""),
        "updated": moment_of(metadata.get("last-updated-ms")),
        "snapshot": current_snapshot(metadata),
        "metadata_location": metadata_location,
    }


def large_overview_context(tabular: Tabular, facts: TabularFacts) -> dict[str, Any]:
    """Return what is known of a table whose metadata is not read for this page."""
    return {
        "is_large": True,
        "inline_limit": byte_size(settings.ICEKEEPER.metadata_inline_limit),
        "tiles": [
            *_tiles(facts.records, facts.files_size, facts.data_files, facts.delete_files, facts.snapshot_count),
            {"label": _("Branches and tags"), "value": facts.ref_count, "note": ""},
        ],
        "updated": facts.committed_at,
        "metadata_location": tabular.metadata_location,
    }


def _tiles(
    records: int | None, size: int | None, data_files: int | None, delete_files: int | None, snapshots: int | None
) -> list[dict[str, Any]]:
    return [
        {"label": _("Rows"), "value": records, "note": ""},
        {"label": _("Data"), "text": byte_size(size), "note": ""},
        {"label": _("Data files"), "value": data_files, "note": ""},
        {"label": _("Delete files"), "value": delete_files, "note": ""},
        {"label": _("Snapshots"), "value": snapshots, "note": ""},
    ]


def _tags_note(count: int) -> str:
    return ngettext("%(count)s tag", "%(count)s tags", count) % {"count": count} if count else ""
