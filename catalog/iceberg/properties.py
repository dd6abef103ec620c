"""Properties of tables and views, and their updates. Java: `TableProperties`, `ViewProperties`."""

from __future__ import annotations

from typing import Any, Final

from catalog.iceberg.draft import Draft, WorkingCopy
from catalog.iceberg.json_fields import as_string_map, clip, parse_int, read_object, read_string_list
from icekeeper.kernel.errors.types import BadRequest

RESERVED_PROPERTIES: Final = frozenset(
    {
        "format-version",
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)
"""They steer a request or mirror the metadata, and are never stored ("Reserved table properties")."""

PREVIOUS_VERSIONS_MAX: Final = "write.metadata.previous-versions-max"


def read_table_properties(value: Any, where: str) -> dict[str, str]:
    """Return the properties of a request for a table without the reserved ones; null is none.

    Raises `BadRequest` for a value that is no string, and for one that this engine itself could not use later.
    """
    if value is None:
        return {}
    properties = {name: text for name, text in as_string_map(value, where).items() if name not in RESERVED_PROPERTIES}
    limit = properties.get(PREVIOUS_VERSIONS_MAX)
    if limit is not None and parse_int(limit) is None:
        raise BadRequest(f"{where}.{PREVIOUS_VERSIONS_MAX}: expected an integer, got {clip(limit)}")
    return properties


def on_set_properties(draft: Draft, update: dict[str, Any]) -> None:
    """set-properties; `updated` is the name that clients before 1.0 used."""
    name = "updated" if "updates" not in update and "updated" in update else "updates"
    properties = read_table_properties(read_object(update, name, ""), name)
    if properties:
        draft.own("properties", {}).update(properties)


def on_remove_properties(draft: WorkingCopy, update: dict[str, Any]) -> None:
    """remove-properties; a missing key is no error. `removed` is the name that clients before 1.0 used."""
    name = "removed" if "removals" not in update and "removed" in update else "removals"
    for key in read_string_list(update, name, ""):
        if key in (draft.metadata.get("properties") or {}):
            del draft.own("properties", {})[key]


HISTORY_SIZE: Final = "version.history.num-entries"
DEFAULT_HISTORY_SIZE: Final = 10
DROP_DIALECT_ALLOWED: Final = "replace.drop-dialect.allowed"


def read_view_properties(value: Any, where: str) -> dict[str, str]:
    """Return the properties of a request for a view; null is none.

    Raises `BadRequest` for a value that is no string, and for one that this engine itself could not use later.
    """
    if value is None:
        return {}
    properties = as_string_map(value, where)
    size = properties.get(HISTORY_SIZE)
    if size is not None:
        number = parse_int(size)
        if number is None:
            raise BadRequest(f"{where}.{HISTORY_SIZE}: expected an integer, got {clip(size)}")
        if number <= 0:
            raise BadRequest(f"{where}: {HISTORY_SIZE} must be positive but was {number}")
    return properties


def history_size(properties: dict[str, str]) -> int:
    """Return the maximum number of versions of a view.

    An invalid value in a file of another writer counts as unset, so that the view remains writable.
    """
    size = parse_int(properties.get(HISTORY_SIZE, ""))
    return DEFAULT_HISTORY_SIZE if size is None or size <= 0 else size


def may_drop_dialects(properties: dict[str, str]) -> bool:
    """Return whether a version may lack a dialect of the one that it replaces: only with "true"."""
    return properties.get(DROP_DIALECT_ALLOWED, "").lower() == "true"
