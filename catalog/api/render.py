"""Responses from stored bytes: the metadata is spliced in, never parsed."""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b

from django.http import HttpResponse

from catalog.api.referenced_by import format_referenced_by
from catalog.api.table_config import TableAccessConfig
from catalog.selectors.access.files import Access, Reader
from catalog.selectors.tables.generic_tables import LoadedGenericTable
from catalog.selectors.tables.load import Loaded, StagedTable
from icekeeper.kernel.clock import now_ms
from icekeeper.kernel.json.strict import write_json
from storage.models.warehouse import WarehouseStorage


def load_table_result(
    loaded: Loaded | StagedTable, access_config: TableAccessConfig, *, etag: str | None
) -> HttpResponse:
    """LoadTableResult; `metadata-location` is null for a staged table. `etag` does not cover credentials."""
    location = write_json(loaded.metadata_location if isinstance(loaded, Loaded) else None)
    content = b'{"metadata-location":%b,"metadata":%b%b}' % (location, loaded.document, _access_members(access_config))
    return _response(content, None if etag is None else _expiring_etag(etag, access_config.refresh_at))


def load_view_result(loaded: Loaded, access_config: TableAccessConfig) -> HttpResponse:
    """LoadViewResult, which has no `storage-credentials`."""
    parts = (write_json(loaded.metadata_location), loaded.document, write_json(access_config.config))
    return _response(b'{"metadata-location":%b,"metadata":%b,"config":%b}' % parts, None)


def commit_table_response(table: Loaded) -> HttpResponse:
    """CommitTableResponse: as a load, without config."""
    location = write_json(table.metadata_location)
    etag = table_etag(table.metadata_location)
    return _response(b'{"metadata-location":%b,"metadata":%b}' % (location, table.document), etag)


def load_generic_table_response(table: LoadedGenericTable, access_config: TableAccessConfig) -> HttpResponse:
    """LoadGenericTableResponse, with schema and statistics as they are stored."""
    described = write_json(
        {
            "name": table.name,
            "format": table.format,
            "base-location": table.base_location,
            "protected": table.is_protected,
            "doc": table.doc,
            "properties": table.properties,
        }
    )
    schema, statistics = ((text or "null").encode() for text in (table.schema, table.statistics))
    parts = (described[:-1], schema, statistics, _access_members(access_config))
    return _response(b'{"table":%b,"schema":%b,"statistics":%b}%b}' % parts, None)


def not_modified(etag: str) -> HttpResponse:
    response = HttpResponse(status=304, headers={"ETag": etag})
    del response.headers["Content-Type"]
    return response


def table_etag(
    metadata_location: str,
    snapshots: str = "all",
    *,
    storage: WarehouseStorage | None = None,
    access: Access | None = None,
    reader: Reader | None = None,
) -> str:
    """Return the ETag of one version of a table with all its `snapshots` or only the referenced ones ("refs").

    It covers `access` to the files in `storage`, and the `reader` whose rights decide if that is not the caller.
    """
    text = f"{snapshots} {metadata_location}"
    if storage is not None and access is not None:
        delegation = access.delegation
        text += f" {storage.version} {access.rights.value} {delegation.vended} {delegation.signing}"
    if reader is not None and reader.is_delegate:
        text += f" {reader.actor.user_id} {format_referenced_by(reader.views)}"
    return f'"{blake2b(text.encode(), digest_size=12).hexdigest()}"'


def matching_etag(if_none_match: str, etag: str, *, expires: bool) -> str | None:
    """Return the tag of an If-None-Match header that matches `etag` weakly (RFC 9110 §13.1.2), or None.

    With `expires` the response had credentials: its tag has the time after which it matches nothing.
    """
    if if_none_match.strip() == "*":
        return None if expires else etag
    for given in if_none_match.split(","):
        tag = given.strip().removeprefix("W/")
        if tag == etag and not expires:
            return tag
        version, dot, until = tag.removesuffix('"').partition(".")
        if expires and dot and f'{version}"' == etag and _is_in_future(until):
            return tag
    return None


def _access_members(access_config: TableAccessConfig) -> bytes:
    """Return `config` and `storage-credentials`, each led by a comma."""
    config = b',"config":%b' % write_json(access_config.config)
    if not access_config.storage_credentials:
        return config
    return b'%b,"storage-credentials":%b' % (config, write_json(access_config.storage_credentials))


def _expiring_etag(etag: str, end: datetime | None) -> str:
    """Append the end of its validity, in milliseconds since the epoch and hexadecimal digits."""
    return etag if end is None else f'{etag[:-1]}.{int(end.timestamp() * 1000):x}"'


def _is_in_future(until: str) -> bool:
    """Read the time of a tag; false for a malformed one."""
    try:
        return now_ms() < int(until, 16)
    except ValueError:
        return False


def _response(content: bytes, etag: str | None) -> HttpResponse:
    headers = {} if etag is None else {"ETag": etag}
    return HttpResponse(content, content_type="application/json", headers=headers)
