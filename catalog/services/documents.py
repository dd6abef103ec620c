"""Metadata on its way into a file."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from django.conf import settings

from catalog.models import Tabular
from icekeeper.kernel.errors.types import BadRequest, CatalogError
from icekeeper.kernel.json.strict import write_json
from storage.io.port import ObjectStore

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
