"""The tab with the first rows of a table, and what the values of each column are like."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from catalog.iceberg.types import TableMetadata
from catalog.services.preview import INSTALL, Preview, missing_packages
from management.admin.catalog.files_tab import list_choices, read_snapshot_id


def preview_context(
    metadata: TableMetadata, chosen: str | None, *, result: Preview | None, error: str
) -> dict[str, Any]:
    """Return the form, and the rows if it was sent; `error` says why they could not be read."""
    snapshot_id = read_snapshot_id(metadata, chosen)
    return {
        "snapshot_id": snapshot_id,
        "choices": [] if snapshot_id is None else list_choices(metadata, snapshot_id),
        "limit": settings.ICEKEEPER.console.preview.rows,
        "missing": missing_packages(),
        "install": INSTALL,
        "result": result,
        "error": error,
    }
