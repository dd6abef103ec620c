"""Metadata files of new versions: serialized, kept inline in the database, and deleted when no version names them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from django.conf import settings

from catalog.iceberg.metadata_files import deletes_expired_files, metadata_folder
from catalog.models import Tabular
from icekeeper.kernel.errors.types import BadRequest, CatalogError, InvalidLocation
from icekeeper.kernel.json.strict import write_json
from storage.io.port import ObjectStore
from storage.profiles.location import location_inside

logger = logging.getLogger("icekeeper.catalog")


def write_metadata(metadata: dict[str, Any]) -> bytes:
    """The JSON of a metadata file. Raises `BadRequest` for more than would ever be read again."""
    document = write_json(metadata)
    limit = settings.ICEKEEPER.metadata_file_limit
    if len(document) > limit:
        raise BadRequest(f"The metadata would be {len(document)} bytes; at most {limit} are allowed")
    return document


def inline_or_none(document: bytes, kind: str) -> bytes | None:
    """What of a document stands in the database: all of it, or nothing when it is too large.

    Those of views always: they say with whose rights something is read, and files can be changed by others.
    """
    is_kept = kind == Tabular.Kind.VIEW or len(document) <= settings.ICEKEEPER.metadata_inline_limit
    return document if is_kept else None


def delete_orphaned_metadata(store: ObjectStore, metadata_locations: Sequence[str]) -> None:
    """Delete metadata files that certainly no pointer names. Left undone they are orphans, not an error.

    Whatever fails, it does not change what the caller has to say of its own work.
    """
    if not metadata_locations:
        return
    try:
        store.delete_many(metadata_locations)
    except Exception as error:  # noqa: BLE001
        reason = error.message if isinstance(error, CatalogError) else repr(error)
        logger.warning("metadata files are left: %s", reason, extra={"locations": list(metadata_locations)[:10]})


MAX_FILES_PER_DELETE: Final = 1000
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
