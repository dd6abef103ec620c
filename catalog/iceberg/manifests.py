"""Manifest lists and manifests of a snapshot (table spec, "Manifest Lists", "Manifests"), versions 1 to 3.

They are written by clients: a hostile file can take any time and memory to decode, so it is read in a bounded process
only (`catalog.programs.read_manifests`). Fields that are not needed here, such as bounds of columns, are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from io import BytesIO
from types import ModuleType
from typing import Any, BinaryIO, Final

import fastavro
from fastavro import _read as fastavro_read

from catalog.iceberg.file_totals import (
    DELETION_VECTORS,
    EQUALITY_DELETES,
    POSITION_DELETES,
    ContentFile,
    FileTotals,
)

try:
    zstandard: ModuleType | None = import_module("zstandard")
except ImportError:  # PyIceberg needs it, the server alone does not
    zstandard = None

_SEVEN_BITS: Final = 0x7F
MAX_LONG: Final = 2**63 - 1
MAX_VALUE_LENGTH: Final = 100
MAX_NAME_LENGTH: Final = 400
_DELETED: Final = 2
_DATA, _POSITION_DELETES, _EQUALITY_DELETES = 0, 1, 2
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_LIST_FIELDS: Final = frozenset({"manifest_path", "manifest_length", "partition_spec_id", "content"})
_ENTRY_FIELDS: Final = frozenset({"status", "data_file"})
_FILE_FIELDS: Final = frozenset(
    {"content", "file_format", "partition", "record_count", "file_size_in_bytes", "content_size_in_bytes"}
)


class ManifestUnreadable(Exception):
    """The file is no manifest or manifest list; the text says what is wrong with it, without content of the file."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """An entry of a manifest list; `length` is None in a list that does not have it."""

    path: str
    length: int | None
    spec_id: int


@dataclass(frozen=True, slots=True)
class SpecField:
    """A field of a partition spec, as its values are shown."""

    name: str
    transform: str


def read_manifest_list(data: bytes, *, limit: int) -> list[ManifestFile]:
    """Return the manifests of a snapshot, at most `limit`. Raises `ManifestUnreadable`."""
    found: list[ManifestFile] = []
    for record in _read(data, _LIST_FIELDS):
        path = record.get("manifest_path")
        if not isinstance(path, str):
            raise ManifestUnreadable("an entry has no manifest_path")
        if len(found) == limit:
            raise ManifestUnreadable(f"it lists more than {limit} manifests")
        length = record.get("manifest_length")
        found.append(
            ManifestFile(path, None if length is None else _number(length), _number(record.get("partition_spec_id", 0)))
        )
    return found


@dataclass(slots=True)
class ManifestCounter:
    """Counts the live files of manifests in `totals`; `specs` are the partition specs of the table by id."""

    totals: FileTotals
    specs: Mapping[int, Sequence[SpecField]]
    max_files: int
    files: int = 0

    def count(self, data: bytes, spec_id: int | None = None) -> int:
        """Count the files of a manifest and return their number. Raises `ManifestUnreadable`.

        Without `spec_id`, that in the manifest's own header is used.
        """
        if spec_id is None:
            spec_id = _spec_id_of(data)
        counted = 0
        for record in _read(data, _ENTRY_FIELDS):
            if _number(record.get("status")) == _DELETED:
                continue
            file = record.get("data_file")
            if not isinstance(file, dict):
                raise ManifestUnreadable("an entry has no data_file")
            partition = file.get("partition")
            values = tuple(map(_hashable, partition.values())) if isinstance(partition, dict) else ()
            self.totals.add(_content_file(file), (spec_id, values))
            counted += 1
            self.files += 1
            if self.files > self.max_files:
                raise ManifestUnreadable(f"the snapshot has more than {self.max_files} files")
        return counted

    def summary(self) -> dict[str, Any]:
        return self.totals.summary(self._name)

    def _name(self, key: tuple[int, tuple[Any, ...]]) -> str:
        spec_id, values = key
        fields = self.specs.get(spec_id, ())
        parts = [
            f"{fields[number].name}={write_value(value, fields[number].transform)}"
            if number < len(fields)
            else write_value(value, "")
            for number, value in enumerate(values)
            if number >= len(fields) or fields[number].transform != "void"
        ]
        return _storable("/".join(parts)[:MAX_NAME_LENGTH])


def write_value(value: Any, transform: str) -> str:
    """Return a partition value as Iceberg's paths show it, bounded in length: `2026-11-22-08`, `null`, `0a1b`."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return value[: MAX_VALUE_LENGTH // 2].hex()
    if isinstance(value, int) and not isinstance(value, bool):
        return _write_number(value, transform)
    return str(value)[:MAX_VALUE_LENGTH]


