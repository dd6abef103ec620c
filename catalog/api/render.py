"""Answers made of stored bytes: the metadata is spliced in, never parsed."""

from __future__ import annotations

from django.http import HttpResponse

from catalog.selectors.tables import LoadedTable
from catalog.services.creation import StagedTable
from icekeeper.kernel.json_text import write_json


def load_table_result(table: LoadedTable | StagedTable) -> HttpResponse:
    """LoadTableResult; `metadata-location` is null for a staged table."""
    location = write_json(table.metadata_location if isinstance(table, LoadedTable) else None)
    return HttpResponse(
        b'{"metadata-location":%b,"metadata":%b,"config":{}}' % (location, table.document),
        content_type="application/json",
    )


def commit_table_response(table: LoadedTable) -> HttpResponse:
    """CommitTableResponse: as a load, without config."""
    return HttpResponse(
        b'{"metadata-location":%b,"metadata":%b}' % (write_json(table.metadata_location), table.document),
        content_type="application/json",
    )
