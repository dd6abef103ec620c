"""Answers made of stored bytes: the metadata is spliced in, never parsed."""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b

from django.http import HttpResponse

from catalog.api.referenced_by import written
from catalog.api.table_config import TableAccessConfig
from catalog.selectors.access.files import Access, Reader
from catalog.selectors.tables.generic_tables import LoadedGenericTable
from catalog.selectors.tables.load import Loaded, StagedTable
from icekeeper.kernel.clock import now_ms
from icekeeper.kernel.json.strict import write_json
from storage.storage import WarehouseStorage


def load_table_result(loaded: Loaded | StagedTable, way: TableAccessConfig, *, etag: str | None) -> HttpResponse:
    """LoadTableResult; `metadata-location` is null for a staged table. `etag` is without what `way` adds."""
    location = write_json(loaded.metadata_location if isinstance(loaded, Loaded) else None)
    content = b'{"metadata-location":%b,"metadata":%b%b}' % (location, loaded.document, _way(way))
    return _answer(content, None if etag is None else _until(etag, way.holds_until))


def load_view_result(loaded: Loaded, way: TableAccessConfig) -> HttpResponse:
    """LoadViewResult, which has no `storage-credentials`."""
    parts = (write_json(loaded.metadata_location), loaded.document, write_json(way.config))
    return _answer(b'{"metadata-location":%b,"metadata":%b,"config":%b}' % parts, None)


def commit_table_response(table: Loaded) -> HttpResponse:
    """CommitTableResponse: as a load, without config."""
    location = write_json(table.metadata_location)
    etag = etag_of(table.metadata_location)
    return _answer(b'{"metadata-location":%b,"metadata":%b}' % (location, table.document), etag)


def load_generic_table_response(table: LoadedGenericTable, way: TableAccessConfig) -> HttpResponse:
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
    parts = (described[:-1], schema, statistics, _way(way))
    return _answer(b'{"table":%b,"schema":%b,"statistics":%b}%b}' % parts, None)


def not_modified(etag: str) -> HttpResponse:
    answer = HttpResponse(status=304, headers={"ETag": etag})
    del answer.headers["Content-Type"]
    return answer


def etag_of(
    metadata_location: str,
    snapshots: str = "all",
    *,
    storage: WarehouseStorage | None = None,
    access: Access | None = None,
    reader: Reader | None = None,
) -> str:
    """Of one version of a table, shown with all its `snapshots` or only the referenced ones ("refs").

    With `access` also of what the answer says about the way to the files in `storage`. What a caller is shown with the
    rights of somebody else (`reader`) is another answer than what is shown with the caller's own.
    """
    text = f"{snapshots} {metadata_location}"
    if storage is not None and access is not None:
        way = access.delegation
        text += f" {storage.version} {access.rights.value} {way.vended} {way.signing}"
    if reader is not None and reader.is_delegate:
        text += f" {reader.actor.user_id} {written(reader.views)}"
    return f'"{blake2b(text.encode(), digest_size=12).hexdigest()}"'


def known_etag(if_none_match: str, etag: str, *, ends: bool) -> str | None:
    """The tag by which an If-None-Match header names `etag`, compared weakly (RFC 9110 §13.1.2); None if it does not.

    With `ends` the answer held credentials: its tag says until when it is good, and is none any more after that.
    """
    if if_none_match.strip() == "*":
        return None if ends else etag
    for given in if_none_match.split(","):
        tag = given.strip().removeprefix("W/")
        if tag == etag and not ends:
            return tag
        version, dot, until = tag.removesuffix('"').partition(".")
        if ends and dot and f'{version}"' == etag and _is_before(until):
            return tag
    return None


def _way(way: TableAccessConfig) -> bytes:
    """The members of an answer that tell the way to the files, each led by a comma."""
    config = b',"config":%b' % write_json(way.config)
    if not way.storage_credentials:
        return config
    return b'%b,"storage-credentials":%b' % (config, write_json(way.storage_credentials))


def _until(etag: str, at: datetime | None) -> str:
    """The tag with the time after which it is none any more, in milliseconds since the epoch and hexadecimal digits."""
    return etag if at is None else f'{etag[:-1]}.{int(at.timestamp() * 1000):x}"'


def _is_before(until: str) -> bool:
    """Whether the time of a tag is still to come."""
    try:
        return now_ms() < int(until, 16)
    except ValueError:
        return False


def _answer(content: bytes, etag: str | None) -> HttpResponse:
    headers = {} if etag is None else {"ETag": etag}
    return HttpResponse(content, content_type="application/json", headers=headers)
