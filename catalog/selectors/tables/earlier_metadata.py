"""Earlier metadata files of a table or view, which the log of its current metadata names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import UUID

from catalog.selectors.tables.load import LoadedTabular
from catalog.selectors.tables.metadata_cache import read_metadata_file
from icekeeper.kernel.errors.types import NotFound
from icekeeper.kernel.ids import parse_id
from icekeeper.kernel.json.strict import read_stored_json

_OWN_FILE: Final = re.compile(r"(?:[\w=+@,-][\w.=+@,-]*/)*[\w=+@,-][\w.=+@,-]*\.metadata\.json", re.ASCII)
"""A metadata file below a folder of the table; nothing that a store could resolve to another folder."""


class EarlierFile(NamedTuple):
    """An entry of the log, newest first. `key` names it in addresses; empty if the file cannot be read from here."""

    key: str
    location: str
    timestamp_ms: Any


def list_earlier_files(loaded: LoadedTabular, metadata: Mapping[str, Any]) -> list[EarlierFile]:
    """Return the log of the metadata, which the caller loaded. Files outside of the folders of the table have no key.

    A registered table has the log that its file had: it may name files of other tables.
    """
    folders = () if loaded.files is None else loaded.files.locations
    return [
        EarlierFile(_key_of(location, folders), location, entry.get("timestamp-ms"))
        for entry in reversed(metadata.get("metadata-log") or [])
        for location in [str(entry.get("metadata-file"))]
    ]


def read_earlier_file(loaded: LoadedTabular, metadata: Mapping[str, Any], key: str) -> tuple[str, bytes]:
    """Return name and content of an earlier metadata file, decompressed, with the size limit of all metadata files.

    `loaded` is the current version as the caller loaded it. Raises `NotFound` if the log has no such file, if it was
    deleted, or if it is not a metadata file of this table or view; as `read_metadata_file`.
    """
    found = next((each for each in list_earlier_files(loaded, metadata) if key and each.key == key), None)
    if found is None or loaded.files is None:
        raise NotFound("No such metadata file")
    content = read_metadata_file(loaded.files.storage, found.location)
    if _uuid_of(content) not in {None, _uuid(metadata)}:
        raise NotFound("No such metadata file")
    return found.location.rsplit("/", 1)[-1], content


def _key_of(location: str, folders: tuple[str, ...]) -> str:
    for folder in folders:
        if location.startswith(f"{folder}/") and _OWN_FILE.fullmatch(location[len(folder) + 1 :]):
            return sha256(location.encode()).hexdigest()[:32]
    return ""


def _uuid_of(content: bytes) -> UUID | None:
    """Return the UUID of a metadata file; None in old files without one. Raises `NotFound` for other files."""
    try:
        document = read_stored_json(content)
    except ValueError:
        document = None
    if not isinstance(document, dict) or "format-version" not in document:
        raise NotFound("No such metadata file")
    return _uuid(document)


def _uuid(metadata: Mapping[str, Any]) -> UUID | None:
    return parse_id(str(metadata.get("table-uuid") or metadata.get("view-uuid") or ""))
