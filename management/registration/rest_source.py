"""Everything that another Iceberg REST catalog holds: namespaces with their properties, tables, views.

Namespaces are walked from the top, a page at a time, so that only the open pages of one branch are in memory. What
disappears in between (404) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeGuard
from urllib.parse import quote, unquote

from catalog.identifiers import Identifier, Levels, dotted, require_levels
from catalog.models import Tabular
from catalog.services.tables.bulk_register import Listed
from icekeeper.kernel.errors.types import BadRequest, CatalogError
from icekeeper.kernel.names import LEVEL_SEPARATOR, require_name
from management.registration.rest_client import RestClient
from management.registration.source import (
    Choice,
    Item,
    ListedNamespace,
    Source,
    SourceFailed,
    SourceUnreachable,
    Unreadable,
    lookup_keys,
)

PAGE_SIZE = "500"
_PREFIX = re.compile(r"[A-Za-z0-9._~%!$&'()*+,;=:@|/-]*")
_FOLDERS = {Tabular.Kind.TABLE: "tables", Tabular.Kind.VIEW: "views"}
_LIST_VIEWS = "GET /v1/{prefix}/namespaces/{namespace}/views"


class RestCatalog(Source):
    """`warehouse` is what the other catalog calls the warehouse, as its clients name it."""

    def __init__(self, client: RestClient, *, warehouse: str | None, choice: Choice) -> None:
        self._client = client
        self._warehouse = warehouse
        self._choice = choice
        self._base = "v1"
        self._separator = LEVEL_SEPARATOR
        self._has_views = True

    def items(self) -> Iterator[Item]:
        self._configure()
        if not self._choice.chosen:
            yield from self._below(())
        announced: set[Levels] = set()
        for chosen in self._choice.chosen:
            for depth in range(1, len(chosen)):
                if chosen[:depth] not in announced:
                    announced.add(chosen[:depth])
                    yield from self._namespace(chosen[:depth])
            yield from self._walk(chosen)

    def locate(self, listed: Listed) -> Listed | None:
        path = f"{self._path(listed.levels)}/{_FOLDERS[listed.kind]}/{quote(listed.name, safe='')}"
        # Of a table's snapshots the current ones are enough: we only want to know where it lies.
        params = {"snapshots": "refs"} if listed.kind is Tabular.Kind.TABLE else {}
        answer = self._client.get(path, **params)
        if answer is None:
            return None
        location = answer.get("metadata-location")
        if not isinstance(location, str):
            place = Identifier(listed.levels, listed.name)
            raise SourceFailed(f"The other catalog names no metadata-location of {place}")
        return replace(listed, metadata_location=location)

    def _configure(self) -> None:
        answer = self._client.get("v1/config", **({"warehouse": self._warehouse} if self._warehouse else {}))
        if answer is None:
            raise SourceUnreachable("The other catalog does not have this warehouse, or is none (/v1/config: 404)")
        settings = {**_object(answer, "defaults"), **_object(answer, "overrides")}
        prefix = str(settings.get("prefix") or "").strip("/")
        if not _PREFIX.fullmatch(prefix) or {".", ".."} & set(prefix.split("/")):
            raise SourceUnreachable("The other catalog names a prefix that cannot stand in a path")
        # The address stays the one that we were given: it works, and the token is meant for it.
        self._base = f"v1/{prefix}" if prefix else "v1"
        self._separator = _separator(settings.get("namespace-separator"))
        endpoints = answer.get("endpoints")
        if isinstance(endpoints, list) and endpoints:
            self._has_views = _LIST_VIEWS in endpoints

    def _walk(self, levels: Levels) -> Iterator[Item]:
        """A namespace, what is in it, and what is below it."""
        is_there = False
        for item in self._namespace(levels):
            is_there = isinstance(item, ListedNamespace)
            yield item
        if not is_there:
            return
        yield from self._tabulars(levels, Tabular.Kind.TABLE)
        if self._has_views:
            yield from self._tabulars(levels, Tabular.Kind.VIEW)
        yield from self._below(levels)

    def _namespace(self, levels: Levels) -> Iterator[Item]:
        try:
            answer = self._client.get(self._path(levels))
        except SourceUnreachable:
            raise
        except SourceFailed as error:
            yield Unreadable(_where(levels), error)
            return
        if answer is not None:
            yield ListedNamespace(levels, answer.get("properties"))

    def _below(self, parent: Levels) -> Iterator[Item]:
        path = f"{self._base}/namespaces"
        params = {"parent": self._separator.join(parent)} if parent else {}
        for page in self._pages(path, params, where=_where(parent)):
            if isinstance(page, Unreadable):
                yield page
                continue
            for levels in _list(page, "namespaces"):
                # A server that does not know `parent` lists the first level again.
                if _is_in(levels, parent):
                    # One that looks names up without case may spell what is above otherwise than it is called there.
                    yield from self._child([*parent, *levels[-1:]], _where(parent))

    def _child(self, levels: list[Any], above: str) -> Iterator[Item]:
        try:
            checked = require_levels(levels)
        except BadRequest as error:
            yield Unreadable(f"{above}, a namespace in it", error)
        else:
            yield from self._walk(checked)

    def _tabulars(self, levels: Levels, kind: Tabular.Kind) -> Iterator[Item]:
        where = f"{_where(levels)}, its {kind}s"
        for page in self._pages(f"{self._path(levels)}/{_FOLDERS[kind]}", {}, where=where):
            if isinstance(page, Unreadable):
                yield page
                continue
            for identifier in _list(page, "identifiers"):
                try:
                    found = identifier.get("name") if isinstance(identifier, dict) else None
                    name = require_name(found, f"{kind} name")  # before it stands in a path
                except BadRequest as error:
                    yield Unreadable(where, error)
                else:
                    yield Listed(kind, levels, name, None)

    def _pages(self, path: str, params: dict[str, str], *, where: str) -> Iterator[dict[str, Any] | Unreadable]:
        """Answers until one names no further page. A listing that fails ends with what is wrong."""
        token = ""
        while True:
            try:
                answer = self._client.get(path, **params, pageToken=token, pageSize=PAGE_SIZE)
            except SourceUnreachable:
                raise
            except CatalogError as error:
                yield Unreadable(where, error)
                return
            if answer is None:
                return
            yield answer
            following = answer.get("next-page-token")
            if not following:
                return
            if not isinstance(following, str) or following == token:
                yield Unreadable(where, SourceFailed("The other catalog's pages do not end"))
                return
            token = following

    def _path(self, levels: Levels) -> str:
        return f"{self._base}/namespaces/{quote(self._separator.join(levels), safe='')}"


def _is_in(levels: object, parent: Levels) -> TypeGuard[list[Any]]:
    """Whether a listed namespace lies in `parent` and no deeper."""
    if not isinstance(levels, list) or not all(isinstance(level, str) for level in levels[:-1]):
        return False
    return lookup_keys(levels[:-1]) == lookup_keys(parent)


def _where(levels: Levels) -> str:
    return f"namespace {dotted(levels)}" if levels else "the first level"


def _separator(given: object) -> str:
    """What stands between the levels of a namespace; the setting is encoded as in a URL."""
    return (unquote(given) if isinstance(given, str) else "") or LEVEL_SEPARATOR


def _object(answer: dict[str, Any], member: str) -> dict[str, Any]:
    value = answer.get(member)
    return value if isinstance(value, dict) else {}


def _list(answer: dict[str, Any], member: str) -> list[Any]:
    value = answer.get(member)
    return value if isinstance(value, list) else []
