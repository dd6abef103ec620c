"""Read all namespaces, tables and views of another Iceberg REST catalog.

Namespaces are traversed depth first, a page at a time, so that only the open pages of one branch are in memory. Objects
that are dropped meanwhile (404) are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeGuard
from urllib.parse import quote, unquote

from catalog.identifiers import Identifier, Levels, dotted, require_levels
from catalog.models import Tabular
from catalog.services.tables.bulk_register import ImportEntry
from icekeeper.kernel.errors.types import BadRequest, CatalogError
from icekeeper.kernel.names import LEVEL_SEPARATOR, require_name
from management.table_import.rest_client import RestClient
from management.table_import.source import (
    ImportSource,
    Item,
    NamespaceEntry,
    NamespaceFilter,
    SourceFailed,
    SourceUnreachable,
    UnreadableEntry,
    lookup_keys,
)

PAGE_SIZE = "500"
_PREFIX = re.compile(r"[A-Za-z0-9._~%!$&'()*+,;=:@|/-]*")
_FOLDERS = {Tabular.Kind.TABLE: "tables", Tabular.Kind.VIEW: "views"}
_LIST_VIEWS = "GET /v1/{prefix}/namespaces/{namespace}/views"


class RestCatalog(ImportSource):
    """`warehouse` is the name that clients of the other catalog use."""

    def __init__(self, client: RestClient, *, warehouse: str | None, namespace_filter: NamespaceFilter) -> None:
        self._client = client
        self._warehouse = warehouse
        self._namespace_filter = namespace_filter
        self._base = "v1"
        self._separator = LEVEL_SEPARATOR
        self._has_views = True

    def items(self) -> Iterator[Item]:
        self._configure()
        if not self._namespace_filter.chosen:
            yield from self._below(())
        announced: set[Levels] = set()
        for chosen in self._namespace_filter.chosen:
            for depth in range(1, len(chosen)):
                if chosen[:depth] not in announced:
                    announced.add(chosen[:depth])
                    yield from self._namespace(chosen[:depth])
            yield from self._walk(chosen)

    def locate(self, entry: ImportEntry) -> ImportEntry | None:
        path = f"{self._path(entry.levels)}/{_FOLDERS[entry.kind]}/{quote(entry.name, safe='')}"
        # Only the metadata location is needed: request as few snapshots as possible.
        params = {"snapshots": "refs"} if entry.kind is Tabular.Kind.TABLE else {}
        response = self._client.get(path, **params)
        if response is None:
            return None
        location = response.get("metadata-location")
        if not isinstance(location, str):
            identifier = Identifier(entry.levels, entry.name)
            raise SourceFailed(f"The other catalog returned no metadata-location of {identifier}")
        return replace(entry, metadata_location=location)

    def _configure(self) -> None:
        response = self._client.get("v1/config", **({"warehouse": self._warehouse} if self._warehouse else {}))
        if response is None:
            raise SourceUnreachable(
                "The warehouse does not exist in the other catalog, or the URI is not a catalog (/v1/config: 404)"
            )
        settings = {**_object(response, "defaults"), **_object(response, "overrides")}
        prefix = str(settings.get("prefix") or "").strip("/")
        if not _PREFIX.fullmatch(prefix) or {".", ".."} & set(prefix.split("/")):
            raise SourceUnreachable("The other catalog returned a prefix that is not valid in a path")
        # The configured URI is kept: it works, and the token is meant for it.
        self._base = f"v1/{prefix}" if prefix else "v1"
        self._separator = _separator(settings.get("namespace-separator"))
        endpoints = response.get("endpoints")
        if isinstance(endpoints, list) and endpoints:
            self._has_views = _LIST_VIEWS in endpoints

    def _walk(self, levels: Levels) -> Iterator[Item]:
        """Yield a namespace, its tables and views, and its child namespaces."""
        exists = False
        for item in self._namespace(levels):
            exists = isinstance(item, NamespaceEntry)
            yield item
        if not exists:
            return
        yield from self._tabulars(levels, Tabular.Kind.TABLE)
        if self._has_views:
            yield from self._tabulars(levels, Tabular.Kind.VIEW)
        yield from self._below(levels)

    def _namespace(self, levels: Levels) -> Iterator[Item]:
        try:
            response = self._client.get(self._path(levels))
        except SourceUnreachable:
            raise
        except SourceFailed as error:
            yield UnreadableEntry(_where(levels), error)
            return
        if response is not None:
            yield NamespaceEntry(levels, response.get("properties"))

    def _below(self, parent: Levels) -> Iterator[Item]:
        path = f"{self._base}/namespaces"
        params = {"parent": self._separator.join(parent)} if parent else {}
        for page in self._pages(path, params, where=_where(parent)):
            if isinstance(page, UnreadableEntry):
                yield page
                continue
            for levels in _list(page, "namespaces"):
                # A server that ignores `parent` lists the first level again.
                if _is_in(levels, parent):
                    # A server with case-insensitive names may spell the parent differently.
                    yield from self._child([*parent, *levels[-1:]], _where(parent))

    def _child(self, levels: list[Any], above: str) -> Iterator[Item]:
        try:
            checked = require_levels(levels)
        except BadRequest as error:
            yield UnreadableEntry(f"{above}, a namespace in it", error)
        else:
            yield from self._walk(checked)

    def _tabulars(self, levels: Levels, kind: Tabular.Kind) -> Iterator[Item]:
        where = f"{_where(levels)}, its {kind}s"
        for page in self._pages(f"{self._path(levels)}/{_FOLDERS[kind]}", {}, where=where):
            if isinstance(page, UnreadableEntry):
                yield page
                continue
            for identifier in _list(page, "identifiers"):
                try:
                    found = identifier.get("name") if isinstance(identifier, dict) else None
                    name = require_name(found, f"{kind} name")  # before it is used in a path
                except BadRequest as error:
                    yield UnreadableEntry(where, error)
                else:
                    yield ImportEntry(kind, levels, name, None)

    def _pages(self, path: str, params: dict[str, str], *, where: str) -> Iterator[dict[str, Any] | UnreadableEntry]:
        """Yield the pages of a list. If a request fails, the last item is the error."""
        token = ""
        while True:
            try:
                response = self._client.get(path, **params, pageToken=token, pageSize=PAGE_SIZE)
            except SourceUnreachable:
                raise
            except CatalogError as error:
                yield UnreadableEntry(where, error)
                return
            if response is None:
                return
            yield response
            next_token = response.get("next-page-token")
            if not next_token:
                return
            if not isinstance(next_token, str) or next_token == token:
                yield UnreadableEntry(where, SourceFailed("The other catalog returned the same page token twice"))
                return
            token = next_token

    def _path(self, levels: Levels) -> str:
        return f"{self._base}/namespaces/{quote(self._separator.join(levels), safe='')}"


def _is_in(levels: object, parent: Levels) -> TypeGuard[list[Any]]:
    """Return whether a listed namespace is a direct child of `parent`."""
    if not isinstance(levels, list) or not all(isinstance(level, str) for level in levels[:-1]):
        return False
    return lookup_keys(levels[:-1]) == lookup_keys(parent)


def _where(levels: Levels) -> str:
    return f"namespace {dotted(levels)}" if levels else "the first level"


def _separator(given: object) -> str:
    """Return the separator of the levels of a namespace; the setting is URL-encoded."""
    return (unquote(given) if isinstance(given, str) else "") or LEVEL_SEPARATOR


def _object(response: dict[str, Any], member: str) -> dict[str, Any]:
    value = response.get(member)
    return value if isinstance(value, dict) else {}


def _list(response: dict[str, Any], member: str) -> list[Any]:
    value = response.get(member)
    return value if isinstance(value, list) else []
