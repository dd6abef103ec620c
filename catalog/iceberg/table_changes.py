"""Updates of a table's identity, format version, location, statistics files and encryption keys.

Java: `TableMetadata.Builder`, `StatisticsFileParser`, `PartitionStatisticsFileParser`, `EncryptedKeyParser`.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

from catalog.iceberg.draft import Draft, WorkingCopy
from catalog.iceberg.json_fields import (
    as_object,
    as_string_map,
    clip,
    field_path,
    optional_string,
    read_int,
    read_int_list,
    read_list,
    read_long,
    read_object,
    read_string,
    wrong_type,
)
from catalog.iceberg.types import ROW_LINEAGE_VERSION, SUPPORTED_FORMAT_VERSIONS
from icekeeper.kernel.errors.types import BadRequest

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def check_uuid(text: str, where: str) -> str:
    """A UUID in its usual spelling of 36 characters: readers other than Java's parse it."""
    if _UUID.fullmatch(text) is None:
        raise BadRequest(f"{where}: expected a UUID, got {clip(text)}")
    return text


def check_format_version(version: int, where: str) -> int:
    if version not in SUPPORTED_FORMAT_VERSIONS:
        supported = ", ".join(f"v{known}" for known in SUPPORTED_FORMAT_VERSIONS)
        raise BadRequest(f"{where}: Unsupported format version: v{version} (supported: {supported})")
    return version


def clean_location(text: str, where: str) -> str:
    """A location without trailing slashes (`s3://` alone keeps its own), as Java stores it."""
    while text.endswith("/") and not text.endswith("://"):
        text = text[:-1]
    if not text:
        raise BadRequest(f"{where}: location must not be empty")
    return text


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


def on_assign_uuid(draft: Draft, update: dict[str, Any]) -> None:
    """assign-uuid. A table keeps the UUID it has (the REST spec calls anything else unsafe); equal is no change."""
    uuid = check_uuid(read_string(update, "uuid", ""), "uuid")
    existing = None if draft.base is None else draft.base.get("table-uuid")
    if existing is None:
        draft.metadata["table-uuid"] = uuid
    elif existing.lower() != uuid.lower():
        raise BadRequest(f"uuid: Cannot reassign uuid of a table: {existing} to {uuid}")


def on_upgrade_format_version(draft: Draft, update: dict[str, Any]) -> None:
    version = check_format_version(read_int(update, "format-version", ""), "format-version")
    current = draft.format_version
    if version < current:
        raise BadRequest(f"format-version: Cannot downgrade v{current} table to v{version}")
    if version == current:
        return
    draft.metadata["format-version"] = version
    if current == 1:
        draft.metadata["last-sequence-number"] = 0
        draft.metadata.pop("schema", None)
        draft.metadata.pop("partition-spec", None)
    if current < ROW_LINEAGE_VERSION <= version:
        draft.metadata["next-row-id"] = 0


def on_set_location(draft: WorkingCopy, update: dict[str, Any]) -> None:
    draft.metadata["location"] = clean_location(read_string(update, "location", ""), "location")


def on_set_statistics(draft: Draft, update: dict[str, Any]) -> None:
    """set-statistics: one file a snapshot, which need not exist; the deprecated outer `snapshot-id` is ignored."""
    document = read_object(update, "statistics", "")
    draft.replace_files("statistics", check_statistics_file(document, "statistics"), [document])


def on_remove_statistics(draft: Draft, update: dict[str, Any]) -> None:
    draft.replace_files("statistics", read_long(update, "snapshot-id", ""), [])


def on_set_partition_statistics(draft: Draft, update: dict[str, Any]) -> None:
    document = read_object(update, "partition-statistics", "")
    snapshot_id = check_partition_statistics_file(document, "partition-statistics")
    draft.replace_files("partition-statistics", snapshot_id, [document])


def on_remove_partition_statistics(draft: Draft, update: dict[str, Any]) -> None:
    draft.replace_files("partition-statistics", read_long(update, "snapshot-id", ""), [])


def on_add_encryption_key(draft: Draft, update: dict[str, Any]) -> None:
    """add-encryption-key (version 3); a key id that exists keeps its key."""
    document = read_object(update, "encryption-key", "")
    key_id = check_encryption_key(document, "encryption-key")
    if draft.format_version < ROW_LINEAGE_VERSION:
        raise BadRequest(f"encryption-key: encryption keys are not supported until v{ROW_LINEAGE_VERSION}")
    if key_id not in draft.encryption_keys:
        draft.add_key(document)


def on_remove_encryption_key(draft: Draft, update: dict[str, Any]) -> None:
    key_id = read_string(update, "key-id", "")
    if key_id in draft.encryption_keys:
        draft.remove_key(key_id)
