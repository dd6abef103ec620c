"""Default locations of new namespaces and tables, by the `storage-layout` of their warehouse.

A layout applies to new objects; existing ones keep their location. All locations are normalized.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

from icekeeper.kernel.errors.types import InvalidLocation
from storage.profiles.location import normalize

MAX_SEGMENT_BYTES: Final = 255
"""Limit of a folder's name in local file systems, MinIO and Azure."""

MAX_KEY_BYTES: Final = 950
"""Limit of a folder's path: keys of S3 and GCS have at most 1,024 bytes, and names of metadata files need 74."""


def namespace_location(profile: dict[str, Any], *, base: str, parent: str | None, name: str, namespace_id: UUID) -> str:
    """Return the location of a new namespace: below that of its `parent`, or `base` if the layout has no namespaces.

    Raises `InvalidLocation` for a name from which the layout builds no valid location.
    """
    layout = profile.get("storage-layout") or {}
    if layout.get("type") != "full-hierarchy":
        return base
    return _below(parent or base, layout["namespace"], name, namespace_id, base=base)


def tabular_location(profile: dict[str, Any], *, base: str, folder: str, name: str, tabular_id: object) -> str:
    """Return the location of a new table, view or generic table in the `folder` of its namespace.

    Raises `InvalidLocation` for a name from which the layout builds no valid location.
    """
    template = (profile.get("storage-layout") or {}).get("tabular")
    return f"{folder}/{tabular_id}" if template is None else _below(folder, template, name, tabular_id, base=base)


def _below(folder: str, template: str, name: str, id_: object, *, base: str) -> str:
    """Fill in the template: the id first, then the percent-encoded name, which has no placeholder or slash."""
    segment = template.replace("{uuid}", str(id_)).replace("{name}", quote(name, safe=""))
    location = f"{folder}/{segment}"
    try:
        _require_acceptable(location, segment, base)
    except InvalidLocation as error:
        raise InvalidLocation(
            f"The storage-layout of the warehouse builds the folder {segment[:300]!r} from the name {name!r}: "
            f"{error.message}. Choose a location, or another name"
        ) from None
    return location


def _require_acceptable(location: str, segment: str, base: str) -> None:
    if len(segment.encode()) > MAX_SEGMENT_BYTES:
        raise InvalidLocation(f"it is longer than {MAX_SEGMENT_BYTES} bytes")
    normalize(location, base=base)
    path = location.partition("://")[2].partition("/")[2]
    if not base.startswith("file:") and len(path.encode()) > MAX_KEY_BYTES:
        raise InvalidLocation(f"its path in the store is longer than {MAX_KEY_BYTES} bytes")
