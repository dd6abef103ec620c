"""Names, folders and encoding of metadata files: `<folder>/NNNNN-<uuid>[.gz].metadata.json`.

Java's `TableMetadataParser` and `ViewMetadataParser` use the same format. Java detects a compressed file by its name,
this module by its first bytes, so that a file of any name can be registered.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from typing import Any, Final

from catalog.iceberg.json_fields import clip
from icekeeper.kernel.errors.types import BadRequest

FOLDER: Final = "write.metadata.path"
CODEC: Final = "write.metadata.compression-codec"
DELETE_AFTER_COMMIT: Final = "write.metadata.delete-after-commit.enabled"

_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 31
"""zlib's sign for the gzip format with the largest window."""
_GZIP_LEVEL: Final = 6
_MAX_VERSION_DIGITS: Final = 9


def metadata_folder(metadata: dict[str, Any]) -> str:
    """Where the metadata files of a table or view go, without a trailing slash."""
    chosen = (metadata.get("properties") or {}).get(FOLDER)
    return str(chosen).rstrip("/") if chosen else f"{metadata['location'].rstrip('/')}/metadata"


def first_metadata_location(metadata: dict[str, Any], file_id: object) -> str:
    return _location(metadata, 0, file_id)


def next_metadata_location(metadata: dict[str, Any], previous: str, file_id: object) -> str:
    """One version on from `previous` where its name has a version."""
    version = file_version(previous)
    return _location(metadata, 0 if version is None else version + 1, file_id)


def file_version(metadata_location: str) -> int | None:
    """The version that the name of a metadata file begins with; each commit counts it up by one."""
    digits = metadata_location.rsplit("/", 1)[-1].split("-", 1)[0]
    has_version = digits.isascii() and digits.isdigit() and len(digits) <= _MAX_VERSION_DIGITS
    return int(digits) if has_version else None


def is_first_metadata_file(name: str, id_ending: str) -> bool:
    """Whether a file of this name, without folder, is a first version whose id ends in `id_ending`."""
    stem, _, ending = name.partition(".")
    is_metadata = ending in {"metadata.json", "gz.metadata.json"}
    return is_metadata and file_version(name) == 0 and stem.endswith(id_ending)


def referenced_files(metadata: dict[str, Any]) -> Iterator[str]:
    """Iterate the files that the metadata of a table names: older metadata files, manifest lists and statistics.

    Data files and manifests are named in manifests only. Malformed members are skipped: clients can write such a file.
    """
    for member, key in (
        ("metadata-log", "metadata-file"),
        ("snapshots", "manifest-list"),
        ("statistics", "statistics-path"),
        ("partition-statistics", "statistics-path"),
    ):
        entries = metadata.get(member)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get(key), str):
                yield entry[key]


def encode(document: bytes, metadata: dict[str, Any]) -> bytes:
    """The bytes of the file that says `document`."""
    return gzip.compress(document, _GZIP_LEVEL, mtime=0) if _codec(metadata) == "gzip" else document


def decode(data: bytes, *, limit: int) -> bytes:
    """The JSON in a metadata file. Raises `BadRequest` for one that unfolds to more than `limit` bytes or is broken."""
    if not data.startswith(_GZIP_MAGIC):
        return data
    inflater = zlib.decompressobj(wbits=_GZIP_WINDOW)
    try:
        document = inflater.decompress(data, limit + 1)
    except zlib.error:
        raise BadRequest("The metadata file is not gzip, although it begins like it") from None
    if len(document) > limit:
        raise BadRequest(f"The metadata file unfolds to more than {limit} bytes")
    if not inflater.eof:
        raise BadRequest("The metadata file ends in the midst of its gzip stream")
    return document


def deletes_expired_files(metadata: dict[str, Any]) -> bool:
    """Whether metadata files that fall out of the metadata log are to be deleted after the commit; default: no."""
    return str((metadata.get("properties") or {}).get(DELETE_AFTER_COMMIT, "")).lower() == "true"


def _location(metadata: dict[str, Any], version: int, file_id: object) -> str:
    ending = ".gz.metadata.json" if _codec(metadata) == "gzip" else ".metadata.json"
    return f"{metadata_folder(metadata)}/{version:05d}-{file_id}{ending}"


def _codec(metadata: dict[str, Any]) -> str:
    given = (metadata.get("properties") or {}).get(CODEC) or "none"
    codec = str(given).lower()
    if codec not in {"none", "gzip"}:
        raise BadRequest(f"Property {CODEC}: must be none or gzip, not {clip(str(given))!r}")
    return codec
