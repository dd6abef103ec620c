"""Vended credentials, and the folder and access that they are limited to."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from storage.profiles.location import location_inside
from storage.profiles.profile import Profile


class FileAccess(Enum):
    READ = "read"
    READ_WRITE = "read-write"
    """Includes deletion: writers replace files."""


@dataclass(frozen=True, slots=True)
class Vended:
    """A vended credential. `config` has the properties of clients, such as `s3.access-key-id`.

    It is cached and shared, so `config` must not be changed. `expires_at`, in UTC, is what the store says.
    """

    config: dict[str, str] = field(repr=False)
    expires_at: datetime

    @property
    def expires_at_ms(self) -> str:
        """Return milliseconds since the epoch, as clients expect them."""
        return str(int(self.expires_at.timestamp() * 1000))


def folder_of(location: str, profile: Profile) -> str:
    """Return the path of a location in the bucket or container, without surrounding slashes; never empty.

    Raises `InvalidLocation` for a location that is not below the base of the profile. The base itself is not allowed: a
    credential for it would open every table of the warehouse.
    """
    inside = location_inside(location, base=profile.location)
    return inside.partition("://")[2].partition("/")[2]
