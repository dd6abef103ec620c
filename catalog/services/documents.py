"""Metadata on its way into a file."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from icekeeper.kernel.errors import BadRequest
from icekeeper.kernel.json_text import write_json


def write_metadata(metadata: dict[str, Any]) -> bytes:
    """The bytes of a metadata file. Raises `BadRequest` for more than would ever be read again."""
    document = write_json(metadata)
    limit = settings.ICEKEEPER.metadata_file_limit
    if len(document) > limit:
        raise BadRequest(f"The table's metadata would be {len(document)} bytes; at most {limit} are allowed")
    return document
