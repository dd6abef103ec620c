"""The folder that a credential is for."""

from __future__ import annotations

from storage.profiles.location import location_inside
from storage.profiles.profile import Profile


def folder_of(location: str, profile: Profile) -> str:
    """The path in the bucket or container, without slashes around it and never empty.

    Raises `InvalidLocation` for what does not lie below the profile's base, and for the base itself: a credential for
    that would open every table of the warehouse.
    """
    inside = location_inside(location, base=profile.location)
    return inside.partition("://")[2].partition("/")[2]
