"""Statistics files, partition statistics files and encryption keys: documents beside the snapshots.

Java: `StatisticsFileParser`, `PartitionStatisticsFileParser`, `EncryptedKeyParser`.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from catalog.iceberg.json_fields import (
    as_object,
    as_string_map,
    field_path,
    optional_string,
    read_int_list,
    read_list,
    read_long,
    read_string,
    wrong_type,
)
from icekeeper.kernel.errors.types import BadRequest


def check_statistics_file(document: dict[str, Any], where: str) -> int:
    """Check a `statistics` entry and give its snapshot id; any blob type is legal (Puffin leaves them open)."""
    read_string(document, "statistics-path", where)
    read_long(document, "file-size-in-bytes", where)
    read_long(document, "file-footer-size-in-bytes", where)
    optional_string(document, "key-metadata", where)
    for index, item in enumerate(read_list(document, "blob-metadata", where)):
        path = f"{field_path(where, 'blob-metadata')}[{index}]"
        blob = as_object(item, path)
        read_string(blob, "type", path)
        read_long(blob, "snapshot-id", path)
        read_long(blob, "sequence-number", path)
        read_int_list(blob, "fields", path)
        if "properties" in blob:
            as_string_map(blob["properties"], field_path(path, "properties"))
    return read_long(document, "snapshot-id", where)


def check_partition_statistics_file(document: dict[str, Any], where: str) -> int:
    """Check a `partition-statistics` entry and give its snapshot id."""
    read_string(document, "statistics-path", where)
    read_long(document, "file-size-in-bytes", where)
    return read_long(document, "snapshot-id", where)


def check_encryption_key(document: dict[str, Any], where: str) -> str:
    """Check an `encryption-keys` entry and give its key id."""
    path = field_path(where, "encrypted-key-metadata")
    text = read_string(document, "encrypted-key-metadata", where)
    try:
        # Java's decoder takes text without padding
        base64.b64decode(text if text.endswith("=") else text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise wrong_type(path, "base64 text", text) from None
    optional_string(document, "encrypted-by-id", where)
    if "properties" in document:
        as_string_map(document["properties"], field_path(where, "properties"))
    key_id = read_string(document, "key-id", where)
    if not key_id:
        raise BadRequest(f"{field_path(where, 'key-id')}: must not be empty")
    return key_id