def _write_number(value: int, transform: str) -> str:
    try:
        if transform == "year":
            return str(1970 + value)
        if transform == "month":
            return f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"
        if transform == "day":
            return (_EPOCH + timedelta(days=value)).strftime("%Y-%m-%d")
        if transform == "hour":
            return (_EPOCH + timedelta(hours=value)).strftime("%Y-%m-%d-%H")
    except OverflowError:  # hostile manifests have days that no calendar has: the number is shown
        pass
    return str(value)


def _content_file(file: Mapping[str, Any]) -> ContentFile:
    content, kind = _number(file.get("content") or 0), _storable(str(file.get("file_format", "")).lower()[:20])
    size = _number(file.get("file_size_in_bytes"))
    if content == _DATA:
        deletes = None
    elif content == _EQUALITY_DELETES:
        deletes = EQUALITY_DELETES
    elif content == _POSITION_DELETES:
        deletes = DELETION_VECTORS if kind == "puffin" else POSITION_DELETES
        if kind == "puffin" and file.get("content_size_in_bytes") is not None:
            size = _number(file["content_size_in_bytes"])
    else:
        raise ManifestUnreadable(f"a file has the unknown content {content}")
    return ContentFile(deletes, kind, size, _number(file.get("record_count")))


def _storable(text: str) -> str:
    """Return the text without U+0000, which PostgreSQL refuses."""
    return text.replace("\0", "\ufffd")


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MAX_LONG:
        raise ManifestUnreadable("a number is missing, negative or too large")
    return value


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bytes | date | type(None)) else str(value)


def _spec_id_of(data: bytes) -> int:
    try:
        text = str(fastavro.reader(BytesIO(data)).metadata.get("partition-spec-id", "0"))
        return int(text) if text.isascii() and text.isdigit() else 0
    except Exception as error:  # noqa: BLE001 - whatever the decoder raises for a hostile file
        raise _unreadable(error) from None


def _read(data: bytes, fields: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Iterate the records of an Avro file, with these of their fields only. Raises `ManifestUnreadable`."""
    try:
        header = fastavro.reader(BytesIO(data))
        _require_codec(header.codec)
        written = json.loads(header.metadata["avro.schema"])
        reader = _open(data, _keep(_keep(written, fields), _FILE_FIELDS, inside="data_file"))
    except ManifestUnreadable:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the decoder raises for a hostile file
        raise _unreadable(error) from None
    while True:
        try:
            record = next(reader)
        except StopIteration:
            return
        except Exception as error:  # noqa: BLE001 - see above
            raise _unreadable(error) from None
        if not isinstance(record, dict):
            raise ManifestUnreadable("its entries are not records")
        yield record


def _open(data: bytes, schema: Any) -> Iterator[Any]:
    """Open a file with a part of its schema, or with all of it if the part refers to a type that the rest defines."""
    try:
        return iter(fastavro.reader(BytesIO(data), reader_schema=schema))
    except fastavro.schema.UnknownType:
        return iter(fastavro.reader(BytesIO(data)))


def _read_zstandard_block(stream: BinaryIO) -> BytesIO:
    """Decompress a block: its length as a zigzag number, then a frame. The memory of the process bounds the result."""
    length = shift = 0
    while True:
        (byte,) = stream.read(1)
        length |= (byte & _SEVEN_BITS) << shift
        if byte <= _SEVEN_BITS:
            break
        shift += 7
    assert zstandard is not None  # noqa: S101 - it is registered only then
    return BytesIO(zstandard.ZstdDecompressor().decompressobj().decompress(stream.read(length >> 1)))


CODECS: Final = ("null", "deflate", *(() if zstandard is None else ("zstandard",)))
if zstandard is not None:
    # fastavro itself knows it only with another package.
    fastavro_read.BLOCK_READERS["zstandard"] = _read_zstandard_block


def _require_codec(codec: str) -> None:
    if codec not in CODECS:
        raise ManifestUnreadable(f"it is compressed with {codec[:20]!r}; this server reads {', '.join(CODECS)}")


def _keep(schema: Any, fields: frozenset[str], *, inside: str | None = None) -> Any:
    """Return a record schema with only these fields; `inside`: of the record that is the type of that field."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ManifestUnreadable("its entries are not records")
    if inside is None:
        return {**schema, "fields": [each for each in schema["fields"] if each.get("name") in fields]}
    return {
        **schema,
        "fields": [
            {**each, "type": _keep(each["type"], fields)} if each.get("name") == inside else each
            for each in schema["fields"]
        ],
    }


def _unreadable(error: Exception) -> ManifestUnreadable:
    return ManifestUnreadable(f"it is no Avro file that can be read ({type(error).__name__})")
