"""The two logs of a table: which snapshot was current when, and which metadata file came before (table spec)."""

from __future__ import annotations

from typing import Any

from catalog.iceberg.properties import previous_versions_max
from catalog.iceberg.types import LOG_CLOCK_SKEW_MS, TableMetadata
from icekeeper.kernel.errors.types import BadRequest


def append_previous_file(
    base: TableMetadata, base_metadata_location: str | None, properties: dict[str, str]
) -> tuple[list[Any], list[Any]]:
    """The metadata log of the version after `base`, and the entries that it no longer holds.

    The newest `write.metadata.previous-versions-max` of the new properties are kept, the one of `base` included.
    """
    log = list(base.get("metadata-log") or [])
    if base_metadata_location is None:
        return log, []
    log.append({"timestamp-ms": base["last-updated-ms"], "metadata-file": base_metadata_location})
    surplus = max(0, len(log) - previous_versions_max(properties))
    return log[surplus:], log[:surplus]


def next_update_time(base: TableMetadata | None, snapshot_log: list[Any], now_ms: int) -> int:
    """`last-updated-ms` of a commit: now, but never before what the table has already recorded.

    A clock that went back, or a client whose clock is ahead, must not yield a file that Java's readers refuse.
    """
    times = [now_ms]
    if base is not None:
        times.append(base["last-updated-ms"])
        times.extend(entry["timestamp-ms"] for entry in (base.get("metadata-log") or [])[-1:])
    times.extend(entry["timestamp-ms"] for entry in snapshot_log[-1:])
    return max(times)


def extend_snapshot_log(
    log: list[Any],
    changes: list[tuple[int, int | None]],
    *,
    current_id: int | None,
    was_current_id: int | None,
    now_ms: int,
) -> list[Any]:
    """The snapshot log after `main` went through `changes` in one request.

    A change is (snapshot id, its timestamp when the same request added it, else None). Added snapshots that are not
    current at the end were never seen by a reader and leave no entry. The time of a snapshot added now is its own,
    that of an older one is now.

    Raises `BadRequest` when an entry would lie more than a minute before its predecessor, as no Java reader would
    open the table any more.
    """
    extended = list(log)
    known_id = was_current_id
    for snapshot_id, added_at in changes:
        if added_at is not None and snapshot_id != current_id:
            continue
        if snapshot_id == known_id and extended and extended[-1]["snapshot-id"] == snapshot_id:
            continue
        previous_ms = extended[-1]["timestamp-ms"] if extended else None
        if added_at is not None and previous_ms is not None and added_at < previous_ms - LOG_CLOCK_SKEW_MS:
            raise BadRequest(
                f"Invalid snapshot timestamp {added_at}: more than a minute before the last snapshot log entry "
                f"at {previous_ms}"
            )
        since_ms = max(now_ms, previous_ms or now_ms) if added_at is None else added_at
        extended.append({"timestamp-ms": since_ms, "snapshot-id": snapshot_id})
        known_id = snapshot_id
    return extended


def cut_snapshot_log(log: list[Any], kept_ids: Any) -> list[Any]:
    """Return the log without all entries up to the last one of a removed snapshot.

    With a gap, time travel would return a snapshot that was not current at that time.
    """
    for index in range(len(log) - 1, -1, -1):
        if log[index]["snapshot-id"] not in kept_ids:
            return log[index + 1 :]
    return log
