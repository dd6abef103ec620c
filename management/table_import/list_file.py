"""Read tables and views from a list file: JSON lines, CSV with a header, or one JSON array.

Each entry has `namespace` (a list of levels, or the levels joined by dots), `name`, `metadata-location`, and `type` if
it is not a table. Further members or columns are ignored, so that a report of failures is a valid list file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from catalog.identifiers import Levels, require_levels
from catalog.models import Tabular
from catalog.services.tables.bulk_register import ImportEntry
from icekeeper.kernel.errors.types import BadRequest
from icekeeper.kernel.json.strict import read_json
from icekeeper.kernel.names import path_key
from management.table_import.source import (
    ImportSource,
    Item,
    NamespaceEntry,
    NamespaceFilter,
    SourceUnreachable,
    UnreadableEntry,
)

FORMATS = ("jsonl", "csv", "json")
MAX_LINE_BYTES = 1_048_576
MAX_ARRAY_BYTES = 67_108_864
"""Of a JSON array, which is read as a whole."""

_BOM = b"\xef\xbb\xbf"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_KINDS = {"table": Tabular.Kind.TABLE, "view": Tabular.Kind.VIEW}


def format_of(path: Path) -> str:
    """Return the format for a file extension; the default is JSON lines."""
    extension = path.suffix.lower().removeprefix(".")
    return extension if extension in FORMATS else "jsonl"


def read_namespace(value: object) -> Levels:
    """Return the levels in a list, in the text of a JSON list, or in text with dots as separators."""
    if isinstance(value, str):
        value = read_json(value.encode(errors="replace")) if value.startswith("[") else value.split(".")
    return require_levels(value)


class ListFile(ImportSource):
    """The entries of an open file, with the namespaces that they need."""

    def __init__(self, file: BinaryIO, *, file_format: str, namespace_filter: NamespaceFilter) -> None:
        self._file = file
        self._format = file_format
        self._namespace_filter = namespace_filter
        self._announced: set[str] = set()

    def items(self) -> Iterator[Item]:
        entries = {"jsonl": self._json_lines, "csv": self._csv_rows, "json": self._json_array}[self._format]
        for where, entry in entries():
            try:
                if isinstance(entry, BadRequest):
                    raise entry
                levels, parsed = _parse_entry(entry)
            except BadRequest as error:
                yield UnreadableEntry(where, error)
                continue
            if levels in self._namespace_filter:
                yield from self._new_levels(levels)
                yield parsed

    def _new_levels(self, levels: Levels) -> Iterator[NamespaceEntry]:
        for depth in range(1, len(levels) + 1):
            key = path_key(levels[:depth])
            if key not in self._announced:
                self._announced.add(key)
                yield NamespaceEntry(levels[:depth], {})

    def _json_lines(self) -> Iterator[tuple[str, object]]:
        for number, line in self._lines():
            where = f"line {number}"
            if len(line) > MAX_LINE_BYTES:
                yield where, BadRequest(f"The line is longer than {MAX_LINE_BYTES} bytes")
            elif line.strip():
                try:
                    yield where, read_json(line)
                except BadRequest as error:
                    yield where, error

    def _csv_rows(self) -> Iterator[tuple[str, object]]:
        # Invalid UTF-8 becomes lone surrogates, so that one invalid row does not end the import.
        rows = csv.reader((line.decode(errors="surrogateescape") for _, line in self._lines()), strict=True)
        header: list[str] | None = None
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                yield f"line {rows.line_num}", BadRequest(f"Malformed CSV: {error}")
                continue
            where = f"line {rows.line_num}"
            if header is None:
                header = _checked_header(row)
            elif any(_LONE_SURROGATE.search(cell) for cell in row):
                yield where, BadRequest("The row is not valid UTF-8")
            elif len(row) == len(header):
                yield where, dict(zip(header, row, strict=True))
            elif row:
                yield where, BadRequest(f"The row has {len(row)} cells, the header {len(header)}")

    def _json_array(self) -> Iterator[tuple[str, object]]:
        text = self._file.read(MAX_ARRAY_BYTES + 1)
        if len(text) > MAX_ARRAY_BYTES:
            raise SourceUnreachable(f"The list exceeds {MAX_ARRAY_BYTES} bytes: use JSON lines")
        try:
            entries = read_json(text.removeprefix(_BOM))
        except BadRequest as error:
            raise SourceUnreachable(f"The list cannot be read: {error.message}") from None
        if not isinstance(entries, list):
            raise SourceUnreachable("The list must be a JSON array of objects")
        yield from ((f"entry {number}", entry) for number, entry in enumerate(entries, start=1))

    def _lines(self) -> Iterable[tuple[int, bytes]]:
        """Yield lines with their numbers; a line above the limit is cut one byte after it."""
        number = 0
        while line := self._file.readline(MAX_LINE_BYTES + 1):
            number += 1
            yield number, line.removeprefix(_BOM) if number == 1 else line
            while len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
                line = self._file.readline(MAX_LINE_BYTES + 1)


def _checked_header(row: list[str]) -> list[str]:
    missing = sorted({"namespace", "name", "metadata-location"} - set(row))
    if missing or len(set(row)) != len(row):
        raise SourceUnreachable(f"The first line of the CSV must name each column once; missing: {missing}")
    return row


def _parse_entry(entry: object) -> tuple[Levels, ImportEntry]:
    if not isinstance(entry, dict):
        raise BadRequest("The entry must be an object with namespace, name and metadata-location")
    name, location = entry.get("name"), entry.get("metadata-location")
    if not isinstance(name, str) or not isinstance(location, str):
        raise BadRequest("name and metadata-location must be strings")
    if not location.isprintable():
        raise BadRequest("metadata-location contains a character that is not allowed")
    kind = _KINDS.get(str(entry.get("type") or "table"))
    if kind is None:
        raise BadRequest("type must be table or view")
    levels = read_namespace(entry.get("namespace"))
    return levels, ImportEntry(kind, levels, name, location)
