"""Metadata files that fell out of a table's log, of which its properties say that they go after the commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from catalog.iceberg.metadata_files import deletes_expired_files, metadata_folder
from icekeeper.kernel.errors.types import InvalidLocation
from storage.profiles.location import location_inside

MOST_AT_ONCE: Final = 1000
"""What one commit deletes: as much as one request to S3 can name. The rest is left."""

_NAMES: Final = (".metadata.json", ".metadata.json.gz")


def deletable_files(
    metadata: dict[str, Any], expired: Sequence[str], *, base: str, metadata_location: str
) -> list[str]:
    """Those of the `expired` files that the table of `metadata` may delete, in compared form.

    A registered log may say anything. So it must be a metadata file below the table's own location or in the folder of
    its metadata files, where nobody else lies, and none that the new version, at `metadata_location`, still names.
    """
    if not expired or not deletes_expired_files(metadata):
        return []
    still_named = {entry["metadata-file"] for entry in metadata.get("metadata-log") or ()} | {metadata_location}
    kept = set(_compared(still_named, base))
    folders = tuple(f"{folder}/" for folder in _compared([metadata["location"], metadata_folder(metadata)], base))
    files = dict.fromkeys(_compared(expired, base))
    return [file for file in files if file.startswith(folders) and file.endswith(_NAMES) and file not in kept]


def _compared(locations: Iterable[object], base: str) -> Iterable[str]:
    """Those that lie in the warehouse at `base`."""
    for location in locations:
        with suppress(InvalidLocation):
            yield location_inside(location, base=base)
