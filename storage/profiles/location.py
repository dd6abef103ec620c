"""Locations as the store compares them: inside, same, parent, child."""

from __future__ import annotations

from collections.abc import Iterator

from icekeeper.kernel.errors import InvalidLocation
from storage.profiles.local import normalize_location


def location_inside(location: object, *, base: str) -> str:
    """The compared form of a location that a client chose; raises `InvalidLocation` unless it lies below `base`."""
    if not isinstance(location, str):
        raise InvalidLocation("The location must be a string")
    normalized = normalize_location(location)
    if not normalized.startswith(base + "/"):
        raise InvalidLocation(f"Location {location!r} does not lie in the warehouse, {base}")
    return normalized


def parents(location: str, *, base: str) -> Iterator[str]:
    """Every location between `base` (left out) and `location` (left out), outermost first."""
    at = len(base) + 1
    while (at := location.find("/", at)) != -1:
        yield location[:at]
        at += 1
