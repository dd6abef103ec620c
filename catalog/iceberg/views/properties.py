"""View properties: strings, none reserved. Java: `ViewProperties`."""

from __future__ import annotations

from typing import Any, Final

from catalog.iceberg.json_fields import as_string_map, clip
from catalog.iceberg.properties import parse_int
from icekeeper.kernel.errors.types import BadRequest

HISTORY_SIZE: Final = "version.history.num-entries"
DEFAULT_HISTORY_SIZE: Final = 10
DROP_DIALECT_ALLOWED: Final = "replace.drop-dialect.allowed"


def read_view_properties(value: Any, where: str) -> dict[str, str]:
    """The properties of a request; null is none.

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
    """Whether a version may lack a dialect of the one that it replaces; anything but "true" is no."""
    return properties.get(DROP_DIALECT_ALLOWED, "").lower() == "true"
