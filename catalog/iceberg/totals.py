"""What the metadata of a table says in numbers about its current snapshot, as the writer of that snapshot counted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from catalog.iceberg.json_fields import LONG_RANGE
from catalog.iceberg.types import TableMetadata

_NUMBER: Final = re.compile(r"[0-9]{1,19}", re.ASCII)


class Totals(NamedTuple):
    """Numbers of the current snapshot, None where its summary lacks them; of an empty table all are 0.

    `files_size` is in bytes and includes delete files. `manifests` is known where the writer counts them (Iceberg Java
    since 1.11). Snapshots and refs are those of the whole table; `target_file_size` is its property, None without it.
    The names are those of the columns of `TableTotals`.
    """

    records: int | None
    files_size: int | None
    data_files: int | None
    delete_files: int | None
    position_deletes: int | None
    equality_deletes: int | None
    manifests: int | None
    snapshot_count: int
    ref_count: int
    target_file_size: int | None


_TARGET_FILE_SIZE: Final = "write.target-file-size-bytes"


def read_totals(metadata: TableMetadata) -> Totals:
    """Return the numbers of table metadata (table spec, "Optional snapshot summary fields")."""
    snapshots, refs = metadata.get("snapshots") or (), metadata.get("refs") or ()
    target_file_size = read_number(metadata.get("properties") or {}, _TARGET_FILE_SIZE)
    current = metadata.get("current-snapshot-id")
    if current is None or current == -1:
        return Totals(0, 0, 0, 0, 0, 0, 0, len(snapshots), len(refs), target_file_size)
    # The current snapshot is mostly the last one.
    found = next((each for each in reversed(snapshots) if each["snapshot-id"] == current), None)
    summary = (found.get("summary") if found is not None else None) or {}
    created, kept = read_number(summary, "manifests-created"), read_number(summary, "manifests-kept")
    return Totals(
        records=read_number(summary, "total-records"),
        files_size=read_number(summary, "total-files-size"),
        data_files=read_number(summary, "total-data-files"),
        delete_files=read_number(summary, "total-delete-files"),
        position_deletes=read_number(summary, "total-position-deletes"),
        equality_deletes=read_number(summary, "total-equality-deletes"),
        manifests=None if created is None or kept is None else min(created + kept, LONG_RANGE[1]),
        snapshot_count=len(snapshots),
        ref_count=len(refs),
        target_file_size=target_file_size,
    )


def may_change_totals(base: TableMetadata, metadata: TableMetadata) -> bool:
    """Return whether the totals of `metadata`, a new version of `base`, may differ from those of `base`.

    Takes the same short time for every table: a version shares the parts that it does not change with its base.
    """
    if metadata.get("snapshots") is not base.get("snapshots"):
        return True
    if metadata.get("current-snapshot-id") != base.get("current-snapshot-id"):
        return True
    if len(metadata.get("refs") or ()) != len(base.get("refs") or ()):
        return True
    before, after = base.get("properties") or {}, metadata.get("properties") or {}
    return before is not after and before.get(_TARGET_FILE_SIZE) != after.get(_TARGET_FILE_SIZE)


def read_number(summary: Mapping[str, Any], key: str) -> int | None:
    """Return a number of a summary or of properties, None if it is missing or not a 64-bit number of at least 0."""
    text = summary.get(key)
    if not isinstance(text, str) or _NUMBER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number <= LONG_RANGE[1] else None


MAX_ENGINE_LENGTH: Final = 80


def read_engine(summary: Mapping[str, Any]) -> str:
    """Return name and release of the engine that wrote a snapshot or view version, such as `spark 4.1.0`; or empty."""
    name, release = summary.get("engine-name", ""), summary.get("engine-version", "")
    text = f"{name} {release}".strip().replace("\0", "\ufffd")
    return text[:MAX_ENGINE_LENGTH]
