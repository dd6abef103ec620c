"""Metadata files of new versions: serialization, inline storage in the database, deletion of expired ones."""

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
    """Serialize a metadata file. Raises `BadRequest` when it would exceed the limit of reads."""
    document = write_json(metadata)
    limit = settings.ICEKEEPER.metadata_file_limit
    if len(document) > limit:
        raise BadRequest(f"The metadata would be {len(document)} bytes; at most {limit} are allowed")
    return document


def inline_or_none(document: bytes, kind: str) -> bytes | None:
    """Return the document to store in the database: the whole document, or None when it is too large.

    Documents of views are always stored: they define whose permissions a read needs, and others can change the files.
    """
    is_inline = kind == Tabular.Kind.VIEW or len(document) <= settings.ICEKEEPER.metadata_inline_limit
    return document if is_inline else None


def delete_orphaned_metadata(store: ObjectStore, metadata_locations: Sequence[str]) -> None:
    """Delete metadata files that no pointer refers to. Never raises: a failure leaves orphaned files and is logged."""
    if not metadata_locations:
        return
    try:
        store.delete_many(metadata_locations)
    except Exception as error:  # noqa: BLE001
        reason = error.message if isinstance(error, CatalogError) else repr(error)
        logger.warning("metadata files are left: %s", reason, extra={"locations": list(metadata_locations)[:10]})


MAX_FILES_PER_DELETE: Final = 1000
"""Expired files that one commit deletes: the maximum of one request to S3. The rest is not deleted."""

_NAMES: Final = (".metadata.json", ".metadata.json.gz")


def deletable_files(
    metadata: dict[str, Any], expired: Sequence[str], *, base: str, metadata_location: str
) -> list[str]:
    """Return the `expired` files that the table of `metadata` may delete, in compared form.

    The log of a registered table is not trusted. A deletable file must have the name of a metadata file, must be below
    the table's location or in the folder of its metadata files, which no other tabular uses, and must not be referenced
    by the new version at `metadata_location`.
    """
    if not expired or not deletes_expired_files(metadata):
        return []
    still_named = {entry["metadata-file"] for entry in metadata.get("metadata-log") or ()} | {metadata_location}
    kept = set(_compared(still_named, base))
    folders = tuple(f"{folder}/" for folder in _compared([metadata["location"], metadata_folder(metadata)], base))
    files = dict.fromkeys(_compared(expired, base))
    return [file for file in files if file.startswith(folders) and file.endswith(_NAMES) and file not in kept]


def _compared(locations: Iterable[object], base: str) -> Iterable[str]:
    """Return the locations inside of the warehouse at `base`, in compared form."""
    for location in locations:
        with suppress(InvalidLocation):
            yield location_inside(location, base=base)
