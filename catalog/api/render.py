"""Answers made of stored bytes: the metadata is spliced in, never parsed."""

from __future__ import annotations

from hashlib import blake2b

from django.http import HttpResponse

from catalog.selectors.tabulars import Loaded, StagedTable
from icekeeper.kernel.json_text import write_json


def load_result(loaded: Loaded | StagedTable, *, etag: str | None = None) -> HttpResponse:
    """LoadTableResult or LoadViewResult; `metadata-location` is null for a staged table."""
    location = write_json(loaded.metadata_location if isinstance(loaded, Loaded) else None)
    return _answer(b'{"metadata-location":%b,"metadata":%b,"config":{}}' % (location, loaded.document), etag)


def commit_table_response(table: Loaded) -> HttpResponse:
    """CommitTableResponse: as a load, without config."""
    location = write_json(table.metadata_location)
    etag = etag_of(table.metadata_location)
    return _answer(b'{"metadata-location":%b,"metadata":%b}' % (location, table.document), etag)


def created_table(table: Loaded | StagedTable) -> HttpResponse:
    """LoadTableResult of a table that was just made; a staged one has no ETag, as it has no version yet."""
    return load_result(table, etag=etag_of(table.metadata_location) if isinstance(table, Loaded) else None)


def not_modified(etag: str) -> HttpResponse:
    answer = HttpResponse(status=304, headers={"ETag": etag})
    del answer.headers["Content-Type"]
    return answer


def etag_of(metadata_location: str, snapshots: str = "all") -> str:
    """Of one version of a table, shown with all its `snapshots` or only the referenced ones ("refs")."""
    digest = blake2b(f"{snapshots} {metadata_location}".encode(), digest_size=12)
    return f'"{digest.hexdigest()}"'


def matches(if_none_match: str, etag: str) -> bool:
    """Whether an If-None-Match header names `etag`, compared weakly (RFC 9110 §13.1.2)."""
    if if_none_match.strip() == "*":
        return True
    return any(given.strip().removeprefix("W/") == etag for given in if_none_match.split(","))


def _answer(content: bytes, etag: str | None) -> HttpResponse:
    headers = {} if etag is None else {"ETag": etag}
    return HttpResponse(content, content_type="application/json", headers=headers)
