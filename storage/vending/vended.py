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
    """Deleting included: writers replace files."""


@dataclass(frozen=True, slots=True)
class Vended:
    """`config` is the credential in the words of clients' configuration, such as `s3.access-key-id`.

    It is shared with others that got the same one: not to be changed. `expires_at`, in UTC, is the store's own word.
    """

    config: dict[str, str] = field(repr=False)
    expires_at: datetime

    @property
    def expires_at_ms(self) -> str:
        """Milliseconds since the epoch, as clients expect it."""
        return str(int(self.expires_at.timestamp() * 1000))


def folder_of(location: str, profile: Profile) -> str:
    """The path in the bucket or container, without slashes around it and never empty.

    Raises `InvalidLocation` for what does not lie below the profile's base, and for the base itself: a credential for
    that would open every table of the warehouse.
    """
    inside = location_inside(location, base=profile.location)
    return inside.partition("://")[2].partition("/")[2]
